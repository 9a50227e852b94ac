package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// bytePause is how long a slow client waits between two bytes.
	bytePause = 2 * time.Second
	// swarmRise is the time in which all of them come, and in which those come again
	// that the facade has cut off.
	swarmRise = 10 * time.Second
	// slowCallers have one slow body in five between them, each at most 64 at a
	// time, which is what one caller may have under way.
	slowCallers = 20
)

// slowKind is a way to keep a connection busy with nothing.
type slowKind struct {
	name string
	// plain is without TLS.
	plain bool
	// begin is sent at once, and slow byte by byte after it.
	begin, slow string
}

// slowKinds are those of which each slow client is one. The body that is announced
// would never end; of one that nobody wants, net/http itself waits for so much.
func slowKinds(key string) []slowKind {
	const endless = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 250000\r\n"
	post := "POST " + compilePath + " HTTP/1.1\r\n" + endless
	slowBody := `{"instruction":"` + strings.Repeat("slow ", 100)
	return []slowKind{
		// The first bytes of a TLS handshake: a record of 512 bytes is announced.
		{name: "handshake", plain: true, slow: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x55", 500)},
		{name: "header", begin: "GET " + taskPath + " HTTP/1.1\r\nHost: localhost\r\n", slow: "X-Slow: " + strings.Repeat("slow ", 100)},
		{name: "body of a stranger", begin: post + "\r\n", slow: slowBody},
		{name: "body of a caller", begin: post + "X-API-Key: " + key + "\r\n\r\n", slow: slowBody},
		{name: "silence", begin: "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"},
	}
}

// swarm is many slow clients. One that is cut off comes again.
type swarm struct {
	address string
	keys    []string
	// pace bounds how many come a second.
	pace *rate.Limiter

	standing, cut atomic.Int64
	running       sync.WaitGroup
	stop          context.CancelFunc
}

// startSwarm starts n slow clients, which come within swarmRise.
func startSwarm(ctx context.Context, base string, keys []string, n int) *swarm {
	ctx, cancel := context.WithCancel(ctx)
	// A tenth more than all of them within the rise, so that the number stands.
	comeBack := 1.1 * float64(n) / swarmRise.Seconds()
	s := &swarm{
		address: strings.TrimPrefix(base, "https://"), keys: keys,
		pace: rate.NewLimiter(rate.Limit(comeBack), 1), stop: cancel,
	}
	for i := range n {
		s.running.Go(func() { s.client(ctx, i) })
	}
	return s
}

func (s *swarm) close() {
	s.stop()
	s.running.Wait()
}

// client is one slow client, again and again.
func (s *swarm) client(ctx context.Context, i int) {
	kinds := slowKinds(s.keys[i/5%len(s.keys)])
	kind := kinds[i%len(kinds)]
	for s.pace.Wait(ctx) == nil {
		if s.once(ctx, kind) == nil {
			s.cut.Add(1)
		}
	}
}

// once is a slow client until it is cut off, which is no error.
func (s *swarm) once(ctx context.Context, kind slowKind) error {
	connection, err := s.connect(ctx, kind)
	if err != nil {
		return err
	}
	defer connection.Close()
	if _, err := connection.Write([]byte(kind.begin)); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	s.standing.Add(1)
	defer s.standing.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var reading sync.WaitGroup
	defer reading.Wait()
	// Whoever listens notices at once that they were cut off.
	reading.Go(func() { defer cancel(); readAll(connection) })
	defer connection.Close()
	trickle(ctx, connection, kind.slow)
	return nil
}

func (s *swarm) connect(ctx context.Context, kind slowKind) (net.Conn, error) {
	dialer := &net.Dialer{}
	if kind.plain {
		return dialer.DialContext(ctx, "tcp", s.address)
	}
	// Whom it speaks to does not matter to a client that wishes to do harm.
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}
	return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", s.address)
}

// readAll reads until the other side closes.
func readAll(connection net.Conn) {
	var buffer [512]byte
	for {
		if _, err := connection.Read(buffer[:]); err != nil {
			return
		}
	}
}

// trickle sends the text byte by byte and then nothing, until ctx ends.
func trickle(ctx context.Context, connection net.Conn, text string) {
	ticker := time.NewTicker(bytePause)
	defer ticker.Stop()
	for i := range len(text) {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if _, err := connection.Write([]byte{text[i]}); err != nil {
			return
		}
	}
	<-ctx.Done()
}
