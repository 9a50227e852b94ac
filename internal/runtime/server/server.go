package server

import (
	"context"
	"net/http"
)

// Server answers the Runtime protocol and runs what it admits.
type Server struct {
	manager  *manager
	gateway  gateway
	identity identifier
	content  Content
	handler  http.Handler
}

// New ends what a former process left in the store and starts a server. Stop it
// with Shutdown.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	m, err := newManager(cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{
		manager: m,
		gateway: gateway{
			loopbackListener: cfg.ListenerLoopback,
			trustLoopback:    cfg.TrustLoopbackIdentity,
			tokens:           cfg.GatewayTokens,
		},
		identity: identifier{tokens: cfg.Tokens, defaultAccount: cfg.DefaultAccount, log: cfg.Log},
		content:  cfg.Content,
	}
	s.handler = s.routes()
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Drain answers held polls at once, holds no more, admits no new task and makes
// /readyz say no. Replays, status and cancel go on. Call it before closing the
// listener.
func (s *Server) Drain() { s.manager.drain() }

// Shutdown drains, ends queued sessions, cancels running ones and returns when
// they have stopped and their states are stored. When ctx ends first, what still
// runs is marked as a restart would and an error is returned. The store may be
// closed afterwards.
func (s *Server) Shutdown(ctx context.Context) error { return s.manager.shutdown(ctx) }
