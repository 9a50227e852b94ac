package contentstore

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/viking"
)

var alice = Principal{Account: "team-a", User: "alice"}

func newLocal(t *testing.T) (*Local, string) {
	t.Helper()
	dir := t.TempDir()
	store, err := OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store, dir
}

func uri(t *testing.T, text string) viking.URI {
	t.Helper()
	u, fault := viking.Parse("uri", text)
	if fault != nil {
		t.Fatal(fault)
	}
	return u
}

// lay puts files on the disk behind the store's back.
func lay(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for path, content := range files {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadThroughTheStore(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{"team-a/resources/docs/a.md": "hello", "team-a/user/alice/resources/n.txt": "note"})
	ctx := t.Context()

	info, err := store.Stat(ctx, alice, uri(t, "viking://resources/docs/a.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Info{URI: "viking://resources/docs/a.md", Size: 5}, info); diff != "" {
		t.Error(diff)
	}
	if info, err = store.Stat(ctx, alice, uri(t, "viking://resources")); err != nil || !info.Dir {
		t.Errorf("Stat of a scope = %+v, %v, want a directory", info, err)
	}
	content, err := store.Read(ctx, alice, uri(t, "viking://user/alice/resources/n.txt"), 4)
	if err != nil || string(content) != "note" {
		t.Errorf("Read = %q, %v", content, err)
	}
	if _, err = store.Read(ctx, alice, uri(t, "viking://resources/docs/a.md"), 4); !IsExhausted(err) {
		t.Errorf("Read over the limit: %v, want RESOURCE_EXHAUSTED", err)
	}
	f, err := store.Open(ctx, alice, uri(t, "viking://resources/docs/a.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if all, err := io.ReadAll(f); err != nil || string(all) != "hello" {
		t.Errorf("Open read %q, %v", all, err)
	}
}

func TestReadRefusals(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{
		"team-a/resources/docs/a.md":        "a",
		"team-a/resources/docs/.hidden":     "h",
		"team-a/user/bob/resources/b.md":    "b",
		"team-a/user/alice/privacy/keys.md": "k",
		"team-b/resources/c.md":             "c",
	})
	docs := filepath.Join(dir, "team-a/resources/docs")
	for link, target := range map[string]string{
		"file-link": "a.md", "dir-link": ".", "up-link": "../../../team-b/resources", "abs-link": "/etc",
	} {
		if err := os.Symlink(target, filepath.Join(docs, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(docs, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		uri  string
		want Kind
	}{
		"what does not exist is not found":            {"viking://resources/none.md", KindNotFound},
		"a path through a file is not found":          {"viking://resources/docs/a.md/x", KindNotFound},
		"a hidden name is not found":                  {"viking://resources/docs/.hidden", KindNotFound},
		"a name that differs by case is not found":    {"viking://resources/docs/A.md", KindNotFound},
		"another user's file is denied":               {"viking://user/bob/resources/b.md", KindDenied},
		"a missing file of another user is denied":    {"viking://user/bob/resources/none", KindDenied},
		"the directory of all users is denied":        {"viking://user", KindDenied},
		"private settings are denied":                 {"viking://user/alice/privacy/keys.md", KindDenied},
		"a link to a file is refused":                 {"viking://resources/docs/file-link", KindInvalid},
		"a path through a link to itself is refused":  {"viking://resources/docs/dir-link/a.md", KindInvalid},
		"a path through a link to another account is": {"viking://resources/docs/up-link/c.md", KindInvalid},
		"a path through an absolute link is refused":  {"viking://resources/docs/abs-link/passwd", KindInvalid},
		"a pipe is refused and does not block":        {"viking://resources/docs/pipe", KindInvalid},
		"a directory cannot be read":                  {"viking://resources/docs", KindInvalid},
		"the root names no tree":                      {"viking://", KindInvalid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := store.Read(t.Context(), alice, uri(t, tc.uri), 100)
			if KindOf(err) != tc.want || err == nil {
				t.Errorf("Read(%s) = %v, want %s", tc.uri, err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), dir) {
				t.Errorf("error %q shows a path of the disk", err)
			}
		})
	}
}

func TestAccountsAreNames(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{"team-a/resources/a.md": "a"})
	for _, account := range []string{"", ".", "..", "_x", ".x", "team-a/resources", "a\x00", "../team-a", "a b"} {
		_, err := store.Stat(t.Context(), Principal{Account: account, User: "alice"}, uri(t, "viking://resources"))
		if !IsInvalid(err) {
			t.Errorf("account %q: %v, want INVALID_ARGUMENT", account, err)
		}
	}
}

func TestList(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{
		"team-a/resources/d/b.md":                "bb",
		"team-a/resources/d/a/z.md":              "z",
		"team-a/resources/d/a-b.md":              "ab",
		"team-a/resources/d/.abstract.md":        "no",
		"team-a/resources/d/.git/config":         "no",
		"team-a/resources/d/odd name ":           "no",
		"team-a/resources/d/" + tempPrefix + "x": "no",
	})
	if err := os.Symlink("b.md", filepath.Join(dir, "team-a/resources/d/link.md")); err != nil {
		t.Fatal(err)
	}
	root := uri(t, "viking://resources/d")
	want := []Info{
		{URI: "viking://resources/d/a", Path: "a", Dir: true},
		{URI: "viking://resources/d/a/z.md", Path: "a/z.md", Size: 1},
		{URI: "viking://resources/d/a-b.md", Path: "a-b.md", Size: 2},
		{URI: "viking://resources/d/b.md", Path: "b.md", Size: 2},
	}
	for limit, wantTruncated := range map[int]bool{0: false, 4: false, 3: true, 1: true} {
		got, err := store.List(t.Context(), alice, root, limit)
		if err != nil {
			t.Fatal(err)
		}
		wantEntries := want
		if limit > 0 {
			wantEntries = want[:limit]
		}
		if diff := cmp.Diff(Listing{Entries: wantEntries, Truncated: wantTruncated, Skipped: 2}, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
	if _, err := store.List(t.Context(), alice, uri(t, "viking://resources/d/b.md"), 0); err == nil {
		t.Error("a file was listed")
	}
	if _, err := store.List(t.Context(), alice, uri(t, "viking://resources/none"), 0); !IsNotFound(err) {
		t.Errorf("List of nothing: %v, want NOT_FOUND", err)
	}
}

func TestListCountsWhatNoURICanName(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{
		"team-a/resources/d/ok.md":        "ok",
		"team-a/resources/d/sub/a?b.md":   "x",
		"team-a/resources/d/a\\b.md":      "x",
		"team-a/resources/d/a\nb.md":      "x",
		"team-a/resources/d/a\xffb.md":    "x",
		"team-a/resources/d/odd?/x.md":    "below one that is left out",
		"team-a/resources/d/.hidden?.md":  "hidden",
		"team-a/resources/d/.abstract.md": "derived",
	})
	at := filepath.Join(dir, "team-a/resources/d")
	if err := errors.Join(
		os.Symlink("ok.md", filepath.Join(at, "link.md")), os.Symlink("ok.md", filepath.Join(at, ".link.md")),
		syscall.Mkfifo(filepath.Join(at, "pipe"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	// What is left out takes no place of what is listed.
	got, err := store.List(t.Context(), alice, uri(t, "viking://resources/d"), 2)
	if err != nil {
		t.Fatal(err)
	}
	want := Listing{Skipped: 7, Entries: []Info{
		{URI: "viking://resources/d/ok.md", Path: "ok.md", Size: 2},
		{URI: "viking://resources/d/sub", Path: "sub", Dir: true},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestListLeavesPrivacyOut(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{"team-a/user/alice/privacy/k": "k", "team-a/user/alice/memories/m.md": "m"})
	got, err := store.List(t.Context(), alice, uri(t, "viking://user/alice"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range got.Entries {
		if strings.Contains(entry.URI, "privacy") {
			t.Errorf("listed %s", entry.URI)
		}
	}
	if len(got.Entries) != 2 || got.Skipped != 0 {
		t.Errorf("listed %d entries and skipped %d, want 2 and 0", len(got.Entries), got.Skipped)
	}
}

func TestListTruncatesLargeDirectoriesInOrder(t *testing.T) {
	store, dir := newLocal(t)
	files := map[string]string{}
	for i := range 3 * readChunk {
		files["team-a/resources/big/"+string(rune('a'+i%26))+randomName()] = ""
	}
	lay(t, dir, files)
	got, err := store.List(t.Context(), alice, uri(t, "viking://resources/big"), 10)
	if err != nil {
		t.Fatal(err)
	}
	all, err := store.List(t.Context(), alice, uri(t, "viking://resources/big"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Truncated || all.Truncated || len(all.Entries) != len(files) {
		t.Fatalf("truncated %v and %v with %d entries", got.Truncated, all.Truncated, len(all.Entries))
	}
	if diff := cmp.Diff(all.Entries[:10], got.Entries); diff != "" {
		t.Error(diff)
	}
}

func TestMakeDir(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{"team-a/resources/Docs/a.md": "a"})
	ctx := t.Context()
	for range 2 {
		if err := store.MakeDir(ctx, alice, uri(t, "viking://resources/new/deep")); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "team-a/resources/new/deep"))
	if err != nil || info.Mode().Perm() != dirMode {
		t.Errorf("made %v, %v", info, err)
	}
	cases := map[string]struct {
		uri  string
		want Kind
	}{
		"a name that differs only by case": {"viking://resources/docs/x", KindConflict},
		"a file in the way":                {"viking://resources/Docs/a.md/x", KindConflict},
		"a file at the place":              {"viking://resources/Docs/a.md", KindConflict},
		"a hidden name":                    {"viking://resources/.x", KindInvalid},
		"a scope":                          {"viking://resources", KindInvalid},
		"another user's tree":              {"viking://user/bob/resources/x", KindDenied},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := store.MakeDir(ctx, alice, uri(t, tc.uri)); err == nil || KindOf(err) != tc.want {
				t.Errorf("MakeDir(%s) = %v, want %s", tc.uri, err, tc.want)
			}
		})
	}
}

func TestUsersThatDifferByCaseAreTwoUsers(t *testing.T) {
	store, _ := newLocal(t)
	for _, user := range []string{"alice", "Alice"} {
		who := Principal{Account: "team-a", User: user}
		if err := store.MakeDir(t.Context(), who, uri(t, "viking://user/"+user+"/resources/x")); err != nil {
			t.Errorf("user %s: %v", user, err)
		}
	}
}

func TestCancelledCallsDoNothing(t *testing.T) {
	store, dir := newLocal(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.BatchWrite(ctx, alice, batchOf(t, "viking://resources/x", map[string]string{"a.md": "a"}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("BatchWrite = %v, want context.Canceled", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v behind", entries, err)
	}
}

func TestChildrenAreWhatLiesDirectlyInADirectory(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{
		"team-a/resources/docs/a/deep/x.md": "x", "team-a/resources/docs/a/y.md": "y",
		"team-a/resources/docs/b.md": "bb", "team-a/resources/docs/.hidden": "h",
	})
	got, err := store.Children(t.Context(), alice, uri(t, "viking://resources/docs"), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := Listing{Entries: []Info{
		{URI: "viking://resources/docs/a", Path: "a", Dir: true},
		{URI: "viking://resources/docs/b.md", Path: "b.md", Size: 2},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err = store.Children(t.Context(), alice, uri(t, "viking://resources/docs"), 1); err != nil || !got.Truncated || len(got.Entries) != 1 {
		t.Errorf("Children with a limit = %+v, %v", got, err)
	}
}

func TestWhatIsMissingIsSaidInTheStoresWords(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{"team-a/resources/docs/a.md": "a"})
	missing := uri(t, "viking://resources/none/x.md")
	_, statErr := store.Stat(t.Context(), alice, missing)
	_, listErr := store.List(t.Context(), alice, missing, 0)
	_, readErr := store.Read(t.Context(), alice, missing, 1)
	for name, err := range map[string]error{"Stat": statErr, "List": listErr, "Read": readErr} {
		if !IsNotFound(err) || err.Error() != "viking://resources/none/x.md: does not exist" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
