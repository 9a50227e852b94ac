package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
)

// kind is what a task is like. It stands in the task's instruction, by which the
// executor knows what to do.
type kind string

const (
	// kindProbe ends at once; it tells when a manager works again.
	kindProbe kind = "probe"
	kindQuick kind = "quick"
	// kindBrief ends within the first held poll.
	kindBrief kind = "brief"
	// kindSlow outlives the first held poll and changes stage.
	kindSlow kind = "slow"
	// kindLarge has a result that goes into a Payload.
	kindLarge kind = "large"
	// kindShared shares its target with others.
	kindShared kind = "shared"
	// kindCancelled is cancelled by its user; it would run long.
	kindCancelled kind = "cancelled"
	// kindStubborn is cancelled too, and takes some polls to end.
	kindStubborn kind = "stubborn"
)

// The runtimes: one with durable keys, one without, one whose users have keys of
// their own, and one that has room for the probes at all times.
const (
	runtimeDurable = "durable"
	runtimePrompt  = "prompt"
	runtimeForgets = "forgets"
	runtimeKeyed   = "keyed"
)

const (
	namespaces      = 3
	credentials     = "credentials"
	largeBytes      = 64 << 10
	longRun         = time.Minute
	maxCancelDelay  = 1800 * time.Millisecond
	loseAnswerEvery = 23
)

// newFake starts the executor. It loses the answer of some creates besides.
func newFake() (*fakeruntime.Server, error) {
	fake, err := fakeruntime.Listen(fakeruntime.Options{Durable: true, MaxCalls: -1, LoseAnswerEvery: loseAnswerEvery})
	if err != nil {
		return nil, err
	}
	running := fakeruntime.Running("compile: agent")
	on := func(k kind, b fakeruntime.Behaviour) {
		fake.On(func(c fakeruntime.Create) bool { return c.Payload.Instruction == string(k) }, b)
	}
	steps := func(each time.Duration, end string) fakeruntime.Behaviour {
		return fakeruntime.Behaviour{Steps: fakeruntime.Timed(each, running, fakeruntime.Completed(end))}
	}
	on(kindBrief, steps(150*time.Millisecond, ""))
	on(kindShared, steps(120*time.Millisecond, ""))
	on(kindLarge, steps(100*time.Millisecond, largeResult()))
	on(kindSlow, fakeruntime.Behaviour{Steps: fakeruntime.Timed(900*time.Millisecond,
		running, fakeruntime.Running("compile: planning"), fakeruntime.Running("compile: writing"), fakeruntime.Completed(""))})
	on(kindCancelled, steps(longRun, ""))
	stubborn := steps(longRun, "")
	stubborn.CancelPolls = 2
	on(kindStubborn, stubborn)
	return fake, nil
}

// largeResult is too large to stand in a status, and does not compress below that.
func largeResult() string {
	random := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for text.Len() < largeBytes {
		fmt.Fprintf(&text, "%016x", random.Uint64())
	}
	return `{"created":["viking://resources/w/index.md"],"note":"` + text.String() + `"}`
}

// workload makes tasks and cancels some of them.
type workload struct {
	phase *phase

	mu     sync.Mutex
	random *rand.Rand
	serial int
	tasks  []*made
	wg     sync.WaitGroup
}

// made is a task as it was created.
type made struct {
	task *v1alpha1.CompileTask
	kind kind
}

func (p *phase) namespace(i int) string { return fmt.Sprintf("%s-%d", p.name, i%namespaces) }
func (p *phase) runtime(name string) string {
	return fmt.Sprintf("%s-%s", p.name, name)
}

