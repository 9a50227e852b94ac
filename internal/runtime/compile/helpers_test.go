package compile

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/compile/skill"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

const skillText = "---\nname: wiki\ndescription: Makes a wiki.\n---\nMake it.\n"

// fakeCompiler answers what its function says.
type fakeCompiler struct {
	compile func(ctx context.Context, ws *Workspace) (*Bundle, error)
	admit   func(s *skill.Skill, target viking.ContextType) error
}

func (f fakeCompiler) Compile(ctx context.Context, ws *Workspace) (*Bundle, error) {
	if f.compile == nil {
		return &Bundle{}, nil
	}
	return f.compile(ctx, ws)
}

func (f fakeCompiler) Admit(s *skill.Skill, target viking.ContextType) error {
	if f.admit == nil {
		return nil
	}
	return f.admit(s, target)
}

// outputs returns a compiler that makes the given files.
func outputs(files ...OutputFile) fakeCompiler {
	return fakeCompiler{compile: func(context.Context, *Workspace) (*Bundle, error) {
		return &Bundle{Files: files}, nil
	}}
}

func page(title string) string {
	return "---\ntype: concept\ntitle: " + title + "\ndescription: d\n---\n\n# " + title + "\n"
}

type fixture struct {
	store contentstore.Store
	// dir is the account's directory on the disk.
	dir string
}

func newFixture(t *testing.T, files map[string]string) fixture {
	t.Helper()
	dir := t.TempDir()
	store, err := contentstore.OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	f := fixture{store: store, dir: filepath.Join(dir, "team-a")}
	f.lay(t, map[string]string{
		"agent/skills/wiki/SKILL.md": skillText,
		"resources/docs/a.md":        "# A\n",
		"resources/docs/sub/b.txt":   "b",
	})
	f.lay(t, files)
	return f
}

func (f fixture) lay(t *testing.T, files map[string]string) {
	t.Helper()
	for name, content := range files {
		full := filepath.Join(f.dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// tree returns the files below a directory of the account.
func (f fixture) tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := filepath.Join(f.dir, dir)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		files[rel] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func (f fixture) exists(name string) bool {
	_, err := os.Stat(filepath.Join(f.dir, name))
	return err == nil
}

func wikiTask() runtime.Task {
	return runtime.Task{
		Principal: runtime.Principal{Account: "team-a", User: "alice"},
		From:      []string{"viking://resources/docs"},
		To:        "viking://resources/wiki",
		Skill:     "viking://agent/skills/wiki",
	}
}

// run does a task and returns its stages.
func (f fixture) run(t *testing.T, compiler Compiler, task runtime.Task, options ...Option) (runtime.Outcome, []string, error) {
	t.Helper()
	var stages []string
	engine := NewEngine(f.store, compiler, options...)
	outcome, err := engine.Run(t.Context(), task, func(stage string) { stages = append(stages, stage) })
	return outcome, stages, err
}

func decode(t *testing.T, outcome runtime.Outcome) result {
	t.Helper()
	var r result
	if err := json.Unmarshal(outcome.Result, &r); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(outcome.Result), "null") {
		t.Errorf("result holds null: %s", outcome.Result)
	}
	return r
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	e, ok := errors.AsType[*runtimeapi.Error](err)
	if !ok || e.Code != code {
		t.Errorf("err = %v, want code %s", err, code)
	}
}
