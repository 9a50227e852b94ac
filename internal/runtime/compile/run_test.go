package compile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithCancel(t.Context())
}

func TestRun(t *testing.T) {
	f := newFixture(t, map[string]string{
		"resources/wiki/same.md":    page("Same"),
		"resources/wiki/old.md":     page("Old"),
		"resources/wiki/other.md":   page("Other"),
		"resources/wiki/notes.txt":  "notes",
		"resources/docs/bin.dat":    "\xff\xfe\x00",
		"resources/docs/.hidden.md": "h",
	})
	var seen *Workspace
	compiler := fakeCompiler{compile: func(_ context.Context, ws *Workspace) (*Bundle, error) {
		seen = ws
		return &Bundle{
			Files: []OutputFile{
				{"same.md", []byte(page("Same"))},
				{"old.md", []byte(page("New"))},
				{"concept/new.md", []byte(page("Fresh"))},
				{"data.json", []byte("{}")},
			},
			LinkCount: 7,
			Warnings:  []string{"mine"},
			Meta:      json.RawMessage(`{"token_usage":{"total_tokens":1}}`),
		}, nil
	}}
	outcome, stages, err := f.run(t, compiler, wikiTask())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"loading_skill", "collecting_context", "agent", "rendering", "writing"}, stages); diff != "" {
		t.Error(diff)
	}
	want := result{
		From: []string{"viking://resources/docs"}, To: "viking://resources/wiki", Skill: "viking://agent/skills/wiki",
		OKFVersion: "0.1",
		Created:    []string{"viking://resources/wiki/concept/new.md", "viking://resources/wiki/data.json"},
		Updated:    []string{"viking://resources/wiki/old.md"},
		Unchanged:  []string{"viking://resources/wiki/same.md"},
		PageCount:  4, LinkCount: 7,
		Warnings: []string{"mine", "viking://resources/docs/bin.dat is not UTF-8 text and was skipped"},
	}
	if diff := cmp.Diff(want, decode(t, outcome)); diff != "" {
		t.Error(diff)
	}
	if outcome.Stage != "completed" || string(outcome.Meta) != `{"token_usage":{"total_tokens":1}}` {
		t.Errorf("stage %q, meta %s", outcome.Stage, outcome.Meta)
	}
	wantTree := map[string]string{
		"same.md": page("Same"), "old.md": page("New"), "other.md": page("Other"), "notes.txt": "notes",
		"concept/new.md": page("Fresh"), "data.json": "{}",
	}
	if diff := cmp.Diff(wantTree, f.tree(t, "resources/wiki")); diff != "" {
		t.Error(diff)
	}
	checkWorkspace(t, seen)
}

func checkWorkspace(t *testing.T, ws *Workspace) {
	t.Helper()
	if ws.Skill.Name != "wiki" || ws.Instruction != DefaultInstruction || ws.To != "viking://resources/wiki" {
		t.Errorf("workspace %+v", ws)
	}
	var files []string
	for _, file := range ws.Sources[0].Files {
		files = append(files, file.Path+" "+string(file.Status))
	}
	want := []string{"a.md materialized", "bin.dat skipped:binary", "sub/b.txt materialized"}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
	content, whole, err := ws.Sources[0].Files[0].Head(t.Context(), 2)
	if string(content) != "# " || whole || err != nil {
		t.Errorf("Head = %q, %v, %v", content, whole, err)
	}
	if len(ws.SkillFiles) != 1 || ws.SkillFiles[0].Path != "SKILL.md" {
		t.Errorf("Skill files %+v", ws.SkillFiles)
	}
	if len(ws.Target) != 4 || ws.Target[0].Page != nil || ws.Target[1].Page == nil {
		t.Errorf("target %+v", ws.Target)
	}
}

