package contentstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func batchOf(t *testing.T, root string, files map[string]string) Batch {
	t.Helper()
	batch := Batch{Root: uri(t, root)}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		batch.Operations = append(batch.Operations, Operation{Path: path, Content: []byte(files[path]), Upsert: true})
	}
	return batch
}

// tree returns every file below dir, whatever its name.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestBatchWrite(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{
		"team-a/resources/w/same.md": "same", "team-a/resources/w/old.md": "old", "team-a/resources/w/kept.md": "kept",
	})
	batch := batchOf(t, "viking://resources/w", map[string]string{"same.md": "same", "old.md": "new", "sub/dir/new.md": "n"})
	batch.Operations = append(batch.Operations, Operation{Path: "viking://resources/w/by-uri.md", Content: []byte("u")})
	got, err := store.BatchWrite(t.Context(), alice, batch)
	if err != nil {
		t.Fatal(err)
	}
	want := BatchResult{
		Created:   []string{"viking://resources/w/sub/dir/new.md", "viking://resources/w/by-uri.md"},
		Updated:   []string{"viking://resources/w/old.md"},
		Unchanged: []string{"viking://resources/w/same.md"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wantTree := map[string]string{
		"team-a/resources/w/same.md": "same", "team-a/resources/w/old.md": "new", "team-a/resources/w/kept.md": "kept",
		"team-a/resources/w/sub/dir/new.md": "n", "team-a/resources/w/by-uri.md": "u",
	}
	if diff := cmp.Diff(wantTree, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(filepath.Join(dir, "team-a/resources/w/sub/dir/new.md"))
	if err != nil || info.Mode() != fileMode {
		t.Errorf("new file has mode %v, %v", info.Mode(), err)
	}
	if n := store.locks.size(); n != 0 {
		t.Errorf("%d locks left", n)
	}
}

func TestBatchWriteRefusesPathsOutOfPlace(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{
		"team-a/resources/w/Page.md": "p", "team-a/resources/w/file": "f", "team-a/resources/w/dir/x.md": "x",
		"team-a/resources/other.md": "o",
	})
	for link, target := range map[string]string{"link.md": "Page.md", "linkdir": "dir", "out": "../../../team-b"} {
		if err := os.Symlink(target, filepath.Join(dir, "team-a/resources/w", link)); err != nil {
			t.Fatal(err)
		}
	}
	before := tree(t, dir)
	cases := map[string]struct {
		paths []string
		want  Kind
	}{
		"dot-dot":                         {[]string{"../other.md"}, KindInvalid},
		"dot-dot inside":                  {[]string{"dir/../../other.md"}, KindInvalid},
		"an absolute path":                {[]string{"/etc/passwd"}, KindInvalid},
		"an encoded dot-dot":              {[]string{"%2e%2e/other.md"}, KindInvalid},
		"a doubly encoded slash":          {[]string{"a%252fb.md"}, KindInvalid},
		"a backslash":                     {[]string{`..\other.md`}, KindInvalid},
		"a drive letter":                  {[]string{"c:x.md"}, KindInvalid},
		"an empty segment":                {[]string{"dir//x.md"}, KindInvalid},
		"no path":                         {[]string{""}, KindInvalid},
		"a NUL byte":                      {[]string{"a\x00.md"}, KindInvalid},
		"not UTF-8":                       {[]string{"a\xff.md"}, KindInvalid},
		"a long name":                     {[]string{strings.Repeat("a", 256)}, KindInvalid},
		"a hidden name":                   {[]string{".x"}, KindInvalid},
		"a hidden directory":              {[]string{".x/a.md"}, KindInvalid},
		"a derived name":                  {[]string{"dir/.Overview.md"}, KindInvalid},
		"a URI outside the root":          {[]string{"viking://resources/other.md"}, KindInvalid},
		"a URI of a sibling":              {[]string{"viking://resources/w2/a.md"}, KindInvalid},
		"the root itself":                 {[]string{"viking://resources/w"}, KindInvalid},
		"case of a file":                  {[]string{"page.md"}, KindConflict},
		"case of a directory":             {[]string{"DIR/x.md"}, KindConflict},
		"a file as directory":             {[]string{"file/x.md"}, KindConflict},
		"a directory as file":             {[]string{"dir"}, KindConflict},
		"a link":                          {[]string{"link.md"}, KindConflict},
		"a path through a link":           {[]string{"linkdir/y.md"}, KindConflict},
		"a path through a link outside":   {[]string{"out/y.md"}, KindConflict},
		"twice the same":                  {[]string{"n.md", "n.md"}, KindConflict},
		"twice but for case":              {[]string{"n.md", "N.md"}, KindConflict},
		"a file below a file":             {[]string{"n", "n/m.md"}, KindConflict},
		"a file above a file":             {[]string{"n/m.md", "n"}, KindConflict},
		"composed and decomposed letters": {[]string{"\u00e9.md", "e\u0301.md"}, KindConflict},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			batch := Batch{Root: uri(t, "viking://resources/w"), Operations: []Operation{{Path: "first.md", Upsert: true}}}
			for _, path := range tc.paths {
				batch.Operations = append(batch.Operations, Operation{Path: path, Content: []byte("evil"), Upsert: true})
			}
			_, err := store.BatchWrite(t.Context(), alice, batch)
			if err == nil || KindOf(err) != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
				t.Errorf("something was written: %s", diff)
			}
		})
	}
}

