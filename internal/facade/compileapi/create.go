package compileapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
)

// How long tasks made through this API are kept after their end (C.7).
const (
	keepFinishedSeconds = int32(24 * 60 * 60)
	keepFailedSeconds   = 7 * keepFinishedSeconds
)

// traceParentPattern is the form that the resource takes; any other is left out.
var traceParentPattern = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// create answers POST /api/v1/compile. The order of its steps is that of B.3, whose
// steps 1 and 2 are done but for the Idempotency-Key.
func (a *API) create(w http.ResponseWriter, r *http.Request) error {
	ctx, info, now := r.Context(), httpapi.InfoOf(r.Context()), a.now()
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	request, err := decodeCreate(r)
	if err != nil {
		return err
	}
	canonical, err := canonicalize(request, info.Caller.User.Username, now)
	if err != nil {
		return err
	}
	ring, err := a.ring(ctx)
	if err != nil {
		return err
	}
	name := resttask.RandomName()
	if key != "" {
		name = resttask.KeyedName(ring, info.Namespace, info.Caller.User.Username, key)
		if done, err := a.replay(w, r, ring, name, request); done || err != nil {
			return err
		}
	}
	target, err := a.target(ctx, info)
	if err != nil {
		return err
	}
	if err := a.checkContent(ctx, info, target.runtime, canonical.Canonical); err != nil {
		return err
	}
	draft := draft{info: info, ring: ring, name: name, keyed: key != "", received: now, canonical: canonical, target: target}
	task, err := draft.task()
	if err != nil {
		return err
	}
	return a.store(w, r, ring, task, request)
}

// store creates the task. Where its name is taken, another request under the same
// key was faster, or this one had arrived before its answer was lost.
func (a *API) store(w http.ResponseWriter, r *http.Request, ring *sealed.KeyRing, task *v1alpha1.CompileTask, request createRequest) error {
	ctx, info := r.Context(), httpapi.InfoOf(r.Context())
	created, err := a.tasks.Create(ctx, info.Caller.User, task)
	switch {
	case err == nil:
		return a.answer(ctx, w, http.StatusAccepted, created)
	case apierrors.IsAlreadyExists(err):
		done, replayErr := a.replay(w, r, ring, task.Name, request)
		if done || replayErr != nil {
			return replayErr
		}
		// It was deleted in between; a repeat creates it.
		return told(wire.Errorf(wire.CodeConflict, "the task was deleted at the same time; repeat the request"), "create CompileTask", err)
	default:
		return writeError(err, info.Caller.User, "create", info.Namespace)
	}
}

// draft is what a new task is made of.
type draft struct {
	info      *httpapi.Info
	ring      *sealed.KeyRing
	name      string
	keyed     bool
	received  time.Time
	canonical canonicalRequest
	target    target
}

// task makes the object. Who created it is stamped at admission.
func (d draft) task() (*v1alpha1.CompileTask, error) {
	rest, err := d.restRequest()
	if err != nil {
		return nil, err
	}
	finished, failed := keepFinishedSeconds, keepFailedSeconds
	task := &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.info.Namespace, Name: d.name},
		Spec: v1alpha1.CompileTaskSpec{
			From: d.canonical.From, To: d.canonical.To, Skill: d.canonical.Skill,
			Instruction: d.canonical.instruction, RuntimeName: d.target.runtime.Name,
			ServiceAccountName: d.target.serviceAccount, RESTRequest: rest,
			TTLSecondsAfterFinished: &finished, TTLSecondsAfterFailed: &failed,
		},
	}
	if d.info.ID != "" {
		task.Annotations = map[string]string{v1alpha1.AnnotationRequestID: d.info.ID}
	}
	if err := d.seal(&task.Spec); err != nil {
		return nil, err
	}
	return task, nil
}

func (d draft) origin() resttask.Origin {
	return resttask.Origin{Namespace: d.info.Namespace, Name: d.name, Received: d.received}
}

func (d draft) restRequest() (*v1alpha1.RESTRequest, error) {
	received := metav1.NewMicroTime(d.received.UTC().Truncate(time.Microsecond))
	rest := &v1alpha1.RESTRequest{
		Mark:         resttask.Mark(d.ring, d.origin(), d.info.Caller.User.Username),
		ReceivedTime: &received,
	}
	if traceParentPattern.MatchString(d.info.TraceParent) {
		rest.TraceParent = d.info.TraceParent
	}
	if !d.keyed {
		return rest, nil
	}
	body, err := d.canonical.normalised()
	if err != nil {
		return nil, err
	}
	rest.Digest = resttask.Digest(d.ring, body)
	return rest, nil
}

// seal puts args and credentials where they may be: in the open, exact, or hidden.
func (d draft) seal(spec *v1alpha1.CompileTaskSpec) error {
	args, err := split(d.canonical.args)
	if err != nil {
		return err
	}
	switch {
	case args.public == nil:
	case args.exact:
		spec.Args = &runtime.RawExtension{Raw: args.public}
	default:
		if spec.SealedArgs, err = resttask.SealArgs(d.ring, d.origin(), args.public); err != nil {
			return fmt.Errorf("seal args: %w", err)
		}
	}
	return d.sealCredentials(spec, args.secret)
}

func (d draft) sealCredentials(spec *v1alpha1.CompileTaskSpec, secret json.RawMessage) error {
	credentials := resttask.Credentials{APIKey: string(d.target.forward), Args: secret}
	if credentials.Empty() {
		return nil
	}
	body, err := resttask.SealCredentials(d.ring, d.origin(), credentials)
	if err != nil {
		return fmt.Errorf("seal credentials: %w", err)
	}
	spec.SealedCredentials = body
	return nil
}

// answer writes one task's record with its ETag.
func (a *API) answer(ctx context.Context, w http.ResponseWriter, status int, task *v1alpha1.CompileTask) error {
	current, err := a.represent(ctx, task)
	if err != nil {
		return err
	}
	current.write(w, status)
	return nil
}
