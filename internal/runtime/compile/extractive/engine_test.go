package extractive_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/compile"
	"github.com/agentruntime/operator/internal/runtime/compile/extractive"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

const samples = "../../../../config/samples"

type outcome struct {
	Created   []string `json:"created"`
	Updated   []string `json:"updated"`
	Unchanged []string `json:"unchanged"`
	PageCount int      `json:"page_count"`
	LinkCount int      `json:"link_count"`
	Warnings  []string `json:"warnings"`
}

// newEngine returns an engine over a store that holds the samples.
func newEngine(t *testing.T) (*compile.Engine, string) {
	t.Helper()
	dir := t.TempDir()
	account := filepath.Join(dir, "team-a")
	for from, to := range map[string]string{"corpus": "resources/docs", "skills": "agent/skills"} {
		if err := os.CopyFS(filepath.Join(account, to), os.DirFS(filepath.Join(samples, from))); err != nil {
			t.Fatal(err)
		}
	}
	store, err := contentstore.OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return compile.NewEngine(store, extractive.New()), account
}

func task(to string) runtime.Task {
	return runtime.Task{
		Principal: runtime.Principal{Account: "team-a", User: "alice"},
		From:      []string{"viking://resources/docs"},
		To:        to,
		Skill:     "viking://agent/skills/llm-wiki",
	}
}

func do(t *testing.T, engine *compile.Engine, to string) outcome {
	t.Helper()
	prepared, err := engine.Prepare(t.Context(), task(to))
	if err != nil {
		t.Fatal(err)
	}
	done, err := engine.Run(t.Context(), prepared, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	var got outcome
	if err := json.Unmarshal(done.Result, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSamplesFromStoreToStore(t *testing.T) {
	sources, err := os.ReadDir(filepath.Join(samples, "corpus"))
	if err != nil {
		t.Fatal(err)
	}
	// The second target lies among the sources.
	for _, to := range []string{"viking://resources/wiki", "viking://resources/docs/wiki"} {
		t.Run(to, func(t *testing.T) {
			engine, account := newEngine(t)
			first := do(t, engine, to)
			if n := len(first.Created); n != len(sources)+1 || first.PageCount != n {
				t.Errorf("created %d files and %d pages for %d sources", n, first.PageCount, len(sources))
			}
			if len(first.Warnings) != 1 || !strings.Contains(first.Warnings[0], "No model was used") {
				t.Errorf("warnings %q", first.Warnings)
			}
			second := do(t, engine, to)
			if len(second.Created)+len(second.Updated) != 0 || len(second.Unchanged) != len(first.Created) {
				t.Errorf("the second run created %v and updated %v", second.Created, second.Updated)
			}
			if second.PageCount != first.PageCount || second.LinkCount != first.LinkCount {
				t.Errorf("counts changed from %+v to %+v", first, second)
			}
			index := filepath.Join(account, strings.TrimPrefix(to, "viking://"), "index.md")
			if _, err := os.Stat(index); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhatNeedsAModelIsRefusedAndLeavesNothing(t *testing.T) {
	other := "---\nname: daily-report\ndescription: d\n---\n"
	named := "---\nname: llm-wiki\ndescription: d\nmetadata: {compile: {kind: other}}\n---\n"
	cases := map[string]struct{ skill, to string }{
		"another Skill":                  {other, "viking://resources/new"},
		"a Skill of another kind":        {named, "viking://resources/new"},
		"a Memory target":                {"", "viking://user/alice/memories/new/x"},
		"a Skill target":                 {"", "viking://user/alice/skills"},
		"a Memory target of other Skill": {other, "viking://user/alice/memories/new/x"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			engine, account := newEngine(t)
			if tc.skill != "" {
				if err := os.WriteFile(filepath.Join(account, "agent/skills/llm-wiki/SKILL.md"), []byte(tc.skill), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := engine.Prepare(t.Context(), task(tc.to))
			if err == nil || !strings.HasPrefix(err.Error(), runtimeapi.CodeSkillCapabilityUnavailable) || !strings.Contains(err.Error(), "needs a model") {
				t.Errorf("err = %v", err)
			}
			for _, dir := range []string{"resources/new", "user"} {
				if _, err := os.Stat(filepath.Join(account, dir)); err == nil {
					t.Errorf("%s was created", dir)
				}
			}
		})
	}
}

func TestASkillOfTheKindMayHaveAnyName(t *testing.T) {
	engine, account := newEngine(t)
	mine := "---\nname: mine\ndescription: d\nmetadata: {compile: {kind: llm-wiki}}\n---\n"
	if err := os.WriteFile(filepath.Join(account, "agent/skills/llm-wiki/SKILL.md"), []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := do(t, engine, "viking://resources/new"); len(got.Created) == 0 {
		t.Error("nothing was created")
	}
}
