package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/agentruntime/operator/api/v1alpha1"
	testenv "github.com/agentruntime/operator/test/envtest"
)

// tell is what the demo shows, once everything runs.
func (d *demo) tell(ctx context.Context) error {
	const sample = "config/samples/compiletask.yaml"
	heading("A task, from the sample %s", sample)
	if err := d.kubectl(ctx, "apply", "-f", sample); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "wait", "--for=condition=Complete", "compiletask/team-wiki", "--timeout=120s"); err != nil {
		return errors.Join(err, d.kubectl(ctx, "describe", "compiletask", "team-wiki"))
	}
	for _, arguments := range [][]string{
		{"get", "compiletask", "team-wiki", "-o", "wide"},
		{"describe", "compiletask", "team-wiki"},
		{"get", "events", "--field-selector=involvedObject.name=team-wiki"},
	} {
		if err := d.kubectl(ctx, arguments...); err != nil {
			return err
		}
	}
	wiki := filepath.Join(d.Content, demoNamespace, "resources", "wiki")
	if err := d.showWiki(wiki); err != nil {
		return err
	}
	if err := d.again(ctx, sample); err != nil {
		return err
	}
	if err := d.overREST(ctx); err != nil {
		return err
	}
	heading("Done: %d files in the wiki; every step was a real API call", countFiles(wiki))
	return nil
}

// again compiles the same target twice more at once: one task waits for the other,
// and both find that nothing has changed.
func (d *demo) again(ctx context.Context, sample string) error {
	heading("The same target twice more, at the same time: one waits, and nothing changes")
	var task v1alpha1.CompileTask
	if err := readYAML(sample, &task); err != nil {
		return err
	}
	names := []string{"team-wiki-2", "team-wiki-3"}
	var manifest strings.Builder
	for _, name := range names {
		document, err := yaml.Marshal(map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "CompileTask",
			"metadata": map[string]any{"name": name},
			"spec":     map[string]any{"from": task.Spec.From, "to": task.Spec.To, "skill": task.Spec.Skill, "instruction": task.Spec.Instruction},
		})
		if err != nil {
			return err
		}
		manifest.WriteString("---\n" + string(document))
	}
	path := filepath.Join(d.Dir, "again.yaml")
	if err := os.WriteFile(path, []byte(manifest.String()), 0o600); err != nil {
		return err
	}
	watcher, err := d.watchWaiting(ctx)
	if err != nil {
		return err
	}
	defer watcher.stop()
	if err := d.kubectl(ctx, "apply", "-f", path); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "wait", "--for=condition=Complete", "compiletask/team-wiki-2", "compiletask/team-wiki-3", "--timeout=120s"); err != nil {
		return err
	}
	waited := watcher.stop()
	for _, line := range waited {
		fmt.Println("  waited:", line)
	}
	if err := d.kubectl(ctx, "get", "compiletasks", "-o", "wide"); err != nil {
		return err
	}
	return d.checkAgain(ctx, names, len(waited))
}

// checkAgain makes the demo fail when it did not show what it says it shows.
func (d *demo) checkAgain(ctx context.Context, names []string, waited int) error {
	if waited == 0 {
		return errors.New("neither of two tasks with the same target was seen to wait")
	}
	for _, name := range names {
		var task v1alpha1.CompileTask
		if err := d.Client.Get(ctx, client.ObjectKey{Namespace: demoNamespace, Name: name}, &task); err != nil {
			return err
		}
		summary := task.Status.ResultSummary
		if summary == nil || summary.Unchanged == 0 || summary.Created+summary.Updated > 0 {
			return fmt.Errorf("task %s should have found everything unchanged, and reports %+v", name, summary)
		}
	}
	return nil
}

// waitWatcher notes each task that says it waits for its target.
type waitWatcher struct {
	once  sync.Once
	end   func()
	done  chan struct{}
	lines []string
}

func (w *waitWatcher) stop() []string {
	w.once.Do(w.end)
	<-w.done
	return w.lines
}

func (d *demo) watchWaiting(ctx context.Context) (*waitWatcher, error) {
	watching, err := client.NewWithWatch(d.Config, client.Options{Scheme: testenv.NewScheme()})
	if err != nil {
		return nil, err
	}
	events, err := watching.Watch(ctx, &v1alpha1.CompileTaskList{}, client.InNamespace(demoNamespace))
	if err != nil {
		return nil, fmt.Errorf("watch the tasks: %w", err)
	}
	w := &waitWatcher{end: events.Stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		seen := map[string]bool{}
		for event := range events.ResultChan() {
			task, ok := event.Object.(*v1alpha1.CompileTask)
			if !ok {
				continue
			}
			condition := apimeta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionSubmitted)
			if condition != nil && condition.Status == metav1.ConditionFalse && condition.Reason == v1alpha1.ReasonTargetBusy && !seen[task.Name] {
				seen[task.Name] = true
				w.lines = append(w.lines, fmt.Sprintf("%s, %s: %s", task.Name, condition.Reason, condition.Message))
			}
		}
	}()
	return w, nil
}

// kubectl runs the real kubectl as the demo's user and shows what it prints.
func (d *demo) kubectl(ctx context.Context, arguments ...string) error {
	return d.show(ctx, d.user.Kubeconfig, d.Kubectl(), append([]string{"--namespace", demoNamespace}, arguments...)...)
}

func (d *demo) showWiki(wiki string) error {
	index := filepath.Join(wiki, "index.md")
	data, err := os.ReadFile(index)
	if err != nil {
		return fmt.Errorf("read the wiki: %w", err)
	}
	heading("The wiki's index.md, on disk")
	fmt.Println(strings.TrimSpace(string(data)))
	return nil
}

func (d *demo) printAccess() {
	heading("Everything keeps running until you press Ctrl-C")
	fmt.Printf(`The kubectl of this API server:  export PATH=%s:%s:$PATH
As %s, in the namespace %s:  export KUBECONFIG=%s
As a cluster admin:              export KUBECONFIG=%s
API server:                      %s
REST API:                        %s
  its authority, for --cacert:   %s
  an API key of %s:           %s
Executor:                        %s
Files behind viking://:          %s
Logs:                            %s/*.log
started %s
`, filepath.Dir(d.Kubectl()), filepath.Dir(d.Binary("arctl")), demoUser, demoNamespace, d.user.Kubeconfig, d.Admin, d.Config.Host,
		d.FacadeURL(), d.authority, demoUser, d.key, d.RuntimeURL(), filepath.Join(d.Content, demoNamespace), d.Dir, time.Now().Format(time.TimeOnly))
}

func heading(format string, arguments ...any) {
	fmt.Printf("\n== "+format+"\n", arguments...)
}

func countFiles(folder string) int {
	files := 0
	_ = filepath.WalkDir(folder, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files++
		}
		return nil
	})
	return files
}

func readYAML(path string, object any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(data, object); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
