package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// tracker watches the tasks that the manager sees, as a client would, and tells
// those who wait for a task.
type tracker struct {
	done   chan struct{}
	stop   context.CancelFunc
	each   func(*v1alpha1.CompileTask)
	mu     sync.Mutex
	wanted map[string]want
	err    error
}

// want is a condition that somebody waits for.
type want struct {
	is   func(*v1alpha1.CompileTask) bool
	told chan *v1alpha1.CompileTask
}

// track begins to watch. each, when not nil, is called with every event's object.
func (l *lab) track(ctx context.Context, each func(*v1alpha1.CompileTask)) (*tracker, error) {
	ctx, stop := context.WithCancel(ctx)
	var list v1alpha1.CompileTaskList
	if err := l.client.List(ctx, &list, client.InNamespace(seen), client.Limit(1)); err != nil {
		stop()
		return nil, fmt.Errorf("list the tasks: %w", err)
	}
	// The API server may end a watch at any time; this one goes on where it ended.
	stream, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return l.client.Watch(ctx, &v1alpha1.CompileTaskList{}, &client.ListOptions{Namespace: seen, Raw: &options})
		},
	})
	if err != nil {
		stop()
		return nil, fmt.Errorf("watch the tasks: %w", err)
	}
	t := &tracker{done: make(chan struct{}), stop: stop, each: each, wanted: map[string]want{}}
	go t.follow(stream)
	return t, nil
}

// follow takes events until the stream ends.
func (t *tracker) follow(stream watch.Interface) {
	defer close(t.done)
	defer stream.Stop()
	for event := range stream.ResultChan() {
		task, ok := event.Object.(*v1alpha1.CompileTask)
		if !ok {
			t.err = fmt.Errorf("watch of the tasks: %v", event.Object)
			return
		}
		if t.each != nil {
			t.each(task)
		}
		t.tell(task)
	}
}

func (t *tracker) tell(task *v1alpha1.CompileTask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.wanted[task.Name]
	if ok && w.is(task) {
		delete(t.wanted, task.Name)
		w.told <- task
	}
}

// expect is to be called before the task is created; the channel then gets the
// first state of it that is as wanted.
func (t *tracker) expect(name string, is func(*v1alpha1.CompileTask) bool) <-chan *v1alpha1.CompileTask {
	told := make(chan *v1alpha1.CompileTask, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted[name] = want{is: is, told: told}
	return told
}

// receive waits for what expect promised.
func (t *tracker) receive(ctx context.Context, told <-chan *v1alpha1.CompileTask) (*v1alpha1.CompileTask, error) {
	select {
	case task := <-told:
		return task, nil
	case <-t.done:
		return nil, errors.Join(errors.New("the watch of the tasks ended"), t.err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (t *tracker) close() {
	t.stop()
	<-t.done
}

func terminal(task *v1alpha1.CompileTask) bool { return task.Terminal() }

// onRecord tells that the task is on record as running.
func onRecord(task *v1alpha1.CompileTask) bool { return task.Status.SessionID != "" }

// finish creates a task and returns it when it is seen to have ended.
func (l *lab) finish(ctx context.Context, t *tracker, runtime string) (*v1alpha1.CompileTask, error) {
	task := l.newTask(seen, runtime)
	told := t.expect(task.Name, terminal)
	if err := l.client.Create(ctx, task); err != nil {
		return nil, fmt.Errorf("create task %s: %w", task.Name, err)
	}
	return t.receive(ctx, told)
}
