package compiletask

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
)

// version is a state of one task, marked by its stage.
func version(resourceVersion, stage string) *v1alpha1.CompileTask {
	return &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t", UID: "uid", ResourceVersion: resourceVersion},
		Status:     v1alpha1.CompileTaskStatus{Stage: stage},
	}
}

func TestNewestAndOwnWrite(t *testing.T) {
	cases := map[string]struct {
		written *v1alpha1.CompileTask
		cached  *v1alpha1.CompileTask
		want    string
		wantOwn bool
	}{
		"nothing was written":                   {nil, version("5", "cached"), "cached", false},
		"the cache lags":                        {version("10", "written"), version("9", "cached"), "written", true},
		"the cache shows the write":             {version("10", "written"), version("10", "cached"), "cached", true},
		"the cache shows another's newer write": {version("10", "written"), version("11", "cached"), "cached", false},
		"numbers are compared, not texts":       {version("100", "written"), version("99", "cached"), "written", true},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			at := newAttempts().of(test.cached)
			if test.written != nil {
				at.wrote(test.written, epoch)
			}
			if got := at.ownWrite(test.cached); got != test.wantOwn {
				t.Errorf("own write %v, want %v", got, test.wantOwn)
			}
			got := at.newest(test.cached)
			if got.Status.Stage != test.want {
				t.Errorf("newest is the %s one, want the %s one", got.Status.Stage, test.want)
			}
			got.Status.Stage = "changed by the pass"
			if test.written != nil && test.written.Status.Stage != "written" {
				t.Error("a pass changes what was remembered")
			}
		})
	}
}

func TestNewestForgetsTheWriteOnceTheCacheShowsIt(t *testing.T) {
	at := newAttempts().of(version("1", ""))
	at.wrote(version("10", "written"), epoch)
	at.newest(version("10", "cached"))
	if at.written != nil {
		t.Fatal("the write is kept although the cache has it")
	}
}

func TestAttemptsAreFoundByUID(t *testing.T) {
	all := newAttempts()
	task := version("1", "")
	at := all.of(task)
	if all.of(task) != at || all.find(task.UID) != at || all.size() != 1 {
		t.Fatal("one task has several attempts")
	}
	again := version("1", "")
	again.UID = types.UID("another of the same name")
	if all.of(again) == at {
		t.Fatal("two objects of one name share an attempt")
	}
	if all.take(task.UID) != at || all.take(task.UID) != nil || all.find(task.UID) != nil || all.size() != 1 {
		t.Fatal("a taken attempt is still there")
	}
}

func TestAttemptFailuresAndSuccess(t *testing.T) {
	at := newAttempts().of(version("1", ""))
	transient := &executor.Error{Op: "poll", Code: "UNAVAILABLE", Transient: true}
	at.succeed(opCancel, executor.Observation{State: executor.StateCancelling, Stage: "s"}, epoch)
	if !at.snapshot(version("1", ""), false, epoch).cancelSent {
		t.Fatal("an answered cancel is not known as sent")
	}
	at.fail(opPoll, transient, epoch)
	at.fail(opPoll, transient, epoch.Add(time.Minute))
	got := at.snapshot(version("1", ""), false, epoch)
	if !got.failingSince.Equal(epoch) || got.cancelSent || got.failedOp != opPoll || !errors.Is(got.failure, transient) {
		t.Fatalf("after two failures: %+v", got)
	}
	if !at.backingOff(epoch.Add(time.Minute)) || at.backingOff(epoch.Add(time.Hour)) {
		t.Fatal("the retry has no time of its own")
	}
	at.succeed(opPoll, executor.Observation{State: executor.StateRunning, Stage: "later"}, epoch)
	got = at.snapshot(version("1", ""), false, epoch)
	if got.failure != nil || !got.failingSince.IsZero() || !got.notBefore.IsZero() || got.lastStage != "later" {
		t.Fatalf("after a success: %+v", got)
	}
	at.succeed(opPoll, executor.Observation{State: executor.StateFailed, Stage: "failed"}, epoch)
	if got = at.snapshot(version("1", ""), false, epoch); got.lastStage != "later" {
		t.Fatalf("last stage %q, want the one before the end", got.lastStage)
	}
}

