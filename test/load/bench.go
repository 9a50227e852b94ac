package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/internal/sealed/ringsecret"
	"github.com/agentruntime/operator/test/stack"
)

// team is the namespace of all that the facade's rows create.
const team = "team"

// bench is the stack as it ships, with tasks that are admitted and stored and that
// nobody runs: the bench holds the managers' Lease, so the one manager is a standby,
// which serves the webhooks and writes nothing. So a create costs what it costs, and
// not what becomes of it at the same time.
type bench struct {
	options

	out     io.Writer
	stack   *stack.Stack
	clients *kubernetes.Clientset
	ring    *sealed.KeyRing
	// callers are the good ones, in whose turns the rows call.
	callers []*caller
	// raw creates tasks without the facade, as the first of them.
	raw *rawClient
	// release gives the Lease back.
	release func()
}

// goodCallers are enough for the rows to go as fast as the facade does without any
// caller reaching their own limit, as it ships: 50 requests a second each.
const goodCallers = 20

func newBench(ctx context.Context, o options, out io.Writer) (*bench, error) {
	if err := raiseFileLimit(); err != nil {
		return nil, err
	}
	plane, err := stack.Start(ctx, stack.Options{WithoutRuntime: true})
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, out: out, stack: plane, release: func() {}}
	for _, step := range []func(context.Context) error{b.holdTasks, b.addRuntime, b.addCallers} {
		if err := step(ctx); err != nil {
			b.close()
			return nil, err
		}
	}
	return b, nil
}

// raiseFileLimit lets this process and its children, which inherit the limit, have as
// many connections as the slow clients take.
func raiseFileLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raise the limit of open files: %w", err)
	}
	return nil
}

func (b *bench) printf(format string, args ...any) { _, _ = fmt.Fprintf(b.out, format, args...) }

func (b *bench) close() {
	b.release()
	if b.workDir != "" {
		for _, name := range []string{"facade", "manager"} {
			if err := os.Rename(b.stack.Log(name), filepath.Join(b.workDir, name+".log")); err != nil {
				b.printf("keep a log: %v\n", err)
			}
		}
	}
	if err := b.stack.Stop(); err != nil {
		b.printf("stop the stack: %v\n", err)
	}
}

// holdTasks takes the Lease between two lives of the manager.
func (b *bench) holdTasks(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(b.stack.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	b.clients = clients
	if err := b.stack.StopProcess("manager"); err != nil {
		return err
	}
	held := make(chan struct{})
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: stack.Namespace, Name: "agentruntime-manager"},
			Client:     clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "load"},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(held) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		cancel()
		return fmt.Errorf("hold the manager's Lease: %w", err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); elector.Run(ctx) }()
	b.release = func() { cancel(); <-ended }
	select {
	case <-held:
	case <-ctx.Done():
		return ctx.Err()
	}
	return b.stack.StartManager(ctx)
}

// addRuntime makes the default AgentRuntime, which nothing ever calls.
func (b *bench) addRuntime(ctx context.Context) error {
	runtime := &v1alpha1.AgentRuntime{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Annotations: map[string]string{v1alpha1.AnnotationDefaultRuntime: "true"}},
		Spec:       v1alpha1.AgentRuntimeSpec{URL: "https://executor.invalid"},
	}
	if err := b.stack.Client.Create(ctx, runtime); err != nil {
		return fmt.Errorf("create AgentRuntime %s: %w", runtime.Name, err)
	}
	return nil
}

func (b *bench) addCallers(ctx context.Context) error {
	if err := b.stack.AddNamespace(ctx, team); err != nil {
		return err
	}
	var err error
	if b.ring, err = ringsecret.Load(ctx, b.stack.Client, stack.Namespace); err != nil {
		return err
	}
	web, err := b.stack.FacadeClient(ctx)
	if err != nil {
		return err
	}
	if b.callers, err = b.newCallers(ctx, web, "good", goodCallers); err != nil {
		return err
	}
	if b.raw, err = b.newRawClient(ctx, b.callers[0]); err != nil {
		return err
	}
	// The facade knows the default AgentRuntime once it takes a task.
	return b.stack.Until(ctx, "the facade to take a task", func() (bool, error) {
		_, err := b.callers[0].create(ctx)
		var refused *refusedError
		if errors.As(err, &refused) && refused.status == http.StatusServiceUnavailable {
			return false, nil
		}
		return err == nil, err
	})
}