func TestBatchWriteLimits(t *testing.T) {
	store, dir := newLocal(t)
	many := func(n, size int) []Operation {
		content := make([]byte, size)
		ops := make([]Operation, n)
		for i := range ops {
			ops[i] = Operation{Path: fmt.Sprintf("f%d", i), Content: content, Upsert: true}
		}
		return ops
	}
	cases := map[string]struct {
		ops     []Operation
		wantErr bool
	}{
		"256 operations pass":       {many(MaxBatchOperations, 1), false},
		"257 operations do not":     {many(MaxBatchOperations+1, 1), true},
		"a file of 8 MiB passes":    {many(1, MaxBatchFileBytes), false},
		"one byte more does not":    {many(1, MaxBatchFileBytes+1), true},
		"16 MiB pass":               {many(2, MaxBatchFileBytes), false},
		"more in all does not pass": {append(many(2, MaxBatchFileBytes), Operation{Path: "x", Content: []byte{1}}), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := "viking://resources/" + strings.ReplaceAll(name, " ", "-")
			_, err := store.BatchWrite(t.Context(), alice, Batch{Root: uri(t, root), Operations: tc.ops})
			if IsExhausted(err) != tc.wantErr || (err != nil) != tc.wantErr {
				t.Errorf("err = %v, want refused: %v", err, tc.wantErr)
			}
			_, statErr := os.Stat(filepath.Join(dir, "team-a/resources", strings.ReplaceAll(name, " ", "-")))
			if errors.Is(statErr, fs.ErrNotExist) != tc.wantErr {
				t.Errorf("target directory: %v", statErr)
			}
		})
	}
}

func TestBatchWriteDenied(t *testing.T) {
	store, _ := newLocal(t)
	for root, want := range map[string]Kind{
		"viking://user/bob/resources/x": KindDenied, "viking://user/alice/privacy/x": KindDenied,
		"viking://user/alice": KindInvalid, "viking://resources": KindInvalid, "viking://resources/.x": KindInvalid,
	} {
		_, err := store.BatchWrite(t.Context(), alice, batchOf(t, root, map[string]string{"a": "a"}))
		if err == nil || KindOf(err) != want {
			t.Errorf("%s: %v, want %s", root, err, want)
		}
	}
}

func TestBatchWriteWithoutUpsertKeepsWhatExists(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{"team-a/resources/w/a.md": "old"})
	batch := batchOf(t, "viking://resources/w", map[string]string{"a.md": "new"})
	batch.Operations[0].Upsert = false
	if _, err := store.BatchWrite(t.Context(), alice, batch); !IsConflict(err) {
		t.Errorf("err = %v, want CONFLICT", err)
	}
	if got := tree(t, dir)["team-a/resources/w/a.md"]; got != "old" {
		t.Errorf("file is %q", got)
	}
}

