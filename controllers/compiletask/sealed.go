package compiletask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/internal/sealed/ringsecret"
)

// unsealed is what the REST API has sealed into a task, opened. It lives in memory
// only, from the task's turn to its end.
type unsealed struct {
	// apiKey is the key that the caller forwarded, empty for none.
	apiKey string
	// args are the exact args for the executor, nil when spec.args are or when they
	// are not needed any more.
	args json.RawMessage
	// secrets are the secret values in args, which must show nowhere.
	secrets []string
}

// all are the values that must show nowhere.
func (u *unsealed) all() []string {
	if u == nil {
		return nil
	}
	return append([]string{u.apiKey}, u.secrets...)
}

// errTooManySecrets says that looking for every secret of a task in everything that
// its executor says would cost too much.
var errTooManySecrets = fmt.Errorf("args have more than %d values of the keys api_key and user_key", maxSecrets)

// checkOrigin ends a task that pretends to come from the REST API. Admission has
// refused it, so it shows that admission was bypassed: its name would give it the
// identity of another task at the executor. What an executor may have already is
// followed to its end.
func (r *Reconciler) checkOrigin(ctx context.Context, s *scope) (bool, ctrl.Result, error) {
	spec := &s.task.Spec
	fromREST := resttask.IsName(s.task.Name) || spec.RESTRequest != nil || spec.SealedArgs != nil || spec.SealedCredentials != nil
	if !fromREST || r.onRecord(s) || s.attempt.wasSubmitted() || resttask.Marked(r.KeyRing, s.task) {
		return false, ctrl.Result{}, nil
	}
	end := &ending{endLag: -1}
	end.fail(v1alpha1.ReasonInvalidRequest, v1alpha1.ErrorCodeInvalidArgument,
		"The task has the name or the fields of one that the REST API makes, and not its mark; create it through the REST API, or under another name", v1alpha1.StageQueued)
	return r.finish(ctx, s, end)
}

// unseal has what the REST API sealed into the task at hand for the calls of this
// pass. What can't be opened ends a task that is not submitted; for one that is, it
// counts as a call that failed, for without knowing the secrets nothing that its
// executor says can be shown.
func (r *Reconciler) unseal(ctx context.Context, s *scope) (bool, ctrl.Result, error) {
	if s.attempt.opened() != nil {
		return false, ctrl.Result{}, nil
	}
	bodies, err := r.open(ctx, s.task)
	if err == nil {
		s.attempt.setOpened(bodies)
		return false, ctrl.Result{}, nil
	}
	if errors.Is(err, errRingUnread) {
		return true, ctrl.Result{}, err
	}
	ctrl.LoggerFrom(ctx).Error(err, "A sealed body can't be used")
	if !r.maybeSubmitted(s) {
		return r.finish(ctx, s, unreadable(err))
	}
	if !s.attempt.backingOff(s.now) {
		s.attempt.fail(opCredential, withheldError{&refusal{v1alpha1.ReasonSealedBodyUnreadable, adviceFor(err)}}, s.now)
	}
	return false, ctrl.Result{}, nil
}

// errRingUnread says that it is not known whether a body can be opened.
var errRingUnread = errors.New("the key ring can't be read")

// open opens what is sealed in a task, with the ring read anew where the one at hand
// lacks a key.
func (r *Reconciler) open(ctx context.Context, task *v1alpha1.CompileTask) (*unsealed, error) {
	bodies, err := openBodies(r.KeyRing, task)
	if !errors.Is(err, sealed.ErrUnknownKey) || r.ReloadKeyRing == nil {
		return bodies, err
	}
	ring, err := r.ReloadKeyRing(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRingUnread, err)
	}
	return openBodies(ring, task)
}

func openBodies(ring *sealed.KeyRing, task *v1alpha1.CompileTask) (*unsealed, error) {
	credentials, err := resttask.OpenCredentials(ring, task)
	if err != nil {
		return nil, err
	}
	out := &unsealed{apiKey: credentials.APIKey, args: credentials.Args}
	if out.secrets, err = secretsIn(credentials.Args); err != nil {
		return nil, fmt.Errorf("look for secrets in the args of CompileTask %s/%s: %w", task.Namespace, task.Name, err)
	}
	if task.Status.SessionID != "" {
		out.args = nil
		return out, nil
	}
	args, err := resttask.OpenArgs(ring, task)
	if err != nil {
		return nil, err
	}
	if out.args == nil {
		out.args = args
	}
	return out, nil
}

// unreadable is the end of a task whose bodies can't be used.
func unreadable(err error) *ending {
	if errors.Is(err, errTooManySecrets) {
		return failed(v1alpha1.ReasonInvalidRequest, v1alpha1.ErrorCodeInvalidArgument, errTooManySecrets.Error(), v1alpha1.StageQueued)
	}
	return failed(v1alpha1.ReasonSealedBodyUnreadable, v1alpha1.ErrorCodeInternal, adviceFor(err), v1alpha1.StageQueued)
}

// adviceFor says in a user's terms why a body can't be opened and what to do.
func adviceFor(err error) string {
	if errors.Is(err, sealed.ErrUnknownKey) {
		return "What the REST API sealed into the task can't be opened: its key is not in the operator's key ring. " +
			"An administrator can see whether the Secret " + ringsecret.Name + " has it and restart the manager; then send the request again"
	}
	return "What the REST API sealed into the task can't be opened: it was changed, or made for another task; send the request again"
}
