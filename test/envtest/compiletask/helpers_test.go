package compiletask_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/controllers/compiletask"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/test/fakeruntime"
)

// syncBuffer collects log output.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var (
	logs    syncBuffer
	secrets []string
)

// secretValue makes a value that must show nowhere; the suite looks for it in the
// end in all that was logged, and in all objects.
func secretValue() string {
	value := "hush" + rand.Text()
	secrets = append(secrets, value)
	return value
}

// startFake runs an executor until the spec, or the container, is over.
func startFake(options fakeruntime.Options) *fakeruntime.Server {
	fake := fakeruntime.Start(options)
	DeferCleanup(fake.Close)
	return fake
}

// steady is the behaviour of a task that runs until it is told otherwise.
func steady(faults ...fakeruntime.Fault) fakeruntime.Behaviour {
	return fakeruntime.Behaviour{Steps: []fakeruntime.Step{{Status: fakeruntime.Running("compile: agent")}}, Faults: faults}
}

// patch merges a patch into the task, whatever its version.
func patch(task *v1alpha1.CompileTask, text string) {
	GinkgoHelper()
	object := &v1alpha1.CompileTask{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Name: task.Name}}
	Expect(k8s.Patch(context.Background(), object, client.RawPatch(types.MergePatchType, []byte(text)))).To(Succeed())
}

func cancel(task *v1alpha1.CompileTask) {
	GinkgoHelper()
	patch(task, `{"spec":{"cancel":true}}`)
}

// poke has the controller look at the task again, as its own timer would later.
func poke(task *v1alpha1.CompileTask) {
	GinkgoHelper()
	patch(task, fmt.Sprintf(`{"metadata":{"labels":{"poked":"%d"}}}`, time.Now().UnixNano()))
}

func remove(task *v1alpha1.CompileTask) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(k8s.Delete(context.Background(), task.DeepCopy()))).To(Succeed())
}

// exists tells whether the task is still there.
func exists(task *v1alpha1.CompileTask) func() bool {
	return func() bool {
		var now v1alpha1.CompileTask
		return !apierrors.IsNotFound(k8s.Get(context.Background(), client.ObjectKeyFromObject(task), &now))
	}
}

// reasonOf reads a condition's reason, "" when there is no such condition.
func reasonOf(task *v1alpha1.CompileTask, conditionType string) func() string {
	return func() string {
		if now := current(task)(); now != nil {
			if condition := meta.FindStatusCondition(now.Status.Conditions, conditionType); condition != nil {
				return condition.Reason
			}
		}
		return ""
	}
}

func messageOf(task *v1alpha1.CompileTask, conditionType string) func() string {
	return func() string {
		if now := current(task)(); now != nil {
			if condition := meta.FindStatusCondition(now.Status.Conditions, conditionType); condition != nil {
				return condition.Message
			}
		}
		return ""
	}
}

func stageOf(task *v1alpha1.CompileTask) func() string {
	return func() string {
		if now := current(task)(); now != nil {
			return now.Status.Stage
		}
		return ""
	}
}

// end waits until the task has ended and its finalizer is off, and returns it.
func end(task *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	GinkgoHelper()
	var now *v1alpha1.CompileTask
	Eventually(func() bool {
		now = current(task)()
		return now != nil && now.Terminal() && len(now.Finalizers) == 0
	}).Should(BeTrue(), func() string { return fmt.Sprintf("%s has not ended: %+v", task.Name, now) })
	return now
}

// running waits until the task runs on record, in the steady stage.
func running(task *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	GinkgoHelper()
	Eventually(stageOf(task)).Should(Equal("compile: agent"))
	return current(task)()
}

// errorOf is the task's error as the wire shows it.
func errorOf(task *v1alpha1.CompileTask) string {
	if task.Status.Error == nil {
		return ""
	}
	return task.Status.Error.Code + ": " + task.Status.Error.Message
}

// endReason is the terminal condition and its reason.
func endReason(task *v1alpha1.CompileTask) string {
	for _, condition := range task.Status.Conditions {
		switch condition.Type {
		case v1alpha1.ConditionComplete, v1alpha1.ConditionFailed, v1alpha1.ConditionCancelled:
			return condition.Type + "/" + condition.Reason
		}
	}
	return ""
}

// called waits for calls to an executor.
func called(fake *fakeruntime.Server, op fakeruntime.Op, n int) {
	GinkgoHelper()
	ctx, stop := context.WithTimeout(context.Background(), 15*time.Second)
	defer stop()
	Expect(fake.WaitCalls(ctx, op, n)).To(Succeed(), "%d calls of %s", n, op)
}

// keyOfCall is the idempotency key of a recorded create.
func keyOfCall(call fakeruntime.Call) string { return call.Header.Get(runtimeapi.HeaderIdempotencyKey) }

// requireOneExecution holds a task to its one key and one execution.
func requireOneExecution(fake *fakeruntime.Server, task *v1alpha1.CompileTask) {
	GinkgoHelper()
	report := fake.Report()
	Expect(report.Tasks).To(HaveKey(task.Spec.To))
	Expect(report.Tasks[task.Spec.To]).To(Equal(fakeruntime.TaskReport{Keys: []string{current(task)().TaskID()}, Executions: 1}))
}

// shiftedClock runs ahead of the real one.
type shiftedClock struct{ ahead atomic.Int64 }

