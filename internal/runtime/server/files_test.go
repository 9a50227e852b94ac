package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/fileapi"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

func trusted(more ...string) headers {
	return append(headers{
		runtimeapi.HeaderGatewayToken, gatewayToken, runtimeapi.HeaderAccount, "demo", runtimeapi.HeaderUser, "alice",
	}, more...)
}

// get asks a file route; query is as it goes into the URL.
func (s *stack) get(t *testing.T, path, query string, h headers) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.web.URL+path+"?"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	resp, err := s.web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{code: resp.StatusCode, header: resp.Header, body: body}
}

func TestFileAnswersHaveTheDialectsShape(t *testing.T) {
	s := newFileStack(t, layFiles(t))
	for name, tc := range map[string]struct{ path, query, want string }{
		"stat of a file": {fileapi.PathStat, "uri=viking://resources/docs/a.md",
			`{"status":"ok","result":{"name":"a.md","uri":"viking://resources/docs/a.md","isDir":false,"size":14}}`},
		"stat through an alias": {fileapi.PathStat, "uri=viking://~/resources/n.md",
			`{"status":"ok","result":{"name":"n.md","uri":"viking://user/alice/resources/n.md","isDir":false,"size":4}}`},
		"ls": {fileapi.PathList, "uri=viking://resources/docs/b&output=agent&show_all_hidden=true",
			`{"status":"ok","result":[{"name":"deep","uri":"viking://resources/docs/b/deep","rel_path":"deep","isDir":true,"size":0},` +
				`{"name":"x.md","uri":"viking://resources/docs/b/x.md","rel_path":"x.md","isDir":false,"size":1}],"has_more":false}`},
		"ls with a limit, whose alias wins": {fileapi.PathList, "uri=viking://resources/docs/b&recursive=true&node_limit=9&limit=1",
			`{"status":"ok","result":[{"name":"deep","uri":"viking://resources/docs/b/deep","rel_path":"deep","isDir":true,"size":0}],"has_more":true}`},
		"read":            {fileapi.PathRead, "uri=viking://resources/docs/a.md", `{"status":"ok","result":"one\r\ntwo\nthree"}`},
		"read of a line":  {fileapi.PathRead, "uri=viking://resources/docs/a.md&offset=1&limit=1&raw=true", `{"status":"ok","result":"two\n"}`},
		"read of no line": {fileapi.PathRead, "uri=viking://resources/docs/a.md&limit=0", `{"status":"ok","result":""}`},
		"read past the end": {fileapi.PathRead, "uri=viking://resources/docs/a.md&offset=9&limit=-1",
			`{"status":"ok","result":""}`},
		"read of an empty file": {fileapi.PathRead, "uri=viking://resources/docs/b-c/z.md", `{"status":"ok","result":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.get(t, tc.path, tc.query, trusted())
			if a.code != http.StatusOK || string(a.body) != tc.want {
				t.Errorf("%d %s\nwant %s", a.code, a.body, tc.want)
			}
			if got := a.header.Get("Cache-Control"); got != "no-store" {
				t.Errorf("Cache-Control = %q", got)
			}
		})
	}
}

func TestFileListsAreBounded(t *testing.T) {
	s := newFileStack(t, layFiles(t, layMany))
	for query, want := range map[string]int{
		"":                  fileapi.DefaultListEntries,
		"&node_limit=70":    70,
		"&node_limit=99999": contentstore.MaxListEntries,
	} {
		a := s.get(t, fileapi.PathList, "uri=viking://resources/many&recursive=true"+query, trusted())
		got, err := fileapi.Decode(a.body)
		if err != nil {
			t.Fatal(err)
		}
		if entries, err := got.Entries(); err != nil || len(entries) != want || !got.HasMore {
			t.Errorf("ls%s = %d entries, more %t, %v; want %d", query, len(entries), got.HasMore, err, want)
		}
	}
}

func TestALongListIsCutToWhatAClientTakes(t *testing.T) {
	var listing contentstore.Listing
	for range contentstore.MaxListEntries {
		listing.Entries = append(listing.Entries, contentstore.Info{
			URI: "viking://" + strings.Repeat("u", 1000), Path: strings.Repeat("p", 1000),
		})
	}
	body, err := encodeListing(listing)
	if err != nil {
		t.Fatal(err)
	}
	got, err := fileapi.Decode(body)
	if err != nil || !got.HasMore || len(body) > fileapi.MaxListBytes || len(body) < fileapi.MaxListBytes/2 {
		t.Errorf("%d bytes, more %t, %v", len(body), got.HasMore, err)
	}
}

func TestFileRefusals(t *testing.T) {
	s := newFileStack(t, layFiles(t))
	cases := map[string]struct {
		path, query string
		h           headers
		status      int
		code        string
	}{
		"missing":                           {fileapi.PathStat, "uri=viking://resources/none", trusted(), 404, "NOT_FOUND"},
		"a list of what is missing":         {fileapi.PathList, "uri=viking://resources/none", trusted(), 404, "NOT_FOUND"},
		"hidden":                            {fileapi.PathRead, "uri=viking://resources/docs/.hidden/h.md", trusted(), 404, "NOT_FOUND"},
		"derived":                           {fileapi.PathRead, "uri=viking://resources/docs/.abstract.md", trusted(), 404, "NOT_FOUND"},
		"a directory that is read":          {fileapi.PathRead, "uri=viking://resources/docs", trusted(), 400, "INVALID_ARGUMENT"},
		"what is no text":                   {fileapi.PathRead, "uri=viking://resources/docs/binary", trusted(), 400, "INVALID_ARGUMENT"},
		"another user's tree":               {fileapi.PathStat, "uri=viking://user/bob/resources/b.md", trusted(), 403, "PERMISSION_DENIED"},
		"all users":                         {fileapi.PathList, "uri=viking://user", trusted(), 403, "PERMISSION_DENIED"},
		"a link":                            {fileapi.PathRead, "uri=viking://resources/docs/link.md", trusted(), 400, "INVALID_ARGUMENT"},
		"a link to another account":         {fileapi.PathRead, "uri=viking://resources/docs/up/docs/secret-of-other", trusted(), 400, "INVALID_ARGUMENT"},
		"dots":                              {fileapi.PathRead, "uri=viking://resources/../../other/resources/docs/secret-of-other", trusted(), 400, "INVALID_URI"},
		"encoded dots":                      {fileapi.PathRead, "uri=viking://resources/%252e%252e/x", trusted(), 400, "INVALID_URI"},
		"encoded slashes":                   {fileapi.PathRead, "uri=viking://resources/a%252fb", trusted(), 400, "INVALID_URI"},
		"once decoded dots":                 {fileapi.PathRead, "uri=viking://resources/%2e%2e/x", trusted(), 400, "INVALID_URI"},
		"an internal scope":                 {fileapi.PathStat, "uri=viking://temp/x", trusted(), 400, "INVALID_URI"},
		"a local path":                      {fileapi.PathRead, "uri=/etc/passwd", trusted(), 400, "INVALID_URI"},
		"no URI":                            {fileapi.PathStat, "", trusted(), 400, "INVALID_ARGUMENT"},
		"two URIs":                          {fileapi.PathStat, "uri=viking://resources&uri=viking://agent", trusted(), 400, "INVALID_ARGUMENT"},
		"a query that is none":              {fileapi.PathStat, "uri=%zz", trusted(), 400, "INVALID_ARGUMENT"},
		"an odd limit":                      {fileapi.PathList, "uri=viking://resources&limit=0", trusted(), 400, "INVALID_ARGUMENT"},
		"an odd flag":                       {fileapi.PathList, "uri=viking://resources&recursive=perhaps", trusted(), 400, "INVALID_ARGUMENT"},
		"an output that is not known":       {fileapi.PathList, "uri=viking://resources&output=xml", trusted(), 400, "INVALID_ARGUMENT"},
		"a simple list":                     {fileapi.PathList, "uri=viking://resources&simple=true", trusted(), 400, "INVALID_ARGUMENT"},
		"a second page":                     {fileapi.PathList, "uri=viking://resources&offset=10", trusted(), 400, "INVALID_ARGUMENT"},
		"an odd line":                       {fileapi.PathRead, "uri=viking://resources&offset=-1", trusted(), 400, "INVALID_ARGUMENT"},
		"no gateway token":                  {fileapi.PathStat, "uri=viking://resources", user(alice), 401, "UNAUTHENTICATED"},
		"a wrong gateway token":             {fileapi.PathStat, "uri=viking://resources", headers{runtimeapi.HeaderGatewayToken, "x"}, 403, "PERMISSION_DENIED"},
		"a token without a user":            {fileapi.PathStat, "uri=viking://resources", headers{runtimeapi.HeaderGatewayToken, gatewayToken}, 401, "UNAUTHENTICATED"},
		"a user out of the tree":            {fileapi.PathStat, "uri=viking://resources", trusted(runtimeapi.HeaderUser, "../bob"), 400, "INVALID_ARGUMENT"},
		"an account out of the tree":        {fileapi.PathStat, "uri=viking://resources", trusted(runtimeapi.HeaderAccount, ".."), 400, "INVALID_ARGUMENT"},
		"a key's user is nobody's neighbor": {fileapi.PathStat, "uri=viking://user/alice/resources/n.md", headers{runtimeapi.HeaderGatewayToken, gatewayToken, runtimeapi.HeaderAPIKey, "k"}, 403, "PERMISSION_DENIED"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := s.get(t, tc.path, tc.query, tc.h)
			var got fileapi.Failure
			if err := json.Unmarshal(a.body, &got); err != nil {
				t.Fatalf("%d %s: %v", a.code, a.body, err)
			}
			if a.code != tc.status || got.Status != "error" || got.Error.Code != tc.code || got.Error.Message == "" {
				t.Errorf("%d %s, want %d %s", a.code, a.body, tc.status, tc.code)
			}
			if strings.Contains(got.Error.Message, "no such file") || strings.Contains(got.Error.Message, os.TempDir()) {
				t.Errorf("the system's words are told: %s", got.Error.Message)
			}
		})
	}
}

func TestAMissingFileIsSaidToBeMissing(t *testing.T) {
	s := newFileStack(t, layFiles(t))
	a := s.get(t, fileapi.PathStat, "uri="+url.QueryEscape("viking://resources/none/"), trusted())
	want := `{"status":"error","error":{"code":"NOT_FOUND","message":"viking://resources/none: does not exist",` +
		`"details":{"resource":"viking://resources/none","type":"file"}}}`
	if string(a.body) != want {
		t.Errorf("got  %s\nwant %s", a.body, want)
	}
}

func TestFileRoutesTakeOnlyGET(t *testing.T) {
	s := newFileStack(t, layFiles(t))
	a := s.post(fileapi.PathStat, "{}", trusted())
	if a.code != http.StatusMethodNotAllowed || a.header.Get("Allow") != http.MethodGet {
		t.Errorf("POST = %d, Allow %q", a.code, a.header.Get("Allow"))
	}
}

func TestAFileThatIsTooLargeIsNotRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "demo/resources/big")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, fileapi.MaxReadBytes+1); err != nil {
		t.Fatal(err)
	}
	local, err := contentstore.OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	s := newFileStack(t, local)
	if a := s.get(t, fileapi.PathRead, "uri=viking://resources/big", trusted()); a.code != http.StatusBadRequest ||
		!strings.Contains(string(a.body), "RESOURCE_EXHAUSTED") {
		t.Errorf("read = %d %.200s", a.code, a.body)
	}
	// Of zero bytes JSON needs six for each: the most that an answer can be.
	const zeros = 256 << 10
	if err := os.Truncate(path, zeros); err != nil {
		t.Fatal(err)
	}
	big, _ := viking.Parse("uri", "viking://resources/big")
	content, err := remoteOf(t, s, gatewayToken).Read(t.Context(), aliceOfDemo, big, zeros)
	if err != nil || len(content) != zeros {
		t.Errorf("Read = %d bytes, %v", len(content), err)
	}
}

// brokenContent fails as a disk does.
type brokenContent struct{ *contentstore.Local }

func (brokenContent) Stat(context.Context, contentstore.Principal, viking.URI) (contentstore.Info, error) {
	return contentstore.Info{}, &contentstore.Error{Kind: contentstore.KindInternal, Reason: "stat: I/O error at sector 9"}
}

func TestAFailingDiskIsLoggedAndNotTold(t *testing.T) {
	s := newFileStack(t, nil, func(c *Config) { c.Content = brokenContent{} })
	a := s.get(t, fileapi.PathStat, "uri=viking://resources", trusted())
	if a.code != http.StatusInternalServerError || strings.Contains(string(a.body), "sector") {
		t.Errorf("stat = %d %s", a.code, a.body)
	}
	if !strings.Contains(s.log.String(), "sector 9") {
		t.Error("the cause is not in the log")
	}
}

func TestFileRequestsAreCounted(t *testing.T) {
	metrics := NewMetrics(prometheus.NewRegistry())
	s := newFileStack(t, layFiles(t), func(c *Config) { c.Metrics = metrics })
	s.get(t, fileapi.PathStat, "uri=viking://resources", trusted())
	s.get(t, fileapi.PathRead, "uri=viking://resources/none", trusted())
	s.get(t, fileapi.PathList, "uri=viking://user/bob", trusted())
	s.get(t, fileapi.PathList, "", trusted())
	got := map[string]float64{}
	for _, labels := range [][]string{{"stat", "ok"}, {"read", "not_found"}, {"ls", "denied"}, {"ls", "invalid"}} {
		got[strings.Join(labels, " ")] = testutil.ToFloat64(metrics.files.WithLabelValues(labels...))
	}
	if diff := cmp.Diff(map[string]float64{"stat ok": 1, "read not_found": 1, "ls denied": 1, "ls invalid": 1}, got); diff != "" {
		t.Error(diff)
	}
}
