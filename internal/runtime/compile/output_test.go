package compile

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

func TestOutputIsChecked(t *testing.T) {
	big := make([]byte, contentstore.MaxBatchFileBytes+1)
	cases := map[string]struct {
		files []OutputFile
		want  string
	}{
		"a path upwards":        {[]OutputFile{{"../x.md", nil}}, runtimeapi.CodeAgentOutputInvalid},
		"an absolute path":      {[]OutputFile{{"/x.md", nil}}, runtimeapi.CodeAgentOutputInvalid},
		"a hidden file":         {[]OutputFile{{"a/.x", nil}}, runtimeapi.CodeAgentOutputInvalid},
		"a derived file":        {[]OutputFile{{".abstract.md", nil}}, runtimeapi.CodeAgentOutputInvalid},
		"an encoded path":       {[]OutputFile{{"%2e%2e/x", nil}}, runtimeapi.CodeAgentOutputInvalid},
		"a path twice":          {[]OutputFile{{"x", nil}, {"x", nil}}, runtimeapi.CodeAgentOutputInvalid},
		"a path twice by case":  {[]OutputFile{{"x", nil}, {"X", nil}}, runtimeapi.CodeAgentOutputInvalid},
		"case of the target's":  {[]OutputFile{{"Index.md", nil}}, runtimeapi.CodeConflict},
		"a page without title":  {[]OutputFile{{"x.md", []byte("---\ntype: a\ndescription: d\n---\n")}}, runtimeapi.CodeAgentOutputInvalid},
		"a page of two lines":   {[]OutputFile{{"x.MD", []byte("---\ntype: a\ntitle: t\ndescription: \"a\\nb\"\n---\n")}}, runtimeapi.CodeAgentOutputInvalid},
		"a page without an end": {[]OutputFile{{"x.md", []byte("---\ntype: a\n")}}, runtimeapi.CodeAgentOutputInvalid},
		"a page not in UTF-8":   {[]OutputFile{{"x.md", []byte(page("T") + "\xff")}}, runtimeapi.CodeAgentOutputInvalid},
		"a page made no page":   {[]OutputFile{{"index.md", []byte("# no page")}}, runtimeapi.CodeAgentOutputInvalid},
		"a file too large":      {[]OutputFile{{"x", big}}, runtimeapi.CodeResourceExhausted},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, map[string]string{"resources/wiki/index.md": page("Index")})
			files := append([]OutputFile{{"good.txt", []byte("good")}}, tc.files...)
			_, stages, err := f.run(t, outputs(files...), wikiTask())
			wantCode(t, err, tc.want)
			if stages[len(stages)-1] != "rendering" {
				t.Errorf("failed in %s", stages[len(stages)-1])
			}
			if f.exists("resources/wiki/good.txt") {
				t.Error("something was written")
			}
		})
	}
}

// countingStore counts the batches and calls before each.
type countingStore struct {
	contentstore.Store
	batches []int
	before  func(n int) error
}

func (s *countingStore) BatchWrite(ctx context.Context, who contentstore.Principal, batch contentstore.Batch) (contentstore.BatchResult, error) {
	s.batches = append(s.batches, len(batch.Operations))
	if s.before != nil {
		if err := s.before(len(s.batches)); err != nil {
			return contentstore.BatchResult{}, err
		}
	}
	return s.Store.BatchWrite(ctx, who, batch)
}

func TestChangedFilesAreWrittenInFewBatches(t *testing.T) {
	var many []OutputFile
	for i := range 600 {
		many = append(many, OutputFile{fmt.Sprintf("f%d", i), []byte("x")})
	}
	third := make([]byte, 6<<20)
	cases := map[string]struct {
		files []OutputFile
		want  []int
	}{
		"by number":      {many, []int{256, 256, 88}},
		"by size":        {[]OutputFile{{"a", third}, {"b", third}, {"c", third}, {"d", third}}, []int{2, 2}},
		"nothing to do":  {nil, nil},
		"exactly a full": {many[:256], []int{256}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			store := &countingStore{Store: f.store}
			f.store = store
			outcome, _, err := f.run(t, outputs(tc.files...), wikiTask())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, store.batches); diff != "" {
				t.Error(diff)
			}
			if n := len(decode(t, outcome).Created); n != len(tc.files) {
				t.Errorf("created %d of %d", n, len(tc.files))
			}
			store.batches = nil
			outcome, _, err = f.run(t, outputs(tc.files...), wikiTask())
			if err != nil || len(store.batches) != 0 || len(decode(t, outcome).Unchanged) != len(tc.files) {
				t.Errorf("a second run wrote %v: %v", store.batches, err)
			}
		})
	}
}

func TestWriteFailures(t *testing.T) {
	cases := map[string]struct {
		err  error
		want string
	}{
		"a busy target": {&contentstore.Error{Kind: contentstore.KindConflict, Reason: "busy"}, runtimeapi.CodeWriteConflict},
		"a full disk":   {&contentstore.Error{Kind: contentstore.KindExhausted, Reason: "full"}, runtimeapi.CodeWriteFailed},
		"anything else": {errors.New("boom"), runtimeapi.CodeWriteFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.store = &countingStore{Store: f.store, before: func(int) error { return tc.err }}
			_, stages, err := f.run(t, outputs(OutputFile{"a", []byte("a")}), wikiTask())
			wantCode(t, err, tc.want)
			if stages[len(stages)-1] != "writing" {
				t.Errorf("failed in %s", stages[len(stages)-1])
			}
		})
	}
}
