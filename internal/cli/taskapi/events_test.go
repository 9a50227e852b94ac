package taskapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func clientOf(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Base: base, RequestTimeout: 5 * time.Second})
}

func TestStream(t *testing.T) {
	const record = `{"task_id":"cmp_1","status":"running"}`
	tests := map[string]struct {
		text    string
		wantIDs []string
		wantEnd error
		failed  bool
	}{
		"heartbeats and unknown events are passed over": {
			text:    ": hi\n\nevent: other\ndata: x\n\nevent: task\nid: 1\ndata: " + record + "\n\n",
			wantIDs: []string{"1"}, wantEnd: io.EOF,
		},
		"lines may end with carriage returns, and data take several": {
			text:    "event:task\r\nid:7\r\ndata:{\"task_id\":\"cmp_1\",\r\ndata:\"status\":\"running\"}\r\n\r\n",
			wantIDs: []string{"7"}, wantEnd: io.EOF,
		},
		"a block that was cut is no event": {text: "event: task\nid: 1\ndata: {\"task", wantEnd: io.EOF},
		"a record that can't be read":      {text: "event: task\nid: 1\ndata: {}\n\n", failed: true},
		"a line without an end":            {text: "data: " + strings.Repeat("x", maxLine+1), failed: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, test.text)
			})
			stream, err := client.Events(t.Context(), "cmp_1", "")
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			for _, want := range test.wantIDs {
				event, err := stream.Next()
				if err != nil || event.ID != want || event.Task.Status != StatusRunning {
					t.Fatalf("%+v, %v", event, err)
				}
			}
			_, err = stream.Next()
			if test.failed && (err == nil || errors.Is(err, io.EOF)) || !test.failed && !errors.Is(err, test.wantEnd) {
				t.Errorf("end: %v", err)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		want   Error
	}{
		"the envelope": {403, `{"status":"error","error":{"code":"PERMISSION_DENIED","message":"no"}}`, Error{Code: "PERMISSION_DENIED", Message: "no"}},
		"a Status":     {403, `{"kind":"Status","message":"forbidden","reason":"Forbidden"}`, Error{Code: "PERMISSION_DENIED", Message: "forbidden", Kubernetes: true}},
		"no body":      {502, "", Error{Code: "UNAVAILABLE", Message: "HTTP 502 Bad Gateway"}},
		"a web page":   {404, "<html>", Error{Code: "NOT_FOUND", Message: "HTTP 404 Not Found"}},
		"a 200 that is none": {200, `{"status":"error","error":{"code":"INTERNAL","message":"oops"}}`,
			Error{Code: "INTERNAL", Message: "oops"}},
		"a web page with 200": {200, "<html>", Error{Code: "UNKNOWN", Message: "the server's answer is no JSON: is this the facade's address?"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			})
			_, err := client.Get(t.Context(), "cmp_1")
			got, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("%v", err)
			}
			test.want.Status = test.status
			if *got != test.want {
				t.Errorf("got %+v, want %+v", *got, test.want)
			}
		})
	}
}

func TestRequestsAreBounded(t *testing.T) {
	client := clientOf(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	client.options.RequestTimeout = time.Millisecond
	if _, err := client.Get(t.Context(), "cmp_1"); !IsTransient(err) || !errors.Is(err, errNoAnswer) {
		t.Errorf("get: %v", err)
	}
	if _, err := client.Events(t.Context(), "cmp_1", ""); !IsTransient(err) {
		t.Errorf("events: %v", err)
	}
}
