package compiletask

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/executor"
)

// credential is what is sent to an executor for the task's user. It lives in
// memory only.
type credential struct {
	apiKey string
	readAt time.Time
	// renewAt is when a token is replaced; zero for a key.
	renewAt time.Time
}

// tokenLifetime is the lifetime asked for ServiceAccount tokens; they are
// replaced when a fifth of it is left.
const tokenLifetime = time.Hour

// fingerprintPurpose keeps these fingerprints apart from others of the key ring.
const fingerprintPurpose = "compiletask-credential"

// authorize has the task's credential at hand for the calls of this pass, and
// checks that the requester may still use what the task names. A task that is not
// submitted waits while it can't be had; for one that is, it counts as a call
// that failed.
func (r *Reconciler) authorize(ctx context.Context, s *scope) (bool, ctrl.Result, error) {
	if s.runtime == nil || s.attempt.isCalling() {
		return false, ctrl.Result{}, nil
	}
	refused, err := r.checkUse(ctx, s)
	if err == nil && refused == nil {
		refused, err = r.obtainCredential(ctx, s)
	}
	if err != nil {
		return true, ctrl.Result{}, err
	}
	if refused == nil {
		return false, ctrl.Result{}, nil
	}
	if !r.maybeSubmitted(s) {
		r.queue.hold(s.task.UID)
		return r.waitFor(ctx, s, refused.reason, refused.message, refusedRetry)
	}
	if !s.attempt.backingOff(s.now) {
		s.attempt.fail(opCredential, withheldError{refused}, s.now)
	}
	return false, ctrl.Result{}, nil
}

// withheldError says that a call was not made, because what it needs can't be had.
// It counts as a call that failed in a way that may pass.
type withheldError struct{ *refusal }

// Error implements error.
func (e withheldError) Error() string { return e.reason + ": " + e.message }

// Unwrap shows it to what sorts failed calls.
func (e withheldError) Unwrap() error {
	return &executor.Error{Code: v1alpha1.ErrorCodeUnavailable, Message: e.message, Transient: true}
}

// checkUse asks about a default runtime that was chosen after the task was made;
// one named in the spec was checked at admission.
func (r *Reconciler) checkUse(ctx context.Context, s *scope) (*refusal, error) {
	if s.task.Spec.RuntimeName != "" || s.task.Status.SessionID != "" {
		return nil, nil
	}
	allowed, err := access.CanUseRuntime(ctx, r.Authorizer, s.task.Spec.Requester, s.task.Namespace, s.runtime.Name)
	if err != nil || allowed.Allowed {
		return nil, err
	}
	return &refusal{v1alpha1.ReasonNotPermitted, allowed.Message}, nil
}

func (r *Reconciler) obtainCredential(ctx context.Context, s *scope) (*refusal, error) {
	have := s.attempt.currentCredential()
	if have != nil && (have.renewAt.IsZero() || s.now.Before(have.renewAt)) {
		return nil, nil
	}
	var got *credential
	var refused *refusal
	var err error
	switch credentialsMode(s.runtime) {
	case v1alpha1.CredentialsSecret:
		got, refused, err = r.userKey(ctx, s)
	case v1alpha1.CredentialsServiceAccountToken:
		got, refused, err = r.requestToken(ctx, s)
	default:
		got = &credential{readAt: s.now}
	}
	if err != nil || refused != nil {
		return refused, err
	}
	s.attempt.setCredential(got)
	return nil, nil
}

func credentialsMode(runtime *v1alpha1.AgentRuntime) v1alpha1.CredentialsMode {
	if runtime == nil || runtime.Spec.Credentials == nil {
		return v1alpha1.CredentialsNone
	}
	return runtime.Spec.Credentials.Mode
}

// userKey is the key that the caller of the REST API has forwarded, or else the one
// in the Secret that the task names. For the forwarded one no Secret is read and
// nobody is asked: whoever sent it has it. It can't be read anew when it is refused,
// so it has no time of reading.
func (r *Reconciler) userKey(ctx context.Context, s *scope) (*credential, *refusal, error) {
	bodies := s.attempt.opened()
	if bodies == nil || bodies.apiKey == "" {
		return r.readKey(ctx, s)
	}
	if strings.ContainsFunc(bodies.apiKey, unprintable) {
		return nil, unavailable("The key that was forwarded holds what no header can carry"), nil
	}
	return &credential{apiKey: bodies.apiKey}, nil, nil
}

