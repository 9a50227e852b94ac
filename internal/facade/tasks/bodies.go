package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
)

const (
	fieldArgs   = v1alpha1.FieldSealedArgs
	fieldResult = "status.result"
)

// bodies opens what is sealed in tasks and beside them. A body never changes once it
// is there, so opened ones are kept, up to a bound in bytes; several who want one at
// the same time share one look.
type bodies struct {
	live    Reader
	rings   Rings
	kept    *bodyCache
	flights singleflight.Group
	slots   chan struct{}
	timeout time.Duration
}

func newBodies(live Reader, rings Rings, limits Limits) *bodies {
	return &bodies{
		live: live, rings: rings, kept: newBodyCache(limits.BodyBytes),
		slots: make(chan struct{}, limits.BodyReads), timeout: limits.Settle,
	}
}

// Args returns the task's public args in their exact text, nil when it has none. They
// are shared and must not be changed. Errors are those of the package sealed and of
// reading the key ring.
func (s *Store) Args(ctx context.Context, task *v1alpha1.CompileTask) (json.RawMessage, error) {
	if task.Spec.SealedArgs == nil {
		if task.Spec.Args == nil {
			return nil, nil
		}
		return task.Spec.Args.Raw, nil
	}
	return s.bodies.get(ctx, bodyKey{task.UID, fieldArgs}, func(ctx context.Context) (json.RawMessage, error) {
		return s.bodies.open(ctx, func(ring *sealed.KeyRing) (json.RawMessage, error) { return resttask.OpenArgs(ring, task) })
	})
}

// Result returns the task's result, nil when it has none. It is shared and must not be
// changed. A Payload that is missing, another's or changed is sealed.ErrUnreadable;
// further errors are those of the package sealed, of reading the key ring and of the
// API server.
func (s *Store) Result(ctx context.Context, task *v1alpha1.CompileTask) (json.RawMessage, error) {
	if task.Status.Result != nil {
		return task.Status.Result.Raw, nil
	}
	if task.Status.ResultPayloadName == "" {
		return nil, nil
	}
	return s.bodies.get(ctx, bodyKey{task.UID, fieldResult}, func(ctx context.Context) (json.RawMessage, error) {
		return s.bodies.result(ctx, task)
	})
}

func (b *bodies) result(ctx context.Context, task *v1alpha1.CompileTask) (json.RawMessage, error) {
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Status.ResultPayloadName}
	payload := &v1alpha1.Payload{}
	if err := b.live.Get(ctx, key, payload); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get Payload %s: it is gone: %w", key, sealed.ErrUnreadable)
	} else if err != nil {
		return nil, fmt.Errorf("get Payload %s: %w", key, err)
	}
	return b.open(ctx, func(ring *sealed.KeyRing) (json.RawMessage, error) { return resttask.OpenResult(ring, task, payload) })
}

// open opens a body with the ring as it is, and if that lacks the key, which another
// process may have added, with the ring read anew. When that can't be read, its error
// tells so and not sealed.ErrUnknownKey: the key may well be there.
func (b *bodies) open(ctx context.Context, with func(*sealed.KeyRing) (json.RawMessage, error)) (json.RawMessage, error) {
	ring, err := b.rings.Ring(ctx)
	if err != nil {
		return nil, err
	}
	body, err := with(ring)
	if !errors.Is(err, sealed.ErrUnknownKey) {
		return body, err
	}
	again, reloadErr := b.rings.Reload(ctx)
	switch {
	case reloadErr != nil:
		return nil, fmt.Errorf("look for the key of a sealed body: %w", reloadErr)
	case again == ring:
		return nil, err
	}
	return with(again)
}

// get returns a kept body or fetches it. The fetch has a time of its own, so that one
// caller who gives up does not fail the others.
func (b *bodies) get(ctx context.Context, key bodyKey, fetch func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if body, ok := b.kept.get(key); ok {
		return body, nil
	}
	flight := b.flights.DoChan(key.field+" "+string(key.uid), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.timeout)
		defer cancel()
		return b.fetch(ctx, key, fetch)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case landed := <-flight:
		body, _ := landed.Val.(json.RawMessage)
		return body, landed.Err
	}
}

// fetch waits for a slot, so that many large bodies can't exhaust the memory.
func (b *bodies) fetch(ctx context.Context, key bodyKey, fetch func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to open a sealed body: %w", ctx.Err())
	}
	body, err := fetch(ctx)
	if err == nil {
		b.kept.put(key, body)
	}
	return body, err
}
