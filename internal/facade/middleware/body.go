package middleware

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/agentruntime/operator/internal/facade/wire"
)

const (
	// FreeBodyBytes of every body count for nothing, so that ordinary requests go on
	// while large bodies are turned away.
	FreeBodyBytes = 16 << 10
	// DefaultBodyMemory bounds what all bodies together have beyond that, in bytes.
	// What is done with a body takes its size a few times over, so this is well below
	// what the process may grow by.
	DefaultBodyMemory = 32 << 20

	// bodyRetry is when to come back with a body that there was no memory for.
	bodyRetry = time.Second
)

// Bodies bounds the bodies of requests, each and all together. A body that is too
// large or too slow is INVALID_ARGUMENT, status 400, as all faults of a body are
// (A.2); one that there is no memory for now is UNAVAILABLE.
type Bodies struct {
	memory  atomic.Int64
	metrics *Metrics
}

// NewBodies returns a Bodies with that much memory, in bytes.
func NewBodies(memory int64, metrics *Metrics) *Bodies {
	b := &Bodies{metrics: metrics}
	b.memory.Store(memory)
	return b
}

// Wrap gives handle a body of at most limit bytes; with limit 0, none. Handle may
// take a failed read for what it likes: the answer is the one that belongs to it.
func (b *Bodies) Wrap(limit int64, handle Handle) Handle {
	return func(w http.ResponseWriter, r *http.Request) error {
		switch {
		case r.Body == nil || r.Body == http.NoBody:
			return handle(w, r)
		case limit == 0:
			// The request is this chain's own copy, which Begin made.
			r.Body = http.NoBody
			return handle(w, r)
		case r.ContentLength > limit:
			return b.reject(ReasonBodySize, tooLarge(limit))
		}
		body := &boundedBody{ReadCloser: r.Body, bodies: b, limit: limit}
		defer body.release()
		r.Body = body
		err := handle(w, r)
		if err != nil && body.fault != nil {
			exchangeOf(r.Context()).badBody = true
			return body.fault
		}
		return err
	}
}

func (b *Bodies) reject(reason Reason, answer *wire.Error) error {
	b.metrics.Reject(reason)
	return answer
}

// take takes memory and reports whether there was enough.
func (b *Bodies) take(bytes int64) bool {
	if b.memory.Add(-bytes) >= 0 {
		return true
	}
	b.memory.Add(bytes)
	return false
}

// boundedBody is the body of one request.
type boundedBody struct {
	io.ReadCloser

	bodies *Bodies
	limit  int64
	// read is how much was read; taken what of it has memory of the common store.
	read, taken int64
	// fault is what ended the reading.
	fault error
}

// Read reads on until a bound is reached.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.fault != nil {
		return 0, b.fault
	}
	// One byte more tells a body of exactly the limit from a larger one.
	if most := b.limit - b.read + 1; int64(len(p)) > most {
		p = p[:most]
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	beyond := max(b.read-FreeBodyBytes, 0) - b.taken
	switch {
	case b.read > b.limit:
		return 0, b.fail(ReasonBodySize, tooLarge(b.limit))
	case beyond > 0 && !b.bodies.take(beyond):
		return 0, b.fail(ReasonBodyMemory, noMemory())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, b.fail(ReasonBodyTime, tooSlow())
	}
	b.taken += max(beyond, 0)
	return n, err
}

func (b *boundedBody) fail(reason Reason, answer *wire.Error) error {
	b.fault = b.bodies.reject(reason, answer)
	return b.fault
}

func (b *boundedBody) release() { b.bodies.memory.Add(b.taken) }

func tooLarge(limit int64) *wire.Error {
	return wire.Errorf(wire.CodeInvalidArgument, "Request body must not be larger than %d bytes", limit)
}

func tooSlow() *wire.Error {
	return wire.Errorf(wire.CodeInvalidArgument, "Request body did not arrive in time")
}

func noMemory() *wire.Error {
	answer := wire.Unavailable("too many large requests at once; try again later", "facade", "body memory")
	answer.RetryAfter = bodyRetry
	return answer
}
