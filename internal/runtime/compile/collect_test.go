package compile

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

// A rune may begin in one chunk and end in the next, or never.
func TestCheckUTF8(t *testing.T) {
	cases := map[string]struct {
		chunk    string
		last     bool
		wantRest int
		wantOK   bool
	}{
		"whole":                {"aé", false, 0, true},
		"cut after one byte":   {"a\xe4", false, 1, true},
		"cut after two bytes":  {"a\xe4\xb8", false, 2, true},
		"cut after three":      {"\xf0\x9f\x98", false, 3, true},
		"cut at the end":       {"a\xe4\xb8", true, 0, false},
		"never a rune":         {"a\xffb", false, 0, false},
		"continuation alone":   {"\x80\x80\x80\x80", false, 0, false},
		"nothing":              {"", true, 0, true},
		"a NUL byte is a rune": {"a\x00b", true, 0, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			buf := []byte(tc.chunk)
			rest, ok := checkUTF8(buf, len(buf), tc.last)
			if rest != tc.wantRest || ok != tc.wantOK {
				t.Errorf("rest %d, ok %v, want %d, %v", rest, ok, tc.wantRest, tc.wantOK)
			}
			if ok && string(buf[:rest]) != tc.chunk[len(tc.chunk)-rest:] {
				t.Errorf("kept %q", buf[:rest])
			}
		})
	}
}

func TestTextOverManyChunks(t *testing.T) {
	f := newFixture(t, map[string]string{
		"resources/docs/long.txt": "x" + strings.Repeat("中", 100_000),
		"resources/docs/late.bin": strings.Repeat("a", 200_000) + "\xff" + strings.Repeat("a", 200_000),
	})
	got := map[string]Status{}
	compiler := fakeCompiler{compile: func(_ context.Context, ws *Workspace) (*Bundle, error) {
		for _, file := range ws.Sources[0].Files {
			got[file.Path] = file.Status
		}
		return nil, nil
	}}
	if _, _, err := f.run(t, compiler, wikiTask()); err != nil {
		t.Fatal(err)
	}
	want := map[string]Status{
		"a.md": StatusMaterialized, "sub/b.txt": StatusMaterialized, "long.txt": StatusMaterialized, "late.bin": StatusBinary,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// failingStore cannot open one file.
type failingStore struct {
	contentstore.Store
	uri string
}

func (s failingStore) Open(ctx context.Context, who contentstore.Principal, uri viking.URI) (io.ReadCloser, error) {
	if uri.String() == s.uri {
		return nil, errors.New("disk error")
	}
	return s.Store.Open(ctx, who, uri)
}

func TestASourceThatCannotBeReadIsAWarning(t *testing.T) {
	f := newFixture(t, nil)
	f.store = failingStore{Store: f.store, uri: "viking://resources/docs/a.md"}
	var statuses []Status
	compiler := fakeCompiler{compile: func(_ context.Context, ws *Workspace) (*Bundle, error) {
		for _, file := range ws.Sources[0].Files {
			statuses = append(statuses, file.Status)
		}
		return nil, nil
	}}
	outcome, _, err := f.run(t, compiler, wikiTask())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Status{StatusDownloadError, StatusMaterialized}, statuses); diff != "" {
		t.Error(diff)
	}
	want := []string{"viking://resources/docs/a.md could not be read", warnEmpty}
	if diff := cmp.Diff(want, decode(t, outcome).Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestSourcesThatNoURICanNameAreAWarning(t *testing.T) {
	f := newFixture(t, map[string]string{"resources/docs/a?b.md": "x", "resources/docs/sub/c\nd.md": "x"})
	outcome, _, err := f.run(t, fakeCompiler{}, wikiTask())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"viking://resources/docs: entries left out: 2; their names can't be used, or they are no regular files", warnEmpty,
	}
	if diff := cmp.Diff(want, decode(t, outcome).Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestTwoSourcesKeepTheirOrderAndShareTheLimits(t *testing.T) {
	f := newFixture(t, map[string]string{"resources/more/c.md": "c"})
	task := wikiTask()
	task.From = []string{"viking://resources/more", "viking://resources/docs"}
	var ids []string
	compiler := fakeCompiler{compile: func(_ context.Context, ws *Workspace) (*Bundle, error) {
		for _, source := range ws.Sources {
			ids = append(ids, source.ID+" "+source.URI)
		}
		return nil, nil
	}}
	limits := DefaultLimits()
	limits.SourceFiles = 3
	if _, _, err := f.run(t, compiler, task, WithLimits(limits)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"src_1 viking://resources/more", "src_2 viking://resources/docs"}, ids); diff != "" {
		t.Error(diff)
	}
	limits.SourceFiles = 2
	_, _, err := f.run(t, compiler, task, WithLimits(limits))
	wantCode(t, err, runtimeapi.CodeResourceExhausted)
}
