package executor

import (
	"bufio"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"testing"
)

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// killer answers the first request of each connection and, on a reused one, reads
// the whole second request and closes without a word. That is when net/http sends
// a request again if it believes it may.
type killer struct {
	listener net.Listener
	requests chan string
}

func newKiller(t *testing.T) *killer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &killer{listener: listener, requests: make(chan string, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go k.serve(conn)
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return k
}

func (k *killer) serve(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for first := true; ; first = false {
		req, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		k.requests <- req.URL.Path
		if !first {
			return
		}
		const body = `{"session_id":"s-1","status":"running","stage":"q"}`
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 51\r\n\r\n"+body); err != nil {
			return
		}
	}
}

func TestARequestIsNeverSentTwice(t *testing.T) {
	t.Parallel()
	calls := map[string]func(*HTTP) error{
		"submit": func(c *HTTP) error {
			_, err := c.Submit(t.Context(), SubmitRequest{Identity: testIdentity, Key: testKey})
			return err
		},
		"poll": func(c *HTTP) error {
			_, err := c.Poll(t.Context(), PollRequest{SessionID: "s-1"})
			return err
		},
		"cancel": func(c *HTTP) error {
			_, err := c.Cancel(t.Context(), CancelRequest{SessionID: "s-1"})
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKiller(t)
			client := newClient(t, "http://"+k.listener.Addr().String())
			if err := call(client); err != nil {
				t.Fatalf("first call: %v", err)
			}
			if err := call(client); !IsTransient(err) {
				t.Fatalf("second call = %v, want a transient error", err)
			}
			if got := len(k.requests); got != 2 {
				t.Errorf("%d requests reached the server for 2 calls", got)
			}
		})
	}
}

func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen[r.RemoteAddr] = true
		if r.URL.Path == "/runtime/v1/tasks/cancel" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, `{"status":"running","stage":"q"}`)
	})
	client := newClient(t, server.URL)
	for range 10 {
		if _, err := poll(t, client); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Cancel(t.Context(), CancelRequest{SessionID: "s"}); !IsTransient(err) {
			t.Fatal(err)
		}
	}
	if len(seen) != 1 {
		t.Errorf("%d connections for 20 calls, want 1", len(seen))
	}
}
