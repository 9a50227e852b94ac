package compile

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/compile/skill"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

func TestPrepareMakesATaskCanonical(t *testing.T) {
	f := newFixture(t, map[string]string{"user/alice/resources/n/x.md": "x", "user/alice/skills/mine/SKILL.md": skillText})
	clock := WithClock(func() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) })
	got, err := NewEngine(f.store, fakeCompiler{}, clock).Prepare(t.Context(), runtime.Task{
		Principal:   runtime.Principal{Account: "team-a", User: "alice"},
		From:        []string{" viking://~/resources/n/", "viking://resources/docs", "viking://user/alice/resources/n"},
		To:          "viking://resources/out/{calendar:today}/",
		Skill:       "viking://~/skills/mine/SKILL.md",
		Instruction: "Be brief.",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := runtime.Task{
		Principal:   runtime.Principal{Account: "team-a", User: "alice"},
		From:        []string{"viking://user/alice/resources/n", "viking://resources/docs"},
		To:          "viking://resources/out/2026/03/04",
		Skill:       "viking://user/alice/skills/mine",
		Instruction: "Be brief.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !f.exists("resources/out/2026/03/04") {
		t.Error("the target was not created")
	}
}

func TestPrepareRefusesAndLeavesNothingBehind(t *testing.T) {
	files := map[string]string{
		"resources/file.md":               "x",
		"user/bob/resources/b/x.md":       "x",
		"agent/skills/none/README.md":     "x",
		"agent/skills/dir/SKILL.md/x":     "x",
		"agent/skills/plain/SKILL.md":     "no front matter",
		"agent/skills/nodesc/SKILL.md":    "---\nname: a\n---\n",
		"agent/skills/needs/SKILL.md":     "---\nname: a\ndescription: d\nmetadata: {requires: {bins: [git]}}\n---\n",
		"agent/skills/refused/SKILL.md":   "---\nname: refused\ndescription: d\n---\n",
		"user/bob/skills/theirs/SKILL.md": skillText,
	}
	many := make([]string, 17)
	for i := range many {
		many[i] = "viking://resources/d" + strconv.Itoa(i)
	}
	cases := map[string]struct {
		change func(*runtime.Task)
		want   string
	}{
		"no source":                   {func(r *runtime.Task) { r.From = nil }, runtimeapi.CodeInvalidArgument},
		"a source that is no URI":     {func(r *runtime.Task) { r.From = []string{"docs"} }, runtimeapi.CodeInvalidArgument},
		"a missing source":            {func(r *runtime.Task) { r.From = []string{"viking://resources/gone"} }, runtimeapi.CodeNotFound},
		"a source that is a file":     {func(r *runtime.Task) { r.From = []string{"viking://resources/file.md"} }, runtimeapi.CodeInvalidArgument},
		"another user's source":       {func(r *runtime.Task) { r.From = []string{"viking://user/bob/resources/b"} }, runtimeapi.CodePermissionDenied},
		"more than 16 sources":        {func(r *runtime.Task) { r.From = many }, runtimeapi.CodeResourceExhausted},
		"a missing Skill":             {func(r *runtime.Task) { r.Skill = "viking://agent/skills/gone" }, runtimeapi.CodeNotFound},
		"a Skill without SKILL.md":    {func(r *runtime.Task) { r.Skill = "viking://agent/skills/none" }, runtimeapi.CodeNotFound},
		"SKILL.md is a directory":     {func(r *runtime.Task) { r.Skill = "viking://agent/skills/dir" }, runtimeapi.CodeInvalidArgument},
		"no front matter":             {func(r *runtime.Task) { r.Skill = "viking://agent/skills/plain" }, runtimeapi.CodeSkillInvalid},
		"no description":              {func(r *runtime.Task) { r.Skill = "viking://agent/skills/nodesc" }, runtimeapi.CodeSkillInvalid},
		"a Skill that needs a binary": {func(r *runtime.Task) { r.Skill = "viking://agent/skills/needs" }, runtimeapi.CodeSkillCapabilityUnavailable},
		"the compiler refuses":        {func(r *runtime.Task) { r.Skill = "viking://agent/skills/refused" }, runtimeapi.CodeSkillCapabilityUnavailable},
		"another user's Skill":        {func(r *runtime.Task) { r.Skill = "viking://user/bob/skills/theirs" }, runtimeapi.CodePermissionDenied},
		"a Skill that is a resource":  {func(r *runtime.Task) { r.Skill = "viking://resources/docs" }, runtimeapi.CodeInvalidArgument},
		"a target that is a file":     {func(r *runtime.Task) { r.To = "viking://resources/file.md" }, runtimeapi.CodeInvalidArgument},
		"a target below a file":       {func(r *runtime.Task) { r.To = "viking://resources/file.md/x" }, runtimeapi.CodeConflict},
		"the root of resources":       {func(r *runtime.Task) { r.To = "viking://resources" }, runtimeapi.CodeInvalidArgument},
		"another user's target":       {func(r *runtime.Task) { r.To = "viking://user/bob/resources/x" }, runtimeapi.CodePermissionDenied},
	}
	compiler := fakeCompiler{admit: func(s *skill.Skill, _ viking.ContextType) error {
		if s.Name == "refused" {
			return &runtimeapi.Error{Code: runtimeapi.CodeSkillCapabilityUnavailable, Message: "no"}
		}
		return nil
	}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, files)
			before := f.tree(t, ".")
			task := wikiTask()
			tc.change(&task)
			_, err := NewEngine(f.store, compiler).Prepare(t.Context(), task)
			wantCode(t, err, tc.want)
			if f.exists("resources/wiki") {
				t.Error("the target was created")
			}
			if diff := cmp.Diff(before, f.tree(t, ".")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPrepareAcceptsATargetThatExists(t *testing.T) {
	f := newFixture(t, map[string]string{"resources/wiki/index.md": "old"})
	task := wikiTask()
	got, err := NewEngine(f.store, fakeCompiler{}).Prepare(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(task, got); diff != "" {
		t.Error(diff)
	}
	if content, err := os.ReadFile(filepath.Join(f.dir, "resources/wiki/index.md")); err != nil || string(content) != "old" {
		t.Errorf("target holds %q, %v", content, err)
	}
}

func TestPrepareEndsWithItsContext(t *testing.T) {
	f := newFixture(t, nil)
	ctx, cancel := contextWithCancel(t)
	cancel()
	_, err := NewEngine(f.store, fakeCompiler{}).Prepare(ctx, wikiTask())
	if !errors.Is(err, ctx.Err()) {
		t.Errorf("err = %v, want %v", err, ctx.Err())
	}
}
