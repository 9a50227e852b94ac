package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// lateCache makes caches that show what the API server says up to a time late:
// each watch stream is held back, in order. So reads and events are both old, as
// they are behind a slow or busy watch. An informer never shows a read that is
// older than an event it has delivered, and neither does this.
func lateCache(most time.Duration) cache.NewCacheFunc {
	return func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		late := rest.CopyConfig(config)
		late.Wrap(func(inner http.RoundTripper) http.RoundTripper { return &lateTransport{inner: inner, most: most} })
		client, err := rest.HTTPClientFor(late)
		if err != nil {
			return nil, fmt.Errorf("make the late client: %w", err)
		}
		options.HTTPClient = client
		return cache.New(late, options)
	}
}

type lateTransport struct {
	inner http.RoundTripper
	most  time.Duration
}

// RoundTrip implements http.RoundTripper.
func (t *lateTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.inner.RoundTrip(r)
	if err != nil || r.URL.Query().Get("watch") == "" {
		return answer, err
	}
	answer.Body = newLateBody(answer.Body, t.most)
	return answer, nil
}

// lateBody hands on what its source says some time after it came. The time is
// drawn anew whenever nothing is held back, so that order is kept.
type lateBody struct {
	source io.ReadCloser
	most   time.Duration
	chunks chan chunk
	closed chan struct{}
	rest   []byte
	err    error
}

type chunk struct {
	data []byte
	due  time.Time
	err  error
}

// Bounds of what is held back: watches that fall behind this far block, as any slow
// reader does.
const (
	maxChunks  = 4096
	chunkBytes = 16 << 10
)

func newLateBody(source io.ReadCloser, most time.Duration) *lateBody {
	b := &lateBody{source: source, most: most, chunks: make(chan chunk, maxChunks), closed: make(chan struct{})}
	go b.fill()
	return b
}

// fill reads the source until it ends or the body is closed.
func (b *lateBody) fill() {
	var last time.Time
	lag := b.draw()
	buffer := make([]byte, chunkBytes)
	for {
		n, err := b.source.Read(buffer)
		now := time.Now()
		if now.After(last) {
			lag = b.draw()
		}
		if due := now.Add(lag); due.After(last) {
			last = due
		}
		select {
		case b.chunks <- chunk{data: append([]byte(nil), buffer[:n]...), due: last, err: err}:
		case <-b.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

func (b *lateBody) draw() time.Duration {
	return time.Duration(rand.Int64N(int64(b.most) + 1))
}

// Read implements io.Reader.
func (b *lateBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		select {
		case next := <-b.chunks:
			b.wait(next.due)
			b.rest, b.err = next.data, next.err
		case <-b.closed:
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *lateBody) wait(due time.Time) {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.closed:
	}
}

// Close implements io.Closer.
func (b *lateBody) Close() error {
	close(b.closed)
	return b.source.Close()
}
