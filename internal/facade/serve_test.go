package facade

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentruntime/operator/internal/facade/middleware"
)

func noCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.New("this test has none")
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// running is a server on a listener of its own.
type running struct {
	*fixture

	address string
	client  *http.Client
	stop    context.CancelFunc
	stopped chan error
}

// start serves until the test ends. What Serve returns is sent to stopped.
func start(t *testing.T, changes ...func(*Config)) *running {
	t.Helper()
	r := &running{fixture: newFixture(t, changes...), stopped: make(chan error, 1)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = listener.Addr().String()
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, Certificates: nil},
		ForceAttemptHTTP2: true,
	}
	r.client = &http.Client{Transport: transport}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	served := make(chan struct{})
	go func() { defer close(served); r.stopped <- r.Serve(ctx, listener) }()
	t.Cleanup(func() { stop(); <-served; transport.CloseIdleConnections() })
	return r
}

func (r *running) request(t *testing.T, method, path string, body io.Reader) *http.Request {
	t.Helper()
	scheme := "https"
	if r.config.InsecureHTTP {
		scheme = "http"
	}
	request, err := http.NewRequestWithContext(t.Context(), method, scheme+"://"+r.address+path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer ann")
	return request
}

func (r *running) get(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := r.client.Do(r.request(t, http.MethodGet, path, nil))
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// withTLS serves a certificate of the test's own.
func withTLS(t *testing.T) func(*Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "facade"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
	return func(c *Config) {
		c.InsecureHTTP = false
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil }
	}
}

func TestServeTLS(t *testing.T) {
	r := start(t, withTLS(t))
	// More than a connection may send ahead.
	sent := strings.Repeat("hello", 100_000)
	response, err := r.client.Do(r.request(t, http.MethodPost, "/api/v1/things/", strings.NewReader(sent)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if response.ProtoMajor != 2 || response.StatusCode != http.StatusOK || decode(t, body).Result.Body != sent {
		t.Errorf("answered %s %d %.100s", response.Proto, response.StatusCode, body)
	}
	old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	if connection, err := tls.Dial("tcp", r.address, old); err == nil {
		connection.Close()
		t.Error("TLS 1.1 is accepted")
	}
}

func TestAggregatedServerAsksForACertificate(t *testing.T) {
	r := start(t, aggregated, withTLS(t))
	asked := false
	config := &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		return &tls.Certificate{}, nil
	}}
	connection, err := tls.Dial("tcp", r.address, config)
	if err != nil {
		t.Fatal(err)
	}
	connection.Close()
	if !asked {
		t.Error("no certificate was asked for")
	}
}

func TestPlainHTTPIsForLoopbackOnly(t *testing.T) {
	f := newFixture(t)
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Serve(t.Context(), listener); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("Serve() = %v", err)
	}
	if f.serving.Load() {
		t.Error("it says that it serves")
	}
}

func TestLargeTokensPass(t *testing.T) {
	r := start(t)
	request := r.request(t, http.MethodGet, "/api/v1/things", nil)
	request.Header.Set("Authorization", "Bearer "+strings.Repeat("x", 16<<10))
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("a token of 16 KiB is answered %d", response.StatusCode)
	}
}

func TestCancelledClient(t *testing.T) {
	for name, path := range map[string]string{"a wait": "/api/v1/wait", "a stream": "/api/v1/stream"} {
		t.Run(name, func(t *testing.T) {
			r := start(t)
			ctx, cancel := context.WithCancel(t.Context())
			request := r.request(t, http.MethodGet, path, nil).WithContext(ctx)
			go func() {
				response, err := r.client.Do(request)
				if err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
			}()
			<-r.backend.entered
			cancel()
			if err := <-r.backend.ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the handler ended with %v", err)
			}
		})
	}
}

// A client that sends its body too slowly, or never, is answered and cut off; so is
// a stranger, of whose body nothing is wanted.
func TestSlowBodies(t *testing.T) {
	tests := map[string]struct {
		token, sent string
		wantStatus  int
	}{
		"of a caller who sends a part":    {"ann", "01234", 400},
		"of a caller who sends nothing":   {"ann", "", 400},
		"of a stranger who sends nothing": {"wrong", "", 401},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := start(t, func(c *Config) { c.Times.Body = 50 * time.Millisecond })
			connection, err := net.Dial("tcp", r.address)
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			fmt.Fprintf(connection, "POST /api/v1/things HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 10\r\n\r\n%s", test.token, test.sent)
			if err := connection.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(connection)
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			if response.StatusCode != test.wantStatus {
				t.Errorf("answered %d %s", response.StatusCode, body)
			}
			if _, err := reader.ReadByte(); err != io.EOF {
				t.Errorf("the connection is still open: %v", err)
			}
		})
	}
}

func TestSlowBodyOverHTTP2(t *testing.T) {
	r := start(t, withTLS(t), func(c *Config) { c.Times.Body = 50 * time.Millisecond })
	body, feed := io.Pipe()
	defer feed.Close()
	go func() { _, _ = feed.Write([]byte("01234")) }()
	response, err := r.client.Do(r.request(t, http.MethodPost, "/api/v1/things", body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(response.Body)
	if response.ProtoMajor != 2 || response.StatusCode != http.StatusBadRequest || !strings.Contains(string(answer), "in time") {
		t.Errorf("answered %s %d %s", response.Proto, response.StatusCode, answer)
	}
	// The connection goes on.
	if code, _ := r.get(t, "/api/v1/things"); code != http.StatusOK {
		t.Errorf("the next request is answered %d", code)
	}
}

// The bound on a body must not end a request whose body has come, on this or the
// next request of the connection.
func TestLongRequestsOutliveTheBodyBound(t *testing.T) {
	r := start(t, func(c *Config) { c.Times.Body = 30 * time.Millisecond })
	request := r.request(t, http.MethodPost, "/api/v1/things", strings.NewReader("hello"))
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	answered := make(chan int, 1)
	go func() {
		code, _ := r.get(t, "/api/v1/wait")
		answered <- code
	}()
	<-r.backend.entered
	select {
	case err := <-r.backend.ended:
		t.Fatalf("the request ended with %v", err)
	case <-time.After(120 * time.Millisecond):
	}
	close(r.backend.release)
	if code := <-answered; code != http.StatusOK {
		t.Errorf("answered %d", code)
	}
}

func TestRequestTimeout(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Times.Request = 20 * time.Millisecond })
	answer := f.do(http.MethodGet, "/api/v1/wait", "")
	if got := decode(t, answer.Body.Bytes()); answer.Code != http.StatusGatewayTimeout || got.Error.Code != "DEADLINE_EXCEEDED" {
		t.Errorf("answered %d %s", answer.Code, answer.Body)
	}
}

