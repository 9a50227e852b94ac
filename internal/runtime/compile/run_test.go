package compile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtimeapi"
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
			warnings := []string{warnEmpty}
			if tc.from == tc.to {
				warnings = []string{tc.from + " is the source and the target; its own pages are not taken as sources", warnEmpty}
			}
			if diff := cmp.Diff(warnings, decode(t, outcome).Warnings); diff != "" {
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