func (r *Reconciler) readKey(ctx context.Context, s *scope) (*credential, *refusal, error) {
	name := s.task.Spec.CredentialsSecretName
	if name == "" {
		return nil, unavailable("AgentRuntime %q needs the user's key; create the task with credentialsSecretName", s.runtime.Name), nil
	}
	allowed, err := access.CanGetSecret(ctx, r.Authorizer, s.task.Spec.Requester, s.task.Namespace, name)
	if err != nil {
		return nil, nil, err
	}
	if !allowed.Allowed {
		return nil, &refusal{v1alpha1.ReasonNotPermitted, allowed.Message}, nil
	}
	var secret corev1.Secret
	err = r.APIReader.Get(ctx, types.NamespacedName{Namespace: s.task.Namespace, Name: name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, unavailable("Secret %q does not exist; create it with type %s", name, v1alpha1.SecretTypeCredentials), nil
	case err != nil:
		return nil, nil, fmt.Errorf("get Secret %s/%s: %w", s.task.Namespace, name, err)
	case secret.Type != v1alpha1.SecretTypeCredentials:
		return nil, unavailable("Secret %q has type %q; it must have type %s", name, secret.Type, v1alpha1.SecretTypeCredentials), nil
	case len(secret.Data[v1alpha1.CredentialsSecretKey]) == 0:
		return nil, unavailable("Secret %q has nothing under the key %q", name, v1alpha1.CredentialsSecretKey), nil
	}
	key := strings.TrimRight(string(secret.Data[v1alpha1.CredentialsSecretKey]), "\r\n")
	if key == "" || strings.ContainsFunc(key, unprintable) {
		return nil, unavailable("Secret %q holds under the key %q what no header can carry; store the key alone, in visible ASCII characters", name, v1alpha1.CredentialsSecretKey), nil
	}
	return &credential{apiKey: key, readAt: s.now}, nil, nil
}

func unprintable(r rune) bool { return r < 0x20 || r > 0x7e }

func (r *Reconciler) requestToken(ctx context.Context, s *scope) (*credential, *refusal, error) {
	name := s.task.Spec.ServiceAccountName
	if name == "" {
		return nil, unavailable("AgentRuntime %q needs a ServiceAccount's token; create the task with serviceAccountName", s.runtime.Name), nil
	}
	allowed, err := access.CanCreateToken(ctx, r.Authorizer, s.task.Spec.Requester, s.task.Namespace, name)
	if err != nil {
		return nil, nil, err
	}
	if !allowed.Allowed {
		return nil, &refusal{v1alpha1.ReasonNotPermitted, allowed.Message}, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:         []string{s.runtime.Spec.Credentials.Audience},
		ExpirationSeconds: ptr.To(int64(tokenLifetime.Seconds())),
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.task.Namespace, Name: name}}
	err = r.Client.SubResource("token").Create(ctx, account, request)
	if apierrors.IsNotFound(err) {
		return nil, unavailable("ServiceAccount %q does not exist; create it", name), nil
	}
	if refusedForGood(err) {
		return nil, unavailable("The operator gets no token of ServiceAccount %q: %v", name, err), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("create a token of ServiceAccount %s/%s: %w", s.task.Namespace, name, err)
	}
	if accepted, err := r.apiServerAccepts(ctx, request.Status.Token); err != nil || accepted {
		return nil, &refusal{v1alpha1.ReasonRuntimeInvalid, fmt.Sprintf(
			"AgentRuntime %q asks for tokens of the API server's own audience; give it an audience of its own", s.runtime.Name)}, err
	}
	lifetime := request.Status.ExpirationTimestamp.Sub(s.now)
	return &credential{apiKey: request.Status.Token, readAt: s.now, renewAt: s.now.Add(lifetime * 4 / 5)}, nil, nil
}

// apiServerAccepts tells whether a token would let its holder into the API server
// itself. Such a token must never reach an executor.
func (r *Reconciler) apiServerAccepts(ctx context.Context, token string) (bool, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := r.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("review a token for an executor: %w", err)
	}
	return review.Status.Authenticated, nil
}

func unavailable(format string, args ...any) *refusal {
	return &refusal{v1alpha1.ReasonCredentialsUnavailable, fmt.Sprintf(format, args...)}
}

// opaque tells that the task's credential is a key whose owner only the executor
// knows, so that keys of two users can't be told from one changed key.
func opaque(s *scope) bool {
	return credentialsMode(s.runtime) == v1alpha1.CredentialsSecret
}

// refusedCredential tells that the executor refused the user's credential, rather
// than the operator's own token.
func refusedCredential(err error) bool {
	var call *executor.Error
	return errors.As(err, &call) && !executor.IsGatewayRejected(err) &&
		(call.HTTPStatus == http.StatusUnauthorized || call.HTTPStatus == http.StatusForbidden)
}
