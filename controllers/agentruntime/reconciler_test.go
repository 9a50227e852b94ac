package agentruntime

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/executor/registry"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func runtimeOf(name string, age time.Duration, mark string) *v1alpha1.AgentRuntime {
	runtime := &v1alpha1.AgentRuntime{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Time{Time: now.Add(-age)}, Generation: 3}}
	if mark != "" {
		runtime.Annotations = map[string]string{v1alpha1.AnnotationDefaultRuntime: mark}
	}
	return runtime
}

// world is an API server with some AgentRuntimes, whose status writes it keeps.
type world struct {
	client.Client
	runtimes map[string]*v1alpha1.AgentRuntime
	writes   []v1alpha1.AgentRuntimeStatus
	writeErr error
	readErr  error
}

func (w *world) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, ok := w.runtimes[key.Name]
	switch {
	case w.readErr != nil:
		return w.readErr
	case !ok:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "agentruntimes"}, key.Name)
	}
	if runtime, ok := into.(*v1alpha1.AgentRuntime); ok {
		found.DeepCopyInto(runtime)
	}
	return nil
}

func (w *world) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	list, ok := into.(*v1alpha1.AgentRuntimeList)
	if !ok {
		return errors.New("another kind is listed")
	}
	for _, runtime := range w.runtimes {
		list.Items = append(list.Items, *runtime.DeepCopy())
	}
	return nil
}

func (w *world) Status() client.SubResourceWriter { return statusOf{world: w} }

type statusOf struct {
	client.SubResourceWriter
	world *world
}

func (s statusOf) Update(_ context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	if s.world.writeErr != nil {
		return s.world.writeErr
	}
	runtime, ok := object.(*v1alpha1.AgentRuntime)
	if !ok {
		return errors.New("another kind is written")
	}
	s.world.writes = append(s.world.writes, runtime.Status)
	s.world.runtimes[runtime.Name] = runtime.DeepCopy()
	return nil
}

// probes is an executor that answers probes, and the registry that knows it.
type probes struct {
	executor.Executor
	capabilities executor.Capabilities
	err          error
	unusable     error
	forgotten    []string
}

func (p *probes) Probe(context.Context) (executor.Capabilities, error) { return p.capabilities, p.err }

func (p *probes) For(*v1alpha1.AgentRuntime) (executor.Executor, error) {
	if p.unusable != nil {
		return nil, p.unusable
	}
	return p, nil
}

func (p *probes) Forget(name string) { p.forgotten = append(p.forgotten, name) }

func (p *probes) TaskCounts(string) (running, waiting int) { return 2, 5 }

// told keeps events as "Type Reason".
type told struct{ events []string }

func (t *told) Eventf(_, _ apiruntime.Object, eventType, reason, _, _ string, _ ...any) {
	t.events = append(t.events, eventType+" "+reason)
}

func newReconciler(w *world, p *probes) (*Reconciler, *told) {
	events := &told{}
	return &Reconciler{Client: w, Executors: p, Tasks: p, Recorder: events, Now: func() time.Time { return now }}, events
}

func pass(t *testing.T, r *Reconciler) (ctrl.Result, error) {
	t.Helper()
	return r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "r"}})
}

func TestReconcileWritesOnceAndTellsOnce(t *testing.T) {
	w := &world{runtimes: map[string]*v1alpha1.AgentRuntime{"r": runtimeOf("r", 0, "true")}}
	p := &probes{capabilities: executor.Capabilities{HeldPolls: true}}
	r, events := newReconciler(w, p)
	for range 3 {
		result, err := pass(t, r)
		if err != nil || result.RequeueAfter < ProbeInterval*9/10 || result.RequeueAfter > ProbeInterval*11/10 {
			t.Fatalf("result %v, %v; want another probe in about %s", result, err, ProbeInterval)
		}
	}
	if len(w.writes) != 1 {
		t.Fatalf("%d writes, want 1", len(w.writes))
	}
	status := w.writes[0]
	if status.HeldPolls != v1alpha1.HeldPollsSupported || *status.RunningTasks != 2 || *status.WaitingTasks != 5 || status.ObservedGeneration != 3 {
		t.Errorf("status %+v", status)
	}
	if diff := cmp.Diff([]string{"Normal ProbeSucceeded", "Normal NewestMarked"}, events.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	p.err = errors.New("gone")
	if _, err := pass(t, r); err != nil {
		t.Fatalf("reconcile: %v", err)
	}
	if diff := cmp.Diff("Warning ProbeFailed", events.events[2]); diff != "" || len(events.events) != 3 {
		t.Errorf("events %v", events.events)
	}
	if got := w.writes[1].HeldPolls; got != v1alpha1.HeldPollsSupported {
		t.Errorf("held polls %q after a failed probe, want what was known", got)
	}
}

func TestReconcileErrors(t *testing.T) {
	resource := schema.GroupResource{Resource: "agentruntimes"}
	cases := map[string]struct {
		change      func(*world)
		wantErr     bool
		wantRequeue bool
	}{
		"a conflict is looked at again":      {func(w *world) { w.writeErr = apierrors.NewConflict(resource, "r", errors.New("newer")) }, false, true},
		"an object gone meanwhile is fine":   {func(w *world) { w.writeErr = apierrors.NewNotFound(resource, "r") }, false, false},
		"another failed write is an error":   {func(w *world) { w.writeErr = errors.New("no quorum") }, true, false},
		"a failed read is an error":          {func(w *world) { w.readErr = errors.New("no cache") }, true, false},
		"one that is going is left as it is": {func(w *world) { w.runtimes["r"].DeletionTimestamp = &metav1.Time{Time: now} }, false, false},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			w := &world{runtimes: map[string]*v1alpha1.AgentRuntime{"r": runtimeOf("r", 0, "")}}
			test.change(w)
			r, events := newReconciler(w, &probes{})
			result, err := pass(t, r)
			if (err != nil) != test.wantErr || (result.RequeueAfter > 0) != test.wantRequeue {
				t.Fatalf("result %v, %v", result, err)
			}
			if len(w.writes) != 0 || len(events.events) != 0 {
				t.Fatalf("%d writes and events %v, want none", len(w.writes), events.events)
			}
		})
	}
}