func TestOutputIsNoSource(t *testing.T) {
	f := newFixture(t, map[string]string{"resources/docs/wiki/index.md": "i", "resources/docs/wiki/raw/r.md": "r"})
	cases := map[string]struct {
		from, to string
		want     []string
	}{
		"a target below the source is left out":      {"viking://resources/docs", "viking://resources/docs/wiki", []string{"a.md", "sub/b.txt"}},
		"a target that is the source leaves nothing": {"viking://resources/docs", "viking://resources/docs", nil},
		"a source below the target is read":          {"viking://resources/docs/wiki/raw", "viking://resources/docs/wiki", []string{"r.md"}},
		"a target of a similar name is no target":    {"viking://resources/docs", "viking://resources/docs/wik", []string{"a.md", "sub/b.txt", "wiki/index.md", "wiki/raw/r.md"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			compiler := fakeCompiler{compile: func(_ context.Context, ws *Workspace) (*Bundle, error) {
				for _, file := range ws.Sources[0].Files {
					got = append(got, file.Path)
				}
				return nil, nil
			}}
			task := wikiTask()
			task.From, task.To = []string{tc.from}, tc.to
			outcome, _, err := f.run(t, compiler, task)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{warnEmpty}, decode(t, outcome).Warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRunLimits(t *testing.T) {
	cases := map[string]func(*Limits){
		"source files":      func(l *Limits) { l.SourceFiles = 1 },
		"source bytes":      func(l *Limits) { l.SourceBytes = 3 },
		"target files":      func(l *Limits) { l.TargetFiles = 1 },
		"target bytes":      func(l *Limits) { l.TargetBytes = 1 },
		"Skill files":       func(l *Limits) { l.SkillFiles = 1 },
		"a Skill file":      func(l *Limits) { l.SkillFileBytes = 30 },
		"all Skill files":   func(l *Limits) { l.SkillBytes = 60 },
		"output bytes":      func(l *Limits) { l.OutputBytes = 5 },
		"the target to be":  func(l *Limits) { l.TargetFiles = 2 },
		"number of sources": func(l *Limits) { l.SourceRoots = 0 },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, map[string]string{
				"resources/wiki/x": "xx", "resources/wiki/y": "yy", "agent/skills/wiki/more.md": strings.Repeat("m", 20),
			})
			before := f.tree(t, ".")
			limits := DefaultLimits()
			change(&limits)
			_, _, err := f.run(t, outputs(OutputFile{"new.txt", []byte("output")}), wikiTask(), WithLimits(limits))
			wantCode(t, err, runtimeapi.CodeResourceExhausted)
			if diff := cmp.Diff(before, f.tree(t, ".")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

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

func TestCompilerErrors(t *testing.T) {
	cases := map[string]struct {
		err  error
		want string
	}{
		"an error with a code":    {&runtimeapi.Error{Code: runtimeapi.CodeModelUnavailable, Message: "m"}, runtimeapi.CodeModelUnavailable},
		"an error without a code": {errors.New("boom"), runtimeapi.CodeInternal},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			compiler := fakeCompiler{compile: func(context.Context, *Workspace) (*Bundle, error) { return nil, tc.err }}
			_, _, err := f.run(t, compiler, wikiTask())
			wantCode(t, err, tc.want)
		})
	}
}

func TestACancelledRunWritesNothing(t *testing.T) {
	for _, at := range []string{"loading_skill", "collecting_context", "agent", "rendering", "writing"} {
		t.Run(at, func(t *testing.T) {
			f := newFixture(t, nil)
			ctx, cancel := contextWithCancel(t)
			defer cancel()
			var last string
			_, err := NewEngine(f.store, outputs(OutputFile{"a", []byte("a")})).Run(ctx, wikiTask(), func(stage string) {
				if last = stage; stage == at {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) || last != at {
				t.Errorf("err = %v after %s", err, last)
			}
			if f.exists("resources/wiki") {
				t.Error("something was written")
			}
		})
	}
}

func TestACancelledRunStopsBetweenBatches(t *testing.T) {
	f := newFixture(t, nil)
	ctx, cancel := contextWithCancel(t)
	defer cancel()
	store := &countingStore{Store: f.store}
	var files []OutputFile
	for i := range 300 {
		files = append(files, OutputFile{fmt.Sprintf("f%03d", i), []byte("x")})
	}
	store.before = func(n int) error {
		if n == 2 {
			t.Error("a second batch was begun")
		}
		return nil
	}
	wrapped := &cancelAfter{Store: store, cancel: cancel}
	_, err := NewEngine(wrapped, outputs(files...)).Run(ctx, wikiTask(), func(string) {})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if n := len(f.tree(t, "resources/wiki")); n != 256 {
		t.Errorf("%d files, want the first batch", n)
	}
}

// cancelAfter cancels once a batch is written.
type cancelAfter struct {
	contentstore.Store
	cancel func()
}

func (s *cancelAfter) BatchWrite(ctx context.Context, who contentstore.Principal, batch contentstore.Batch) (contentstore.BatchResult, error) {
	defer s.cancel()
	return s.Store.BatchWrite(ctx, who, batch)
}

func TestASkillThatChangedMeanwhileIsCheckedAgain(t *testing.T) {
	f := newFixture(t, nil)
	task, err := NewEngine(f.store, fakeCompiler{}).Prepare(t.Context(), wikiTask())
	if err != nil {
		t.Fatal(err)
	}
	f.lay(t, map[string]string{"agent/skills/wiki/SKILL.md": "broken"})
	_, stages, err := f.run(t, fakeCompiler{}, task)
	wantCode(t, err, runtimeapi.CodeSkillInvalid)
	if len(stages) != 1 {
		t.Errorf("stages %v", stages)
	}
}

func TestWarningsAreBounded(t *testing.T) {
	f := newFixture(t, nil)
	compiler := fakeCompiler{compile: func(context.Context, *Workspace) (*Bundle, error) {
		return &Bundle{Files: []OutputFile{{"a", nil}}, Warnings: make([]string, 500)}, nil
	}}
	outcome, _, err := f.run(t, compiler, wikiTask())
	if err != nil {
		t.Fatal(err)
	}
	warnings := decode(t, outcome).Warnings
	if len(warnings) != 101 || warnings[100] != "400 more warnings" {
		t.Errorf("%d warnings, the last %q", len(warnings), warnings[len(warnings)-1])
	}
}

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