func TestBusyRootConflicts(t *testing.T) {
	store, _ := newLocal(t)
	inside, carryOn := make(chan struct{}), make(chan struct{})
	write := store.disk.write
	store.disk.write = func(f *os.File, content []byte) error {
		close(inside)
		<-carryOn
		return write(f, content)
	}
	done := make(chan error, 1)
	go func() {
		_, err := store.BatchWrite(t.Context(), alice, batchOf(t, "viking://resources/a/b", map[string]string{"x": "1"}))
		done <- err
	}()
	<-inside
	for _, root := range []string{"viking://resources/a/b", "viking://resources/a", "viking://resources/a/b/c"} {
		if _, err := store.BatchWrite(t.Context(), alice, Batch{Root: uri(t, root)}); !IsConflict(err) {
			t.Errorf("%s: %v, want CONFLICT", root, err)
		}
	}
	for _, root := range []string{"viking://resources/a/bc", "viking://user/alice/resources/a"} {
		if _, err := store.BatchWrite(t.Context(), alice, Batch{Root: uri(t, root)}); err != nil {
			t.Errorf("%s: %v, want no conflict", root, err)
		}
	}
	close(carryOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := store.locks.size(); n != 0 {
		t.Errorf("%d locks left", n)
	}
}

// A disk that fails at any step must leave every file either old or new, no
// temporary file, and a store that can be used again.
func TestFailingDiskLeavesFilesWhole(t *testing.T) {
	files := map[string]string{"a.md": "new a", "b.md": "new b", "c/d.md": "new d"}
	failures := map[string]func(l *Local, failAt int){
		"disk full while writing": func(l *Local, failAt int) {
			write, n := l.disk.write, 0
			l.disk.write = func(f *os.File, content []byte) error {
				if n++; n < failAt {
					return write(f, content)
				}
				_, _ = f.Write(content[:len(content)/2])
				return &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
			}
		},
		"rename fails": func(l *Local, failAt int) {
			rename, n := l.disk.rename, 0
			l.disk.rename = func(dir *os.Root, from, to string) error {
				if n++; n < failAt {
					return rename(dir, from, to)
				}
				return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EIO}
			}
		},
		"directory sync fails": func(l *Local, failAt int) {
			syncDir, n := l.disk.syncDir, 0
			l.disk.syncDir = func(dir *os.Root) error {
				if n++; n < failAt {
					return syncDir(dir)
				}
				return syscall.EIO
			}
		},
		"directory cannot be made": func(l *Local, _ int) {
			l.disk.mkdir = func(*os.Root, string) error { return syscall.ENOSPC }
		},
	}
	for name, inject := range failures {
		for failAt := 1; failAt <= 3; failAt++ {
			t.Run(fmt.Sprintf("%s at %d", name, failAt), func(t *testing.T) {
				store, dir := newLocal(t)
				lay(t, dir, map[string]string{"team-a/resources/w/a.md": "old a", "team-a/resources/w/b.md": "old b"})
				inject(store, failAt)
				batch := batchOf(t, "viking://resources/w", files)
				result, err := store.BatchWrite(t.Context(), alice, batch)
				if err == nil && name != "directory sync fails" {
					t.Fatal("no error")
				}
				if err != nil && strings.Contains(err.Error(), dir) {
					t.Errorf("error %q shows a path of the disk", err)
				}
				if strings.Contains(name, "full") && !IsExhausted(err) {
					t.Errorf("error %v, want RESOURCE_EXHAUSTED", err)
				}
				checkWhole(t, dir, files, result)
				store.disk = realDisk()
				if _, err := store.BatchWrite(t.Context(), alice, batch); err != nil {
					t.Errorf("repeat: %v", err)
				}
				for path, content := range files {
					if got := tree(t, dir)["team-a/resources/w/"+path]; got != content {
						t.Errorf("after the repeat %s is %q", path, got)
					}
				}
			})
		}
	}
}

