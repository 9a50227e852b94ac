package facade

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxHeaderBytes bounds a request's header: a token of 16 KiB fits with room.
	maxHeaderBytes = 32 << 10
	// maxStreams bounds the requests under way on one HTTP/2 connection.
	maxStreams = 128
	// http2Buffer bounds what one HTTP/2 connection may send ahead of what is read of
	// it, in bytes: net/http keeps that before anyone knows whose it is. It is the
	// least that net/http takes.
	http2Buffer = 64 << 10
	// http2Frame bounds one frame that a client sends, in bytes; the standard's own
	// bound where none is agreed on.
	http2Frame = 16 << 10
)

// Run listens on the address and serves until the context ends.
func (s *Server) Run(ctx context.Context, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	return s.Serve(ctx, listener)
}

// Serve serves the listener, which it closes, until the context ends, and then
// drains: the server says that it is not ready, ends answers that last, takes no new
// connection, lets requests under way finish within their time, and cuts off the
// rest. It returns nil after an orderly end. It is called once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	if s.config.InsecureHTTP && !loopback(listener.Addr()) {
		_ = listener.Close()
		return fmt.Errorf("serve plain HTTP on %s: only on a loopback address, for credentials must not cross a network in plain text", listener.Addr())
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var owned sync.WaitGroup
	defer owned.Wait()
	defer stop()
	owned.Go(func() { s.probe.run(background) })

	server := s.httpServer(background)
	ended := make(chan error, 1)
	owned.Go(func() { ended <- s.serve(server, listener) })
	s.serving.Store(true)
	select {
	case err := <-ended:
		s.unready.Store(true)
		_ = server.Close()
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	if err := s.shutDown(background, server); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}

func (s *Server) serve(server *http.Server, listener net.Listener) error {
	if s.config.InsecureHTTP {
		return server.Serve(listener)
	}
	return server.ServeTLS(listener, "", "")
}

// shutDown ends the serving in order. Requests that outlast the time for it are cut
// off, which is noted and no error.
func (s *Server) shutDown(ctx context.Context, server *http.Server) error {
	s.unready.Store(true)
	wait := time.NewTimer(s.config.Times.DrainDelay)
	defer wait.Stop()
	<-wait.C
	s.drain.Do(func() { close(s.draining) })
	ctx, cancel := context.WithTimeout(ctx, s.config.Times.Drain)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.config.Logger.Warn("Requests under way were cut off", "after", s.config.Times.Drain.String())
		err = server.Close()
	}
	if err != nil {
		return fmt.Errorf("stop serving: %w", err)
	}
	return nil
}

func (s *Server) httpServer(ctx context.Context) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Server{
		Handler:   s.handler,
		TLSConfig: s.tlsConfig(),
		Protocols: protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: http2Frame,
			MaxReceiveBufferPerConnection: http2Buffer, MaxReceiveBufferPerStream: http2Buffer,
		},
		ReadHeaderTimeout: s.config.Times.Header,
		IdleTimeout:       s.config.Times.Idle,
		MaxHeaderBytes:    maxHeaderBytes,
		// Even "OPTIONS *" gets an id and an envelope.
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		// What goes wrong with connections is of interest when one looks for it.
		ErrorLog: slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
	}
}

func (s *Server) tlsConfig() *tls.Config {
	if s.config.InsecureHTTP {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.config.GetCertificate}
	if s.config.Aggregated != nil {
		// Only the aggregator has one; its authenticator verifies it.
		config.ClientAuth = tls.RequestClientCert
	}
	return config
}

func loopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