// furnish makes the phase's namespaces, Secrets and runtimes.
func (p *phase) furnish(ctx context.Context, url string) error {
	var objects []client.Object
	for i := range namespaces {
		name := p.namespace(i)
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: credentials},
			Type:       v1alpha1.SecretTypeCredentials,
			Data:       map[string][]byte{v1alpha1.CredentialsSecretKey: []byte("key-of-" + name)},
		})
	}
	add := func(name string, change func(*v1alpha1.AgentRuntimeSpec)) {
		runtime := &v1alpha1.AgentRuntime{
			ObjectMeta: metav1.ObjectMeta{Name: p.runtime(name)},
			Spec:       v1alpha1.AgentRuntimeSpec{URL: url, DurableKeys: true, MaxConcurrentTasks: 40, PollIntervalSeconds: 1},
		}
		change(&runtime.Spec)
		objects = append(objects, runtime)
	}
	add(runtimeDurable, func(*v1alpha1.AgentRuntimeSpec) {})
	add(runtimePrompt, func(*v1alpha1.AgentRuntimeSpec) {})
	add(runtimeForgets, func(s *v1alpha1.AgentRuntimeSpec) { s.DurableKeys = false })
	add(runtimeKeyed, func(s *v1alpha1.AgentRuntimeSpec) {
		s.Credentials = &v1alpha1.RuntimeCredentials{Mode: v1alpha1.CredentialsSecret}
	})
	for _, object := range objects {
		if err := p.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// batch makes one task of each kind and a few that share a target.
func (w *workload) batch(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	plan := []struct {
		kind    kind
		runtime string
	}{
		{kindQuick, runtimeDurable}, {kindShared, runtimeDurable}, {kindShared, runtimeForgets}, {kindShared, runtimeDurable},
		{kindSlow, runtimeDurable}, {kindLarge, runtimeDurable}, {kindBrief, runtimeKeyed}, {kindBrief, runtimeForgets},
		{kindCancelled, runtimeDurable}, {kindStubborn, runtimeForgets}, {kindSlow, runtimeKeyed},
	}
	group := w.serial
	for _, item := range plan {
		if err := w.create(ctx, item.kind, item.runtime, group); err != nil {
			return err
		}
	}
	return nil
}

// probe makes a task that ends at once, and returns it.
func (w *workload) probe(ctx context.Context) (*v1alpha1.CompileTask, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.create(ctx, kindProbe, runtimePrompt, 0); err != nil {
		return nil, err
	}
	return w.tasks[len(w.tasks)-1].task, nil
}

func (w *workload) create(ctx context.Context, k kind, runtime string, group int) error {
	w.serial++
	target := fmt.Sprintf("viking://resources/%s-%d", w.phase.name, w.serial)
	namespace := w.phase.namespace(w.serial)
	if k == kindShared {
		// The tasks of three batches meet in one target.
		target = fmt.Sprintf("viking://resources/%s-shared-%d", w.phase.name, group/36)
		namespace = w.phase.namespace(0)
	}
	task := &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", k, w.serial)},
		Spec: v1alpha1.CompileTaskSpec{
			From: []string{"viking://resources/docs"}, To: target, Skill: "viking://agent/skills/llm-wiki",
			Instruction: string(k), RuntimeName: w.phase.runtime(runtime),
			Requester: v1alpha1.Requester{Username: "alice", Groups: []string{"system:masters"}},
		},
	}
	if runtime == runtimeKeyed {
		task.Spec.CredentialsSecretName = credentials
	}
	if err := w.phase.client.Create(ctx, task); err != nil {
		return fmt.Errorf("create task %s: %w", task.Name, err)
	}
	w.tasks = append(w.tasks, &made{task: task, kind: k})
	if k == kindCancelled || k == kindStubborn {
		w.cancelLater(ctx, task)
	}
	return nil
}

// cancelLater sets spec.cancel after a while, sometimes at once.
func (w *workload) cancelLater(ctx context.Context, task *v1alpha1.CompileTask) {
	delay := time.Duration(0)
	if w.random.IntN(4) > 0 {
		delay = time.Duration(w.random.Int64N(int64(maxCancelDelay)))
	}
	key := client.ObjectKeyFromObject(task)
	w.wg.Go(func() {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		target := &v1alpha1.CompileTask{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))
		if err := w.phase.client.Patch(ctx, target, patch); err != nil {
			w.phase.problem(fmt.Sprintf("cancel %s: %v", key, err))
		}
	})
}

// count is how many tasks were made.
func (w *workload) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.tasks)
}
