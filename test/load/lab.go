package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
	testenv "github.com/agentruntime/operator/test/envtest"
	"github.com/agentruntime/operator/test/kill/process"
)

// inFlight is how many tasks the closed loops keep under way.
const inFlight = 64

// The namespaces: what the manager sees, and what it does not, for raw writes.
const (
	seen   = "seen"
	unseen = "unseen"
)

// lab is a control plane with what the rows need.
type lab struct {
	options

	out        io.Writer
	env        *testenv.Environment
	client     client.WithWatch
	clientset  *kubernetes.Clientset
	dir        string
	managerBin string
	fakeBin    string
	serial     atomic.Int64
}

func newLab(ctx context.Context, o options, out io.Writer) (*lab, error) {
	l := &lab{options: o, out: out, dir: o.workDir}
	var err error
	if l.dir == "" {
		if l.dir, err = os.MkdirTemp("", "load-"); err != nil {
			return nil, fmt.Errorf("make a folder: %w", err)
		}
	}
	const module = "github.com/agentruntime/operator/"
	if l.managerBin, err = process.Build(ctx, l.dir, module+"test/kill/manager"); err != nil {
		return nil, err
	}
	if l.fakeBin, err = process.Build(ctx, l.dir, module+"test/fakeruntime/cmd/fakeruntime"); err != nil {
		return nil, err
	}
	if l.env, err = testenv.Start(testenv.Options{}); err != nil { //nolint:contextcheck // It takes none; Stop ends it.
		return nil, err
	}
	if err := l.prepare(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) prepare(ctx context.Context) error {
	var err error
	if l.client, err = client.NewWithWatch(l.env.Config, client.Options{Scheme: testenv.NewScheme()}); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if l.clientset, err = kubernetes.NewForConfig(l.env.Config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ring, err := json.Marshal(sealed.GenerateKeyRingData())
	if err != nil {
		return fmt.Errorf("encode the key ring: %w", err)
	}
	const private = 0o600
	err = errors.Join(os.WriteFile(l.kubeconfig(), l.env.KubeConfig, private), os.WriteFile(l.keyRing(), ring, private))
	if err != nil {
		return fmt.Errorf("write what the manager reads: %w", err)
	}
	for _, name := range []string{seen, unseen} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := l.client.Create(ctx, namespace); err != nil {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return nil
}

func (l *lab) close() {
	if err := l.env.Stop(); err != nil {
		l.printf("stop the control plane: %v\n", err)
	}
	if l.workDir == "" {
		_ = os.RemoveAll(l.dir)
	}
}

func (l *lab) kubeconfig() string { return filepath.Join(l.dir, "kubeconfig") }
func (l *lab) keyRing() string    { return filepath.Join(l.dir, "key-ring.json") }

func (l *lab) printf(format string, args ...any) { _, _ = fmt.Fprintf(l.out, format, args...) }

// startManager runs the manager; it sees one namespace only.
func (l *lab) startManager(ctx context.Context) (*process.Process, error) {
	return process.Start(ctx, filepath.Join(l.dir, "manager.log"), l.managerBin,
		"--kubeconfig", l.kubeconfig(), "--key-ring", l.keyRing(), "--namespaces", seen)
}

// startExecutor runs an executor and makes its AgentRuntime. The returned function
// ends both.
func (l *lab) startExecutor(ctx context.Context, name string, args ...string) (stop func(), err error) {
	executor, err := process.Start(ctx, filepath.Join(l.dir, "executor.log"), l.fakeBin, args...)
	if err != nil {
		return nil, err
	}
	remove, err := l.addRuntime(ctx, name, executor.URL)
	if err != nil {
		executor.Kill()
		return nil, err
	}
	return func() { remove(); executor.Kill() }, nil
}

func (l *lab) addRuntime(ctx context.Context, name, url string) (remove func(), err error) {
	runtime := &v1alpha1.AgentRuntime{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.AgentRuntimeSpec{URL: url, DurableKeys: true, MaxConcurrentTasks: 100_000},
	}
	if err := l.client.Create(ctx, runtime); err != nil {
		return nil, fmt.Errorf("create AgentRuntime %s: %w", name, err)
	}
	return func() { _ = l.client.Delete(context.WithoutCancel(ctx), runtime) }, nil
}

// newTask is a task that is not created yet, with a target of its own.
func (l *lab) newTask(namespace, runtime string) *v1alpha1.CompileTask {
	n := l.serial.Add(1)
	return &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", runtime, n)},
		Spec: v1alpha1.CompileTaskSpec{
			From: []string{"viking://resources/research"}, To: fmt.Sprintf("viking://resources/wiki-%d", n),
			Skill: "viking://agent/skills/llm-wiki", Instruction: "Write for new colleagues.", RuntimeName: runtime,
			Requester: v1alpha1.Requester{Username: "alice@example.com", Groups: []string{"team-a", "system:authenticated"}},
		},
	}
}
