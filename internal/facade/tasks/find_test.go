package tasks

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/agentruntime/operator/api/v1alpha1"
)

func TestACachedReadMakesNoCall(t *testing.T) {
	r := newRig(t, Limits{})
	want := r.sync(r.server.put(newTask(1)))
	got, err := r.Find(t.Context(), "team", wireID(1), of("alice"))
	if err != nil || got != want {
		t.Errorf("found %v, %v", got, err)
	}
	if got, err := r.ByName(t.Context(), "team", named(1)); err != nil || got != want {
		t.Errorf("by name %v, %v", got, err)
	}
	if r.server.reads() != 0 {
		t.Errorf("%d live reads", r.server.reads())
	}
}

// Nothing tells a task of somebody else's from none: not the error, and not the calls.
func TestForeignAndMissingAreAlike(t *testing.T) {
	r := newRig(t, Limits{})
	r.sync(r.server.put(newTask(1)))
	r.server.put(newTask(2)) // foreign, and not in the cache yet
	var errs []string
	for _, n := range []int{1, 2, 3} {
		before := r.server.reads()
		task, err := r.Find(t.Context(), "team", wireID(n), of("bob"))
		if task != nil || !apierrors.IsNotFound(err) || r.server.reads() != before+1 {
			t.Errorf("%d: %v, %v, %d reads", n, task, err, r.server.reads()-before)
		}
		errs = append(errs, cmp.Diff(notFound(wireID(n)), err))
	}
	// Only the one that the cache lacks was fetched: how large a task is takes its time.
	if r.server.found != 1 {
		t.Errorf("%d foreign tasks were fetched, want 1", r.server.found)
	}
	if diff := cmp.Diff([]string{"", "", ""}, errs); diff != "" {
		t.Errorf("errors differ: %s", diff)
	}
	for _, id := range []string{"", "cmp_", "cmp-" + wireID(1)[4:], wireID(1) + "0", "cmp_" + "ABCDEFABCDEFABCDEFABCDEFABCDEFAB"} {
		if _, err := r.Find(t.Context(), "team", id, of("alice")); !apierrors.IsNotFound(err) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	if _, err := r.Find(t.Context(), "other", wireID(1), of("alice")); !apierrors.IsNotFound(err) {
		t.Errorf("in another namespace: %v", err)
	}
}

func TestTasksOfKubectlAreFoundByTheirUID(t *testing.T) {
	r := newRig(t, Limits{})
	task := newTask(1)
	task.Name, task.UID, task.Spec.RESTRequest = "by-hand", "00000000-0000-0000-0000-0000000000aa", nil
	r.sync(r.server.put(task))
	id := "cmp_000000000000000000000000000000aa"
	if got, err := r.Find(t.Context(), "team", id, of("alice")); err != nil || got.Name != "by-hand" {
		t.Errorf("found %v, %v", got, err)
	}
	// An own write is read back under the object's own name.
	if _, err := r.Cancel(t.Context(), alice, task); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Find(t.Context(), "team", id, of("alice")); err != nil || !got.Spec.Cancel {
		t.Errorf("found %v, %v", got, err)
	}
}

func TestOwnWritesAreReadBeforeTheInformerHasThem(t *testing.T) {
	r := newRig(t, Limits{})
	created, err := r.Create(t.Context(), alice, newTask(1))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Find(t.Context(), "team", wireID(1), of("alice")); err != nil || got.ResourceVersion != created.ResourceVersion {
		t.Errorf("found %v, %v", got, err)
	}
	stale := r.sync(created)
	if _, err := r.Cancel(t.Context(), alice, stale); err != nil {
		t.Fatal(err)
	}
	ended := r.server.change(stale, func(task *v1alpha1.CompileTask) { task.Status.Stage = "later" })
	got, err := r.Find(t.Context(), "team", wireID(1), of("alice"))
	if err != nil || got.Status.Stage != "later" {
		t.Errorf("found %v, %v", got, err)
	}
	// When the API server is away, the own write answers, never the older cache.
	r.server.getErr = apierrors.NewServiceUnavailable("away")
	if got, err := r.Find(t.Context(), "team", wireID(1), of("alice")); err != nil || !got.Spec.Cancel {
		t.Errorf("found %v, %v", got, err)
	}
	reads := r.server.reads()
	r.sync(ended)
	if got, err := r.Find(t.Context(), "team", wireID(1), of("alice")); err != nil || got.Status.Stage != "later" || r.server.reads() != reads {
		t.Errorf("found %v, %v", got, err)
	}
}

func TestOwnWritesAreForgotten(t *testing.T) {
	r := newRig(t, Limits{OwnWrites: 3})
	for n := range 5 {
		if _, err := r.Create(t.Context(), alice, newTask(n)); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(r.recent.all(scope{namespace: "team"})); got != 3 {
		t.Errorf("%d are remembered, want 3", got)
	}
	r.clock.SetTime(start.Add(10 * time.Second))
	if got := r.recent.all(scope{namespace: "team"}); len(got) != 0 || len(r.recent.byName) != 0 {
		t.Errorf("%d are remembered after their time", len(got))
	}
}

func TestDeletedTasksAreGone(t *testing.T) {
	r := newRig(t, Limits{})
	created, err := r.Create(t.Context(), alice, newTask(1))
	if err != nil {
		t.Fatal(err)
	}
	r.sync(created)
	delete(r.server.tasks, keyOf(created))
	r.forget(cache.DeletedFinalStateUnknown{Key: "team/" + created.Name, Obj: created})
	if _, err := r.Find(t.Context(), "team", wireID(1), of("alice")); !apierrors.IsNotFound(err) {
		t.Errorf("found: %v", err)
	}
	if listed, _, err := r.List(t.Context(), Query{Namespace: "team", Limit: 5}); err != nil || len(listed) != 0 {
		t.Errorf("listed %v, %v", listed, err)
	}
	if r.index.all.Len()+r.index.own.Len()+len(r.index.byID)+len(r.index.byName) != 0 {
		t.Error("the index keeps something")
	}
}

func TestTrimKeepsWhatIsShown(t *testing.T) {
	task := newTask(1)
	task.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	task.Labels = map[string]string{"a": "b"}
	task.Annotations = map[string]string{v1alpha1.AnnotationRequestID: "r", "other": "o"}
	task.Spec.SealedCredentials = &v1alpha1.SealedBody{Data: []byte("secret"), Size: 6, Keys: []string{"apiKey"}, MAC: "m"}
	task.Spec.SealedArgs = &v1alpha1.SealedBody{Data: []byte("args"), Size: 4}
	task.Status.Conditions = []metav1.Condition{{Type: "Complete", Status: "True", Reason: "Completed", Message: "long"}}
	want := newTask(1)
	want.Annotations = map[string]string{v1alpha1.AnnotationRequestID: "r"}
	want.Spec.Requester = v1alpha1.Requester{Username: "alice"}
	want.Spec.SealedCredentials = &v1alpha1.SealedBody{Size: 6}
	want.Spec.SealedArgs = task.Spec.SealedArgs
	want.Status.Conditions = []metav1.Condition{{Type: "Complete", Status: "True", Reason: "Completed"}}
	trimmed, err := CacheOptions().Transform(task)
	if diff := cmp.Diff(want, trimmed); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
