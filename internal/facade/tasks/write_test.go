package tasks

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
)

func TestWritesAreTheUsers(t *testing.T) {
	r := newRig(t, Limits{})
	task := newTask(1)
	created, err := r.Create(t.Context(), alice, task)
	if err != nil || task.ResourceVersion != "" {
		t.Fatal("the caller's own was changed", err)
	}
	if _, err := r.Cancel(t.Context(), bob, created); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Cancel(t.Context(), alice, created); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"alice", "bob", "alice"}, r.server.users); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	uid := `"uid":"` + string(created.UID) + `"`
	want := []string{
		`{"metadata":{` + uid + `},"spec":{"cancel":true}}`,
		`{"metadata":{"annotations":{"agentruntime.dev/cancel-requested-at":"2026-08-01T12:00:00.000000Z"},` + uid + `},"spec":{"cancel":true}}`,
	}
	if diff := cmp.Diff(want, r.server.patches); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCancelAsksOnce(t *testing.T) {
	r := newRig(t, Limits{})
	created, err := r.Create(t.Context(), alice, newTask(1))
	if err != nil {
		t.Fatal(err)
	}
	cancelled, err := r.Cancel(t.Context(), alice, created)
	if err != nil || !cancelled.Spec.Cancel {
		t.Fatal(cancelled, err)
	}
	if again, err := r.Cancel(t.Context(), alice, cancelled); err != nil || again != cancelled || len(r.server.patches) != 1 {
		t.Errorf("asked again: %v", err)
	}
	next := created.DeepCopy()
	next.UID = "next"
	r.server.put(next)
	r.server.before = apierrors.NewConflict(resource, created.Name, errors.New("uid"))
	if _, err := r.Cancel(t.Context(), alice, created); !apierrors.IsNotFound(err) {
		t.Errorf("a later task of the name: %v", err)
	}
	r.server.before = apierrors.NewForbidden(resource, created.Name, errors.New("no"))
	if _, err := r.Cancel(t.Context(), alice, created); !apierrors.IsForbidden(err) {
		t.Errorf("refused: %v", err)
	}
}

func TestWhatBecameOfACreate(t *testing.T) {
	cut := fmt.Errorf("post: %w", syscall.ECONNRESET)
	type outcome struct {
		before, after error
		// stored is there under the name already.
		stored *v1alpha1.CompileTask
		getErr error
		want   func(error) bool
		// wantReads is the number of live looks.
		wantReads int
	}
	cases := map[string]outcome{
		"made, and the answer lost":    {after: cut, want: func(err error) bool { return err == nil }, wantReads: 1},
		"made, and the server in pain": {after: apierrors.NewInternalError(cut), want: func(err error) bool { return err == nil }, wantReads: 1},
		"lost on the way":              {before: cut, want: func(err error) bool { return errors.Is(err, ErrOutcomeUnknown) && errors.Is(err, cut) }, wantReads: 1},
		"lost, and nobody can look":    {after: cut, getErr: cut, want: func(err error) bool { return errors.Is(err, ErrOutcomeUnknown) }, wantReads: 1},
		"lost, and the name is taken":  {before: cut, stored: func() *v1alpha1.CompileTask { x := newTask(1); x.Spec.RESTRequest.Digest = "other"; return x }(), want: apierrors.IsAlreadyExists, wantReads: 1},
		"lost, and stored by a repeat": {before: cut, stored: newTask(1), want: func(err error) bool { return err == nil }, wantReads: 1},
		"never sent: no connection": {before: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, want: func(err error) bool {
			return errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, ErrOutcomeUnknown)
		}},
		"never sent: not to be acted as": {before: &access.ForbiddenError{Message: "no"}, want: func(err error) bool { return errors.Is(err, access.ErrForbidden) }},
	}
	for name, refusal := range map[string]struct {
		err   error
		check func(error) bool
	}{
		"refused":  {apierrors.NewForbidden(resource, "x", cut), apierrors.IsForbidden},
		"taken":    {apierrors.NewAlreadyExists(resource, "x"), apierrors.IsAlreadyExists},
		"invalid":  {apierrors.NewBadRequest("x"), apierrors.IsBadRequest},
		"too many": {apierrors.NewTooManyRequests("x", 1), apierrors.IsTooManyRequests},
	} {
		cases[name] = outcome{before: refusal.err, want: refusal.check}
	}
	cases["a webhook's failure"] = outcome{before: apierrors.NewInternalError(cut), wantReads: 1,
		want: func(err error) bool { return apierrors.IsInternalError(err) && !errors.Is(err, ErrOutcomeUnknown) }}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Limits{})
			if tc.stored != nil {
				r.server.put(tc.stored.DeepCopy())
			}
			r.server.before, r.server.after, r.server.getErr = tc.before, tc.after, tc.getErr
			task, err := r.Create(t.Context(), alice, newTask(1))
			if !tc.want(err) || (task != nil) != (err == nil) || r.server.reads() != tc.wantReads {
				t.Errorf("%v, %v, %d reads", task, err, r.server.reads())
			}
		})
	}
}
