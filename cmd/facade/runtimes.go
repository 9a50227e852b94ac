package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/facade/compileapi"
	"github.com/agentruntime/operator/internal/facade/content"
)

// runtimes tells the dialect of the AgentRuntimes in the cache.
type runtimes struct {
	cache   cache.Cache
	checker *content.Checker
	// informer fills the cache; nil before attach.
	informer atomic.Pointer[cache.Informer]
}

var _ compileapi.Runtimes = (*runtimes)(nil)

// attach has the cache keep AgentRuntimes.
func (r *runtimes) attach(ctx context.Context) error {
	informer, err := r.cache.GetInformer(ctx, &v1alpha1.AgentRuntime{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("get the informer of AgentRuntimes: %w", err)
	}
	r.informer.Store(&informer)
	return nil
}

// ready returns nil once all AgentRuntimes are known.
func (r *runtimes) ready() error {
	if informer := r.informer.Load(); informer == nil || !(*informer).HasSynced() {
		return errors.New("the cache of AgentRuntimes is not filled yet")
	}
	return nil
}

// Default implements compileapi.Runtimes.
func (r *runtimes) Default(ctx context.Context) (*v1alpha1.AgentRuntime, error) {
	var list v1alpha1.AgentRuntimeList
	if err := r.cache.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list AgentRuntimes to find the default: %w", err)
	}
	return v1alpha1.DefaultRuntime(list.Items), nil
}

// Content implements compileapi.Runtimes.
func (r *runtimes) Content(_ context.Context, runtime *v1alpha1.AgentRuntime, caller access.Caller) (compileapi.Content, error) {
	reader, err := r.checker.Reader(runtime, caller)
	if reader == nil || err != nil {
		return nil, err
	}
	return reader, nil
}
