package executor

import (
	"bufio"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentruntime/operator/internal/outbound"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// rawServer reads one request of each connection and has answer do the rest.
func rawServer(t *testing.T, answer func(conn *net.TCPConn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
				if tcp, ok := conn.(*net.TCPConn); ok {
					answer(tcp)
				}
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return "http://" + listener.Addr().String()
}

func says(text string) func(*net.TCPConn) {
	return func(conn *net.TCPConn) { _, _ = io.WriteString(conn, text) }
}

// tlsServer starts a server and returns its URL and the PEM of its certificate.
func tlsServer(t *testing.T, change ...func(*tls.Config)) (address string, bundle []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(reply(200, `{"status":"running","stage":"q"}`))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	for _, f := range change {
		f(server.TLS)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, pemOf(server.Certificate().Raw)
}

func TestNetworkFailuresAreToldWithoutAddresses(t *testing.T) {
	t.Parallel()
	secure, bundle := tlsServer(t)
	guarded, guardedBundle := tlsServer(t, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert })
	plain := serve(t, reply(200, "{}")).URL
	reset := func(conn *net.TCPConn) { _ = conn.SetLinger(0) }
	tests := map[string]struct {
		url    string
		bundle []byte
		cause  string
	}{
		"reset after the request":     {url: rawServer(t, reset), cause: outbound.CauseReset},
		"an answer that is no HTTP":   {url: rawServer(t, says("220 mail at 10.0.0.5:25\r\n\r\n")), cause: outbound.CauseNotHTTP},
		"a broken chunk":              {url: rawServer(t, says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")), cause: outbound.CauseNotHTTP},
		"an unknown authority":        {url: secure, cause: outbound.CauseUntrusted},
		"a certificate of another":    {url: strings.Replace(secure, "127.0.0.1", "localhost", 1), bundle: bundle, cause: outbound.CauseWrongName},
		"a client certificate wanted": {url: guarded, bundle: guardedBundle, cause: outbound.CauseHandshake},
		"https to a plain port":       {url: strings.Replace(plain, "http:", "https:", 1), cause: outbound.CauseNotTLS},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, tc.url, func(c *HTTPConfig) { c.CABundle = tc.bundle })
			for range 2 {
				_, err := poll(t, client)
				wantError(t, err, Error{
					Op: OpPoll, Code: runtimeapi.CodeUnavailable, Transient: true,
					Message: "Failed to reach the compile kernel service: " + tc.cause,
				})
			}
		})
	}
}

func TestAHeldPollThatIsNotAnsweredReadsTheSameWhateverItsWait(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	client := newClient(t, serve(t, drained(hang)).URL, func(c *HTTPConfig) { c.RequestTimeout = 50 * time.Millisecond })
	_, err := client.Poll(t.Context(), PollRequest{Identity: testIdentity, SessionID: "s", Wait: time.Second})
	wantError(t, err, Error{
		Op: OpPoll, Code: runtimeapi.CodeUnavailable, Transient: true,
		Message: "Failed to reach the compile kernel service: no answer within 50ms",
	})
}
