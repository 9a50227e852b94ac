package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// observer watches every write of the tasks, and notes what must never happen
// between two of them.
type observer struct {
	// prefix begins the namespaces it looks at: the other phase's tasks stay.
	prefix string

	mu        sync.Mutex
	latest    map[types.UID]*v1alpha1.CompileTask
	ended     map[types.UID]time.Time
	writes    int
	anomalies []string
	changed   chan struct{}
}

func newObserver(prefix string) *observer {
	return &observer{prefix: prefix, latest: map[types.UID]*v1alpha1.CompileTask{}, ended: map[types.UID]time.Time{}, changed: make(chan struct{})}
}

// follow takes events until the stream ends, and says whether that was because of
// the context.
func (o *observer) follow(ctx context.Context, stream watch.Interface) error {
	defer stream.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-stream.ResultChan():
			task, ok := event.Object.(*v1alpha1.CompileTask)
			if !open || !ok {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("watch of the tasks ended: %v", event.Object)
			}
			if strings.HasPrefix(task.Namespace, o.prefix) {
				o.see(task, time.Now())
			}
		}
	}
}

func (o *observer) see(task *v1alpha1.CompileTask, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes++
	if before := o.latest[task.UID]; before != nil {
		for _, fault := range backward(before, task) {
			o.anomalies = append(o.anomalies, fmt.Sprintf("%s/%s: %s", task.Namespace, task.Name, fault))
		}
	}
	o.latest[task.UID] = task
	if _, known := o.ended[task.UID]; task.Terminal() && !known {
		o.ended[task.UID] = now
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// backward lists how a state can't follow another.
func backward(before, after *v1alpha1.CompileTask) []string {
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	was, is := before.Status, after.Status
	if before.Terminal() && (!after.Terminal() || before.DerivePhase() != after.DerivePhase()) {
		say("ended as %s, then became %s", before.DerivePhase(), after.DerivePhase())
	}
	if was.SessionID != "" && was.SessionID != is.SessionID {
		say("session %s became %q", was.SessionID, is.SessionID)
	}
	if was.RuntimeName != "" && was.RuntimeName != is.RuntimeName {
		say("runtime %s became %q", was.RuntimeName, is.RuntimeName)
	}
	if was.UpdateTime != nil && (is.UpdateTime == nil || is.UpdateTime.Time.Before(was.UpdateTime.Time)) {
		say("updateTime went back")
	}
	if was.StartTime != nil && (is.StartTime == nil || !is.StartTime.Equal(was.StartTime)) {
		say("startTime changed")
	}
	return faults
}

// endedAt is when the task was seen to have ended; zero when it has not.
func (o *observer) endedAt(uid types.UID) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended[uid]
}

// await returns when n tasks have ended and carry no finalizer, or with the
// context's error.
func (o *observer) await(ctx context.Context, n int) error {
	for {
		o.mu.Lock()
		done := 0
		for uid := range o.ended {
			if len(o.latest[uid].Finalizers) == 0 {
				done++
			}
		}
		changed := o.changed
		o.mu.Unlock()
		if done >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d tasks have ended: %w", done, n, ctx.Err())
		}
	}
}

// snapshot is the newest state of every task, and what was noted.
func (o *observer) snapshot() (map[types.UID]*v1alpha1.CompileTask, []string, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	latest := make(map[types.UID]*v1alpha1.CompileTask, len(o.latest))
	for uid, task := range o.latest {
		latest[uid] = task
	}
	return latest, append([]string(nil), o.anomalies...), o.writes
}