// A connection that is bounded as the request is would have no time for the answer.
func TestRequestTimeoutIsTold(t *testing.T) {
	tests := map[string][]func(*Config){
		"over HTTP/1": nil,
		"over HTTP/2": {withTLS(t)},
	}
	for name, options := range tests {
		t.Run(name, func(t *testing.T) {
			r := start(t, append(options, func(c *Config) { c.Times.Request = 20 * time.Millisecond })...)
			if code, body := r.get(t, "/api/v1/wait"); code != http.StatusGatewayTimeout {
				t.Errorf("answered %d %s", code, body)
			}
		})
	}
}

func TestInFlightOfOneCaller(t *testing.T) {
	r := start(t, func(c *Config) { c.Limits = middleware.Limits{InFlight: 1} })
	first := make(chan int, 1)
	go func() {
		code, _ := r.get(t, "/api/v1/wait")
		first <- code
	}()
	<-r.backend.entered
	if code, body := r.get(t, "/api/v1/things"); code != http.StatusTooManyRequests {
		t.Errorf("a second request is answered %d %s", code, body)
	}
	if answer := r.do(http.MethodGet, "/api/v1/things", "", "Authorization", "Bearer bob"); answer.Code != http.StatusOK {
		t.Errorf("another caller is answered %d", answer.Code)
	}
	close(r.backend.release)
	if code := <-first; code != http.StatusOK {
		t.Errorf("the first is answered %d", code)
	}
}

func TestDrain(t *testing.T) {
	r := start(t, func(c *Config) { c.Times.DrainDelay = 100 * time.Millisecond })
	eventually(t, func() bool { code, _ := r.get(t, "/readyz"); return code == http.StatusOK })
	type answer struct {
		code int
		body string
	}
	stream, wait := make(chan answer, 1), make(chan answer, 1)
	for path, to := range map[string]chan answer{"/api/v1/stream": stream, "/api/v1/wait": wait} {
		go func() {
			code, body := r.get(t, path)
			to <- answer{code, body}
		}()
		<-r.backend.entered
	}
	r.stop()
	eventually(t, func() bool { return r.Ready() != nil })
	if code, body := r.get(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "stopping") {
		t.Errorf("while it waits for being noticed, /readyz is %d %s", code, body)
	}
	if code, _ := r.get(t, "/api/v1/things"); code != http.StatusOK {
		t.Errorf("while it waits for being noticed, requests are answered %d", code)
	}
	if got := <-stream; got.code != http.StatusOK || got.body != "drained" {
		t.Errorf("the stream ended with %d %q", got.code, got.body)
	}
	close(r.backend.release)
	if got := <-wait; got.code != http.StatusOK {
		t.Errorf("the request under way was answered %d %s", got.code, got.body)
	}
	if err := <-r.stopped; err != nil {
		t.Errorf("Serve() = %v", err)
	}
	if connection, err := net.Dial("tcp", r.address); err == nil {
		connection.Close()
		t.Error("the listener is still open")
	}
}

func TestDrainCutsOffWhatOutlastsIt(t *testing.T) {
	r := start(t, func(c *Config) { c.Times.Drain = 20 * time.Millisecond })
	cut := make(chan int, 1)
	go func() {
		code, _ := r.get(t, "/api/v1/wait")
		cut <- code
	}()
	<-r.backend.entered
	r.stop()
	if err := <-r.stopped; err != nil {
		t.Errorf("Serve() = %v", err)
	}
	if code := <-cut; code != 0 {
		t.Errorf("the request was answered %d", code)
	}
}

func TestServeReportsABrokenListener(t *testing.T) {
	f := newFixture(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := f.Serve(t.Context(), listener); err == nil {
		t.Error("Serve() = nil")
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := newFixture(t).config
	tests := map[string]struct {
		change func(*Config)
		want   string
	}{
		"no routes":                  {func(c *Config) { c.Routes = nil }, "routes"},
		"no authenticator":           {func(c *Config) { c.Authenticator = nil }, "authenticator"},
		"no ping":                    {func(c *Config) { c.Ping = nil }, "ping"},
		"no certificate":             {func(c *Config) { c.InsecureHTTP = false }, "certificate"},
		"aggregated over plain HTTP": {func(c *Config) { aggregated(c); c.InsecureHTTP = true }, "plain HTTP"},
		"aggregated without groups": {func(c *Config) {
			aggregated(c)
			c.Aggregated.Groups = nil
		}, "groups"},
		"a bad origin": {func(c *Config) { c.AllowedOrigins = []string{"example.com"} }, "origin"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config := good
			test.change(&config)
			if _, err := New(config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New() = %v, want an error about %s", err, test.want)
			}
		})
	}
}

// eventually waits for what happens elsewhere.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatal("it does not come about")
		case <-tick.C:
		}
	}
}
