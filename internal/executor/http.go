package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/agentruntime/operator/internal/outbound"
)

// Defaults and bounds of the HTTP client.
const (
	// DefaultRequestTimeout bounds one call (E.2.1).
	DefaultRequestTimeout = 10 * time.Second
	// DefaultMaxHeldConns is how many polls of a runtime are held at once.
	DefaultMaxHeldConns = 256
	// DefaultMaxCallConns is how many other calls of a runtime run at once.
	DefaultMaxCallConns = 128

	maxIdleCallConns = 32
	userAgent        = "agentruntime-operator"
)

// TokenSource returns the gateway token to show, or "" for none. It is asked
// before every call and should answer from memory.
type TokenSource func(ctx context.Context) (string, error)

// StaticToken returns a source of one fixed token.
func StaticToken(token string) TokenSource {
	return func(context.Context) (string, error) { return token, nil }
}

// HTTPConfig says how an executor is reached.
type HTTPConfig struct {
	// BaseURL is an http or https URL with a host and at most a path, which is
	// kept as a prefix; a trailing slash is dropped. Userinfo, query and fragment
	// are refused.
	BaseURL string
	// GatewayToken gives the operator's own credential; nil sends none.
	GatewayToken TokenSource
	// GatewayRefused, when set, is told of each call whose gateway token the
	// executor refused, with that token as it was sent, so that the source does
	// not give it again. It must not block.
	GatewayRefused func(token string)
	// CABundle holds PEM certificates that replace the system's roots when set.
	CABundle []byte
	// RequestTimeout bounds each call; 0 means DefaultRequestTimeout. A held poll
	// may take this much longer than its wait.
	RequestTimeout time.Duration
	// MaxHeldConns and MaxCallConns bound the two connection pools; 0 means the
	// default. A held poll beyond the bound is sent as a plain one; another call
	// beyond it waits within its timeout.
	MaxHeldConns int
	MaxCallConns int
}

// HTTP is the client of the Runtime execution protocol. It owns no goroutine.
type HTTP struct {
	base    string
	token   TokenSource
	refused func(token string)
	timeout time.Duration

	// Held polls have connections of their own, so that any number of waiting
	// tasks leaves the way free for submits and cancels.
	calls *http.Transport
	held  *http.Transport
	slots chan struct{}

	// holds is set once the executor has shown that it holds polls.
	holds  atomic.Bool
	closed atomic.Bool
}

var _ Executor = (*HTTP)(nil)

// NewHTTP returns a client for the executor at cfg.BaseURL. It makes no call; an
// error names the field at fault and shows none of its value.
func NewHTTP(cfg HTTPConfig) (*HTTP, error) {
	base, err := outbound.ParseBaseURL(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("executor base URL: %w", err)
	}
	tlsConfig, err := outbound.TLSConfig(cfg.CABundle)
	if err != nil {
		return nil, fmt.Errorf("executor CA bundle: %w", err)
	}
	if cfg.RequestTimeout < 0 || cfg.MaxHeldConns < 0 || cfg.MaxCallConns < 0 {
		return nil, errors.New("executor limits: must not be negative")
	}
	timeout := cmp.Or(cfg.RequestTimeout, DefaultRequestTimeout)
	maxHeld := cmp.Or(cfg.MaxHeldConns, DefaultMaxHeldConns)
	maxCalls := cmp.Or(cfg.MaxCallConns, DefaultMaxCallConns)
	token := cfg.GatewayToken
	if token == nil {
		token = StaticToken("")
	}
	gatewayRefused := cfg.GatewayRefused
	if gatewayRefused == nil {
		gatewayRefused = func(string) {}
	}
	return &HTTP{
		base:    base,
		token:   token,
		refused: gatewayRefused,
		timeout: timeout,
		calls:   outbound.NewTransport(tlsConfig, timeout, maxCalls, min(maxCalls, maxIdleCallConns)),
		held:    outbound.NewTransport(tlsConfig, timeout, maxHeld, maxHeld),
		slots:   make(chan struct{}, maxHeld),
	}, nil
}

// Close lets go of the connections: idle ones at once, each other when its call is
// over. Calls under way, and calls made afterwards by whoever still holds the
// client, work as before but for keeping their connection. Closing a second time
// does nothing more.
func (h *HTTP) Close() {
	h.closed.Store(true)
	h.closeIdle()
}

func (h *HTTP) closeIdle() {
	h.calls.CloseIdleConnections()
	h.held.CloseIdleConnections()
}