func TestAttemptFailsSinceTheObjectSays(t *testing.T) {
	task := version("1", "")
	task.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionExecutorReachable, Status: metav1.ConditionFalse, LastTransitionTime: metav1.Time{Time: epoch}}}
	at := newAttempts().of(task)
	at.fail(opPoll, &executor.Error{Transient: true}, epoch.Add(time.Hour))
	if got := at.snapshot(task, false, epoch).failingSince; !got.Equal(epoch) {
		t.Fatalf("failing since %s, want since an earlier process saw it", got)
	}
}

func TestAttemptNotesWhenACancelBegan(t *testing.T) {
	at := newAttempts().of(version("1", ""))
	if got := at.snapshot(version("1", ""), false, epoch); !got.cancelBegan.IsZero() {
		t.Fatal("a cancel began that nobody wants")
	}
	at.snapshot(version("1", ""), true, epoch)
	if got := at.snapshot(version("1", ""), true, epoch.Add(time.Hour)); !got.cancelBegan.Equal(epoch) {
		t.Fatalf("the cancel began at %s, want at the first look", got.cancelBegan)
	}
}

func TestAttemptEndsCalls(t *testing.T) {
	cases := map[string]struct {
		op        operation
		act       func(*attempt)
		wantEnded bool
	}{
		"a poll is interrupted":      {opPoll, (*attempt).interrupt, true},
		"a submit is not":            {opSubmit, (*attempt).interrupt, false},
		"a cancel is not":            {opCancel, (*attempt).interrupt, false},
		"anything is abandoned":      {opCancel, (*attempt).abandon, true},
		"a call over frees its stop": {opSubmit, (*attempt).end, true},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			at := newAttempts().of(version("1", ""))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			at.begin(test.op, stop)
			if !at.isCalling() || at.wasSubmitted() != (test.op == opSubmit) {
				t.Fatal("the call does not show")
			}
			test.act(at)
			if ended := ctx.Err() != nil; ended != test.wantEnded {
				t.Fatalf("ended %v, want %v", ended, test.wantEnded)
			}
			at.end()
			if at.isCalling() {
				t.Fatal("the call is not over")
			}
			at.interrupt()
			at.abandon()
		})
	}
}

func TestAttemptLeftWhileItSubmits(t *testing.T) {
	cases := map[string]struct {
		before       func(*attempt)
		recorded     string
		wantLeft     bool
		wantUnwanted bool
	}{
		"nothing is under way":               {func(*attempt) {}, "", false, true},
		"a poll is under way":                {func(at *attempt) { at.begin(opPoll, func() {}) }, "", false, true},
		"a submit is under way":              {func(at *attempt) { at.begin(opSubmit, func() {}) }, "", true, true},
		"its session is on record by others": {func(at *attempt) { at.begin(opSubmit, func() {}) }, "s1", true, false},
		"another session is on record":       {func(at *attempt) { at.begin(opSubmit, func() {}) }, "s0", true, true},
		"the session is known already":       {func(at *attempt) { at.begin(opSubmit, func() {}); at.learn("s1", epoch) }, "", false, true},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			at := newAttempts().of(version("1", ""))
			test.before(at)
			if got := at.leave(test.recorded); got != test.wantLeft || !at.isLeft() {
				t.Fatalf("left %v, want %v", got, test.wantLeft)
			}
			if got, _ := at.learn("s1", epoch); got != test.wantUnwanted {
				t.Fatalf("unwanted %v, want %v", got, test.wantUnwanted)
			}
			if at.begin(opSubmit, func() {}) {
				t.Fatal("a call began for a task that has left")
			}
		})
	}
}

func TestStrayOf(t *testing.T) {
	recorded := version("1", "")
	recorded.Status.SessionID = "s1"
	cases := map[string]struct {
		task     *v1alpha1.CompileTask
		session  string
		observed *executor.Observation
		want     string
	}{
		"no session":                  {version("1", ""), "", nil, ""},
		"one that is not on record":   {version("1", ""), "s1", nil, "s1"},
		"one that is on record":       {recorded, "s1", nil, ""},
		"another than that on record": {recorded, "s2", nil, "s2"},
		"one that still runs":         {version("1", ""), "s1", &executor.Observation{State: executor.StateRunning}, "s1"},
		"one that has ended":          {version("1", ""), "s1", &executor.Observation{State: executor.StateCompleted}, ""},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			at := newAttempts().of(test.task)
			at.learn(test.session, epoch)
			if test.observed != nil {
				at.succeed(opPoll, *test.observed, epoch)
			}
			if got := at.strayOf(test.task); got != test.want {
				t.Fatalf("stray %q, want %q", got, test.want)
			}
		})
	}
}