func checkWhole(t *testing.T, dir string, files map[string]string, result BatchResult) {
	t.Helper()
	on := tree(t, dir)
	for path, content := range on {
		rel := strings.TrimPrefix(path, "team-a/resources/w/")
		if content != files[rel] && content != strings.Replace(files[rel], "new", "old", 1) {
			t.Errorf("%s holds %q", path, content)
		}
	}
	for _, done := range slices.Concat(result.Created, result.Updated) {
		rel := strings.TrimPrefix(done, "viking://resources/w/")
		if on["team-a/resources/w/"+rel] != files[rel] {
			t.Errorf("%s is reported as written but is not", done)
		}
	}
}

func TestLeftoversAreSweptWhenOld(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{
		"team-a/resources/w/" + tempPrefix + "old": "half", "team-a/resources/w/.mine": "hidden", "team-a/resources/w/a.md": "a",
	})
	batch := batchOf(t, "viking://resources/w", map[string]string{"a.md": "b"})
	if _, err := store.BatchWrite(t.Context(), alice, batch); err != nil {
		t.Fatal(err)
	}
	if _, ok := tree(t, dir)["team-a/resources/w/"+tempPrefix+"old"]; !ok {
		t.Error("a fresh temporary file, perhaps in use, was removed")
	}
	store.now = func() time.Time { return time.Now().Add(2 * staleAfter) }
	if _, err := store.BatchWrite(t.Context(), alice, batch); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"team-a/resources/w/.mine": "hidden", "team-a/resources/w/a.md": "b"}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// A link that takes the place of a directory between the check and the write must
// not be followed.
func TestLinkSwappedInDuringTheBatch(t *testing.T) {
	store, dir := newLocal(t)
	lay(t, dir, map[string]string{"team-a/resources/w/d/x.md": "x", "team-a/resources/secret/x.md": "s"})
	write := store.disk.write
	store.disk.write = func(f *os.File, content []byte) error {
		d := filepath.Join(dir, "team-a/resources/w/d")
		if err := errors.Join(os.RemoveAll(d), os.Symlink("../secret", d)); err != nil {
			t.Error(err)
		}
		return write(f, content)
	}
	_, err := store.BatchWrite(t.Context(), alice, batchOf(t, "viking://resources/w", map[string]string{"a.md": "1", "d/x.md": "2"}))
	if !IsInvalid(err) {
		t.Errorf("err = %v, want INVALID_ARGUMENT", err)
	}
	if got := tree(t, dir)["team-a/resources/secret/x.md"]; got != "s" {
		t.Errorf("the link's target was changed to %q", got)
	}
}

func TestBatchStopsBetweenFilesWhenCancelled(t *testing.T) {
	store, dir := newLocal(t)
	ctx, cancel := context.WithCancel(t.Context())
	write := store.disk.write
	store.disk.write = func(f *os.File, content []byte) error {
		cancel()
		return write(f, content)
	}
	result, err := store.BatchWrite(ctx, alice, batchOf(t, "viking://resources/w", map[string]string{"a": "1", "b": "2"}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if diff := cmp.Diff(BatchResult{Created: []string{"viking://resources/w/a"}}, result); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"team-a/resources/w/a": "1"}, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// Whatever the path says, a write lands below the batch's root or not at all.
func FuzzBatchPath(f *testing.F) {
	for _, seed := range []string{"a.md", "../x", "a/../../b", "%2e%2e/x", "viking://resources/w/a", "viking://resources/x", "c:/x", "a\\b"} {
		f.Add(seed)
	}
	dir := f.TempDir()
	store, err := OpenLocal(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = store.Close() })
	f.Fuzz(func(t *testing.T, path string) {
		batch := Batch{Root: uri(t, "viking://resources/w"), Operations: []Operation{{Path: path, Content: []byte("x"), Upsert: true}}}
		if _, err := store.BatchWrite(t.Context(), alice, batch); err == nil {
			for on, content := range tree(t, dir) {
				if !strings.HasPrefix(on, "team-a/resources/w/") || !bytes.Equal([]byte(content), []byte("x")) {
					t.Errorf("path %q wrote %s", path, on)
				}
			}
			if err := os.RemoveAll(filepath.Join(dir, "team-a")); err != nil {
				t.Fatal(err)
			}
		}
	})
}