func (c *shiftedClock) Now() time.Time                  { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *shiftedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
func (c *shiftedClock) shift(d time.Duration)           { c.ahead.Add(int64(d)) }

func withClock(c *shiftedClock) func(*compiletask.Reconciler) {
	return func(r *compiletask.Reconciler) { r.Clock = c }
}

// writes counts what is written in a namespace: every version of its tasks, and
// every version of the events about them.
type writes struct {
	mu     sync.Mutex
	tasks  map[string][]*v1alpha1.CompileTask
	events []eventsv1.Event
}

func watchWrites(namespace string) *writes {
	GinkgoHelper()
	w := &writes{tasks: map[string][]*v1alpha1.CompileTask{}}
	watcher, err := client.NewWithWatch(env.Config, client.Options{Scheme: k8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	tasks, err := watcher.Watch(ctx, &v1alpha1.CompileTaskList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	events, err := watcher.Watch(ctx, &eventsv1.EventList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	var ended sync.WaitGroup
	ended.Go(func() { w.collect(tasks) })
	ended.Go(func() { w.collect(events) })
	DeferCleanup(func() {
		stop()
		ended.Wait()
	})
	return w
}

func (w *writes) collect(from watch.Interface) {
	for e := range from.ResultChan() {
		w.mu.Lock()
		switch object := e.Object.(type) {
		case *v1alpha1.CompileTask:
			if e.Type != watch.Deleted {
				w.tasks[object.Name] = append(w.tasks[object.Name], object)
			}
		case *eventsv1.Event:
			w.events = append(w.events, *object)
		}
		w.mu.Unlock()
	}
}

// of returns how often a task was written, its creation included.
func (w *writes) of(task *v1alpha1.CompileTask) func() int {
	return func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.tasks[task.Name])
	}
}

// states are the task's stages as they were written.
func (w *writes) stages(task *v1alpha1.CompileTask) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var stages []string
	for _, t := range w.tasks[task.Name] {
		if n := len(stages); n == 0 || stages[n-1] != t.Status.Stage {
			stages = append(stages, t.Status.Stage)
		}
	}
	return stages
}

// reasons are the reasons of the task's events.
func (w *writes) reasons(task *v1alpha1.CompileTask) func() []string {
	return func() []string {
		w.mu.Lock()
		defer w.mu.Unlock()
		reasons := []string{}
		for _, e := range w.events {
			if e.Regarding.Name == task.Name {
				reasons = append(reasons, e.Reason)
			}
		}
		return reasons
	}
}

// grant gives the tasks' requester, alice, rights in a namespace by a Role of their own.
func grant(namespace string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	name := "grant-" + rand.Text()[:8]
	name = string(bytes.ToLower([]byte(name)))
	ctx := context.Background()
	Expect(k8s.Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules})).To(Succeed())
	Expect(k8s.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "alice"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	})).To(Succeed())
}

var (
	mayGetSecrets   = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	mayCreateTokens = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}}
	mayUseRuntimes  = rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"agentruntimes"}, Verbs: []string{"use"}}
)

// keySecret makes a Secret "key" with a user's key.
func keySecret(namespace, value string) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "key"}, Type: v1alpha1.SecretTypeCredentials,
		Data: map[string][]byte{v1alpha1.CredentialsSecretKey: []byte(value)},
	}
	Expect(k8s.Create(context.Background(), secret)).To(Succeed())
	return secret
}

func rotate(secret *corev1.Secret, value string) {
	GinkgoHelper()
	secret.Data[v1alpha1.CredentialsSecretKey] = []byte(value)
	Expect(k8s.Update(context.Background(), secret)).To(Succeed())
}

// The changes to runtimes and tasks that specs make.

func notDurable(spec *v1alpha1.AgentRuntimeSpec) { spec.DurableKeys = false }

func bySecret(spec *v1alpha1.AgentRuntimeSpec) {
	spec.Credentials = &v1alpha1.RuntimeCredentials{Mode: v1alpha1.CredentialsSecret}
}

func oneAtATime(spec *v1alpha1.AgentRuntimeSpec) { spec.MaxConcurrentTasks = 1 }

func impatient(spec *v1alpha1.AgentRuntimeSpec) {
	spec.UnavailableAfterSeconds, spec.CancelGiveUpAfterSeconds = 1, 1
}

func withSecret(name string) func(*v1alpha1.CompileTask) {
	return func(t *v1alpha1.CompileTask) { t.Spec.CredentialsSecretName = name }
}

func suspended(t *v1alpha1.CompileTask) { t.Spec.Suspend = true }

func to(uri string) func(*v1alpha1.CompileTask) {
	return func(t *v1alpha1.CompileTask) { t.Spec.To = uri }
}

// versions are the states of a task as they were written.
func (w *writes) versions(task *v1alpha1.CompileTask) []*v1alpha1.CompileTask {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.tasks[task.Name])
}

// secretless is random text that compresses badly.
func secretless() string { return rand.Text() }

// describe tells a task's states one by one, for a failure's message.
func (w *writes) describe(task *v1alpha1.CompileTask) string {
	var text strings.Builder
	for _, v := range w.versions(task) {
		fmt.Fprintf(&text, "%s: phase %q, stage %q, session %q, finalizers %v", v.ResourceVersion, v.Status.Phase, v.Status.Stage, v.Status.SessionID, v.Finalizers)
		for _, c := range v.Status.Conditions {
			fmt.Fprintf(&text, ", %s=%s/%s", c.Type, c.Status, c.Reason)
		}
		text.WriteByte('\n')
	}
	return text.String()
}