func TestReconcileForgetsARuntimeThatIsGone(t *testing.T) {
	p := &probes{}
	r, _ := newReconciler(&world{}, p)
	if result, err := pass(t, r); err != nil || result != (ctrl.Result{}) {
		t.Fatalf("result %v, %v", result, err)
	}
	if diff := cmp.Diff([]string{"r"}, p.forgotten); diff != "" {
		t.Fatalf("forgotten (-want +got):\n%s", diff)
	}
}

func TestReadyReasons(t *testing.T) {
	cases := map[string]struct {
		p    probes
		want string
	}{
		"answers":              {probes{}, "True/ProbeSucceeded"},
		"silent":               {probes{err: errors.New("silent")}, "False/ProbeFailed"},
		"no gateway token":     {probes{err: fmt.Errorf("probe: %w", registry.ErrTokenUnavailable)}, "False/GatewayTokenUnavailable"},
		"a spec without sense": {probes{unusable: errors.New("no URL")}, "False/InvalidConfiguration"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := runtimeOf("r", 0, "")
			r, _ := newReconciler(&world{}, &test.p)
			r.setReady(t.Context(), runtime)
			ready := meta.FindStatusCondition(runtime.Status.Conditions, v1alpha1.ConditionReady)
			if got := string(ready.Status) + "/" + ready.Reason; got != test.want || ready.Message == "" || ready.ObservedGeneration != 3 {
				t.Fatalf("condition %+v, want %s", ready, test.want)
			}
		})
	}
}

func TestSetDefault(t *testing.T) {
	one, two := runtimeOf("one", time.Hour, "true"), runtimeOf("two", time.Minute, "true")
	cases := map[string]struct {
		runtime, inEffect *v1alpha1.AgentRuntime
		want              string
	}{
		"the only one":        {one, one, "True/NewestMarked"},
		"an older one":        {one, two, "False/Superseded"},
		"the newer one":       {two, two, "True/NewestMarked"},
		"one without a mark":  {runtimeOf("three", 0, ""), two, ""},
		"a mark without true": {runtimeOf("three", 0, "yes"), two, ""},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := test.runtime.DeepCopy()
			runtime.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDefault, Status: metav1.ConditionUnknown, Reason: "Old"}}
			setDefault(runtime, test.inEffect, now)
			got := ""
			if c := meta.FindStatusCondition(runtime.Status.Conditions, v1alpha1.ConditionDefault); c != nil {
				got = string(c.Status) + "/" + c.Reason
			}
			if got != test.want {
				t.Fatalf("condition %q, want %q", got, test.want)
			}
		})
	}
}

func TestOtherMarkedAreAskedWhenTheMarkMoves(t *testing.T) {
	w := &world{runtimes: map[string]*v1alpha1.AgentRuntime{
		"one": runtimeOf("one", 0, "true"), "two": runtimeOf("two", 0, "true"), "plain": runtimeOf("plain", 0, ""),
	}}
	r, _ := newReconciler(w, &probes{})
	requests := r.otherMarked(t.Context(), w.runtimes["two"])
	if len(requests) != 1 || requests[0].Name != "one" {
		t.Fatalf("requests %v, want one", requests)
	}
	ours := marked()
	with, without := runtimeOf("r", 0, "true"), runtimeOf("r", 0, "")
	cases := map[string]struct{ got, want bool }{
		"a marked one comes":    {ours.Create(event.CreateEvent{Object: with}), true},
		"a plain one comes":     {ours.Create(event.CreateEvent{Object: without}), false},
		"a marked one goes":     {ours.Delete(event.DeleteEvent{Object: with}), true},
		"a plain one goes":      {ours.Delete(event.DeleteEvent{Object: without}), false},
		"one gets the mark":     {ours.Update(event.UpdateEvent{ObjectOld: without, ObjectNew: with}), true},
		"one loses the mark":    {ours.Update(event.UpdateEvent{ObjectOld: with, ObjectNew: without}), true},
		"one keeps it":          {ours.Update(event.UpdateEvent{ObjectOld: with, ObjectNew: with}), false},
		"nothing in particular": {ours.Generic(event.GenericEvent{Object: with}), false},
		"another kind comes":    {ours.Create(event.CreateEvent{Object: &corev1.Secret{}}), false},
	}
	for name, test := range cases {
		if test.got != test.want {
			t.Errorf("%s: %v, want %v", name, test.got, test.want)
		}
	}
}
