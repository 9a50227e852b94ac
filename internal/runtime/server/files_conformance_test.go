package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/viking"
)

const gatewayToken = "gateway-token-1"

var aliceOfDemo = contentstore.Principal{Account: "demo", User: "alice"}

// layMany adds more files than a listing may have.
func layMany(t *testing.T, dir string) {
	t.Helper()
	for i := range contentstore.MaxListEntries + 100 {
		path := filepath.Join(dir, "demo/resources/many", fmt.Sprintf("d%02d", i%50), fmt.Sprintf("f%05d", i))
		if i < 50 {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// layFiles fills a content directory behind the store's back, and opens it.
func layFiles(t *testing.T, more ...func(*testing.T, string)) *contentstore.Local {
	t.Helper()
	dir := t.TempDir()
	for path, content := range map[string]string{
		"demo/resources/docs/a.md":             "one\r\ntwo\nthree",
		"demo/resources/docs/a b&c+%20é#.md":   "no URI names this",
		"demo/resources/docs/é & +=;%zz.md":    "odd <name>\u2028",
		"demo/resources/docs/b/x.md":           "x",
		"demo/resources/docs/b/deep/er/y.md":   "\x00\x01\x1f\"\\",
		"demo/resources/docs/b-c/z.md":         "",
		"demo/resources/docs/.hidden/h.md":     "h",
		"demo/resources/docs/.abstract.md":     "derived",
		"demo/resources/docs/b/.overview.md":   "derived",
		"demo/resources/docs/binary":           "\xff\xfe",
		"demo/user/alice/resources/n.md":       "note",
		"demo/user/alice/privacy/k.md":         "key",
		"demo/user/bob/resources/b.md":         "bob's",
		"other/resources/docs/secret-of-other": "o",
	} {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	docs := filepath.Join(dir, "demo/resources/docs")
	for link, target := range map[string]string{
		"link.md": "a.md", "up": "../../../other/resources", "abs": "/etc", "loop": ".",
	} {
		if err := os.Symlink(target, filepath.Join(docs, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, lay := range more {
		lay(t, dir)
	}
	local, err := contentstore.OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	return local
}

// newFileStack serves the files beyond loopback's exemption.
func newFileStack(t *testing.T, local *contentstore.Local, change ...func(*Config)) *stack {
	t.Helper()
	return newStack(t, append([]func(*Config){func(c *Config) {
		c.Content = local
		c.ListenerLoopback = false
		c.GatewayTokens = func() []string { return []string{gatewayToken} }
	}}, change...)...)
}

func remoteOf(t *testing.T, s *stack, token string) contentstore.Reader {
	t.Helper()
	remote, err := contentstore.NewRemote(contentstore.RemoteConfig{
		BaseURL: s.web.URL,
		// Nothing here is about time, and the machine may be slow.
		Timeout:      time.Minute,
		GatewayToken: func(context.Context) (string, error) { return token, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remote.Close)
	return remote.For("")
}

// asked is what one question came to. Texts of errors are not compared: each store
// has its own.
type asked struct {
	Info    contentstore.Info
	Listing contentstore.Listing
	Content string
	Kind    contentstore.Kind
}

func outcome(got asked, err error) asked {
	if err != nil {
		return asked{Kind: contentstore.KindOf(err)}
	}
	return got
}

// TestRemoteAnswersAsLocal is the contract of contentstore.Reader: a directory looks
// the same through the server and its client as it does directly.
func TestRemoteAnswersAsLocal(t *testing.T) {
	local := layFiles(t, layMany)
	remote := remoteOf(t, newFileStack(t, local), gatewayToken)
	questions := map[string]func(r contentstore.Reader, who contentstore.Principal, uri viking.URI) (asked, error){
		"stat": func(r contentstore.Reader, who contentstore.Principal, uri viking.URI) (asked, error) {
			info, err := r.Stat(t.Context(), who, uri)
			return asked{Info: info}, err
		},
		"list all": func(r contentstore.Reader, who contentstore.Principal, uri viking.URI) (asked, error) {
			listing, err := r.List(t.Context(), who, uri, 0)
			return asked{Listing: listing}, err
		},
		"list 4": func(r contentstore.Reader, who contentstore.Principal, uri viking.URI) (asked, error) {
			listing, err := r.List(t.Context(), who, uri, 4)
			// What is skipped behind the cut is counted as far as was looked.
			listing.Skipped = 0
			return asked{Listing: listing}, err
		},
		"read": func(r contentstore.Reader, who contentstore.Principal, uri viking.URI) (asked, error) {
			content, err := r.Read(t.Context(), who, uri, 1<<20)
			return asked{Content: string(content)}, err
		},
		"read 1 byte": func(r contentstore.Reader, who contentstore.Principal, uri viking.URI) (asked, error) {
			content, err := r.Read(t.Context(), who, uri, 1)
			return asked{Content: string(content)}, err
		},
	}
	uris := []string{
		"viking://", "viking://resources", "viking://resources/docs", "viking://resources/docs/a.md",
		"viking://resources/docs/é & +=;%zz.md", "viking://resources/docs/b", "viking://resources/docs/b/deep/er/y.md",
		"viking://resources/docs/b-c/z.md", "viking://resources/docs/.hidden/h.md", "viking://resources/docs/.abstract.md",
		"viking://resources/docs/none", "viking://resources/docs/a.md/below", "viking://resources/docs/link.md",
		"viking://resources/docs/up/docs/secret-of-other", "viking://resources/docs/abs/passwd", "viking://resources/docs/loop",
		"viking://resources/many", "viking://user/alice/resources/n.md", "viking://user/alice", "viking://user",
		"viking://user/alice/privacy/k.md", "viking://user/bob", "viking://user/bob/resources/b.md", "viking://user/bob/none",
		"viking://agent/skills",
	}
	for name, ask := range questions {
		for _, text := range uris {
			uri, fault := viking.Parse("uri", text)
			if fault != nil {
				t.Fatal(fault)
			}
			want := outcome(ask(local, aliceOfDemo, uri))
			got := outcome(ask(remote, aliceOfDemo, uri))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %s (-local +remote):\n%s", name, text, diff)
			}
		}
	}
	docs, _ := viking.Parse("uri", "viking://resources/docs/binary")
	if _, err := remote.Read(t.Context(), aliceOfDemo, docs, 10); !contentstore.IsInvalid(err) {
		t.Errorf("Read of what is no text: %v", err)
	}
	many, _ := viking.Parse("uri", "viking://resources/many")
	if l, err := remote.List(t.Context(), aliceOfDemo, many, 0); err != nil || !l.Truncated || len(l.Entries) != contentstore.MaxListEntries {
		t.Errorf("List of many = %d entries, truncated %t, %v", len(l.Entries), l.Truncated, err)
	}
}

func TestRemoteWithAWrongTokenCanTellNothing(t *testing.T) {
	remote := remoteOf(t, newFileStack(t, layFiles(t)), "another-token")
	uri, _ := viking.Parse("uri", "viking://resources/docs")
	_, err := remote.Stat(t.Context(), aliceOfDemo, uri)
	if !contentstore.IsUnavailable(err) || strings.Contains(err.Error(), "another-token") {
		t.Errorf("Stat: %v", err)
	}
}

func TestRemoteOfAServerWithoutFilesCanTellNothing(t *testing.T) {
	s := newFileStack(t, nil, func(c *Config) { c.Content = nil })
	uri, _ := viking.Parse("uri", "viking://resources/docs")
	if _, err := remoteOf(t, s, gatewayToken).Stat(t.Context(), aliceOfDemo, uri); !contentstore.IsUnavailable(err) {
		t.Errorf("Stat: %v, want UNAVAILABLE: nothing is known of the file", err)
	}
}
