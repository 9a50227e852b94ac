package compileapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

func TestMemoryOfLists(t *testing.T) {
	all := newAnswers()
	small := all.claim("alice")
	if err := small.reach(freeAnswerBytes); err != nil || all.used != 0 {
		t.Errorf("an ordinary list: %v, %d bytes", err, all.used)
	}
	first, second := all.claim("alice"), all.claim("alice")
	if err := first.reach(maxListBytes); err != nil {
		t.Fatalf("the first large list: %v", err)
	}
	if err := second.reach(maxCallerAnswerBytes); wire.AsError(err).Code != wire.CodeResourceExhausted {
		t.Errorf("more than a caller's share: %v", err)
	}
	var others []*claim
	for i := 0; all.used+2*maxListBytes <= maxAnswerBytes; i++ {
		other := all.claim(fmt.Sprint("bob", i))
		if err := other.reach(2 * maxListBytes); err != nil {
			t.Fatalf("other caller %d, %d bytes in use: %v", i, all.used, err)
		}
		others = append(others, other)
	}
	late := all.claim("carol")
	if err := late.reach(2 * maxListBytes); wire.AsError(err).Code != wire.CodeUnavailable {
		t.Errorf("more than there is: %v", err)
	}
	for _, one := range append(others, small, first, second, late) {
		one.release()
		one.release()
	}
	if all.used != 0 || len(all.callers) != 0 {
		t.Errorf("%d bytes, %d callers left", all.used, len(all.callers))
	}
	if err := late.reach(2 * maxAnswerBytes); err != nil {
		t.Errorf("one huge record with nothing else under way: %v", err)
	}
}

// stalled is a client that does not read on.
type stalled struct {
	http.ResponseWriter

	writing, resume chan struct{}
}

// Write implements http.ResponseWriter.
func (s stalled) Write(p []byte) (int, error) {
	close(s.writing)
	<-s.resume
	return len(p), nil
}

func TestAnswersThatNobodyReadsHoldTheirMemory(t *testing.T) {
	r := newRig(t)
	task := r.seed("one", becomes(v1alpha1.CompileTaskCompleted, "completed"))
	r.tasks.result = json.RawMessage(`{"a":"` + strings.Repeat("x", maxListBytes+maxListBytes/2) + `"}`)
	slow := stalled{ResponseWriter: httptest.NewRecorder(), writing: make(chan struct{}), resume: make(chan struct{})}
	ended := make(chan struct{})
	request := r.request(httpapi.WithInfo(t.Context(), &r.info), http.MethodGet, "/api/v1/tasks", "")
	go func() {
		defer close(ended)
		r.mux.ServeHTTP(slow, request)
	}()
	<-slow.writing
	for _, path := range []string{"/api/v1/tasks", "/api/v1/tasks/" + task.TaskID()} {
		got := r.call(http.MethodGet, path, "")
		if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "1" {
			t.Errorf("GET %s beside a list that is not read: %d %.200s, retry after %q", path, got.status, got.body, got.header.Get("Retry-After"))
		}
	}
	close(slow.resume)
	<-ended
	if got := r.listed(""); len(got) != 1 {
		t.Errorf("%d records once it was read, want 1", len(got))
	}
}
