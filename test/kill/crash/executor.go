package crash

import (
	"context"
	"sync"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/executor/registry"
)

// Executors is a registry whose clients end the process at the killer's point.
type Executors struct {
	*registry.Registry

	killer *Killer
	polled *sessions
}

// WrapExecutors wraps a registry.
func WrapExecutors(inner *registry.Registry, killer *Killer) *Executors {
	return &Executors{Registry: inner, killer: killer, polled: &sessions{seen: map[string]struct{}{}}}
}

// For returns the wrapped client of a runtime.
func (e *Executors) For(runtime *v1alpha1.AgentRuntime) (executor.Executor, error) {
	inner, err := e.Registry.For(runtime)
	if err != nil {
		return nil, err
	}
	return &client{Executor: inner, killer: e.killer, polled: e.polled}, nil
}

type client struct {
	executor.Executor

	killer *Killer
	polled *sessions
}

// Submit implements executor.Executor.
func (c *client) Submit(ctx context.Context, req executor.SubmitRequest) (executor.Submission, error) {
	c.killer.at(SubmitBefore)
	submission, err := c.Executor.Submit(c.killer.sent(ctx, SubmitSent), req)
	c.killer.at(SubmitDone)
	return submission, err
}

// Poll implements executor.Executor.
func (c *client) Poll(ctx context.Context, req executor.PollRequest) (executor.Observation, error) {
	if !c.polled.add(req.SessionID) {
		observed, err := c.Executor.Poll(c.killer.sent(ctx, PollSent), req)
		c.killer.at(PollDone)
		return observed, err
	}
	c.killer.at(FirstPollBefore)
	observed, err := c.Executor.Poll(c.killer.sent(ctx, FirstPollSent), req)
	c.killer.at(FirstPollDone)
	return observed, err
}

// Cancel implements executor.Executor.
func (c *client) Cancel(ctx context.Context, req executor.CancelRequest) (executor.Observation, error) {
	c.killer.at(CancelBefore)
	observed, err := c.Executor.Cancel(c.killer.sent(ctx, CancelSent), req)
	c.killer.at(CancelDone)
	return observed, err
}

// sessions remembers which sessions were polled. A test's process sees few.
type sessions struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

// add reports whether the session is new.
func (s *sessions) add(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.seen[session]
	s.seen[session] = struct{}{}
	return !known
}
