package compileapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

// wiretap is a client's end of a stream.
type wiretap struct {
	mu       sync.Mutex
	header   http.Header
	status   int
	text     strings.Builder
	deadline time.Time
	// stuck makes the client stop reading: writes then fail at their deadline.
	stuck bool
}

func (w *wiretap) Header() http.Header    { return w.header }
func (w *wiretap) WriteHeader(status int) { w.status = status }
func (w *wiretap) Flush()                 {}

func (w *wiretap) SetWriteDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = at
	return nil
}

func (w *wiretap) Write(body []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stuck {
		time.Sleep(time.Until(w.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	return w.text.Write(body)
}

// take returns what came since it was called last.
func (w *wiretap) take() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.text.String()
	w.text.Reset()
	return text
}

// watch opens a stream; done is closed when it ends.
func (r *rig) watch(ctx context.Context, task *v1alpha1.CompileTask, headers ...string) (tap *wiretap, done chan struct{}) {
	tap, done = &wiretap{header: http.Header{}}, make(chan struct{})
	info := r.info
	request := r.request(httpapi.WithInfo(ctx, &info), http.MethodGet, "/api/v1/tasks/"+task.TaskID()+"/events", "", headers...)
	go func() {
		defer close(done)
		r.mux.ServeHTTP(tap, request)
	}()
	return tap, done
}

// brief shows a stream as "name:id:stage" for each event, and comments.
func brief(t *testing.T, text string) []string {
	t.Helper()
	out := []string{}
	for block := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		fields := map[string]string{}
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			fields[name] = value
		}
		one := fields["event"] + ":" + fields["id"]
		if comment, ok := fields[""]; ok {
			one = "#" + comment
		}
		for _, key := range []string{`"stage":"`, `"code":"`} {
			if _, rest, ok := strings.Cut(fields["data"], key); ok {
				value, _, _ := strings.Cut(rest, `"`)
				one += ":" + value
			}
		}
		if block != "" {
			out = append(out, one)
		}
	}
	return out
}

func ended(done <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func expect(t *testing.T, tap *wiretap, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, brief(t, tap.take())); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
}

func stageTo(stage string) func(*v1alpha1.CompileTask) {
	return func(task *v1alpha1.CompileTask) { task.Status.Stage = stage }
}

func TestStreamOfATaskUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		task := r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent"))
		tap, done := r.watch(t.Context(), task)
		expect(t, tap, "#open", "task:1:agent")
		if tap.status != http.StatusOK || tap.header.Get("Content-Type") != "text/event-stream" || tap.header.Get("Cache-Control") != "no-store" {
			t.Errorf("status %d, header %v", tap.status, tap.header)
		}
		r.tasks.change(task, stageTo("writing"))
		expect(t, tap, "task:2:writing")
		r.tasks.change(task, func(task *v1alpha1.CompileTask) { task.Finalizers = []string{"a/b"} })
		expect(t, tap)
		r.tasks.change(task, becomes(v1alpha1.CompileTaskCompleted, "completed"))
		expect(t, tap, "task:4:completed", "end:4")
		if !ended(done) || tap.deadline.IsZero() {
			t.Errorf("ended %t, the deadline for the answer's end is %s", ended(done), tap.deadline)
		}
	})
}

func TestStreamDataIsTheRecordInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		task := r.seed("one", func(task *v1alpha1.CompileTask) {
			becomes(v1alpha1.CompileTaskFailed, "agent")(task)
			task.Status.Error = &v1alpha1.TaskError{Code: "X", Message: "two\nlines\r\nevent: forged"}
		})
		tap, done := r.watch(t.Context(), task)
		<-done
		record := strings.TrimSuffix(strings.TrimPrefix(r.call(http.MethodGet, "/api/v1/tasks/"+task.TaskID(), "").body, `{"status":"ok","result":`), "}")
		want := ": open\n\nevent: task\nid: 1\ndata: " + record + "\n\nevent: end\nid: 1\ndata: {}\n\n"
		if diff := cmp.Diff(want, tap.take()); diff != "" {
			t.Errorf("stream (-want +got):\n%s", diff)
		}
	})
}

func TestStreamResumes(t *testing.T) {
	cases := map[string]struct {
		last     string
		terminal bool
		want     []string
	}{
		"at the version it has":      {last: "3", want: []string{"#open"}},
		"at an older one":            {last: "2", want: []string{"#open", "task:3:agent"}},
		"at a newer one":             {last: "30", want: []string{"#open"}},
		"at what is no version":      {last: "x", want: []string{"#open", "task:3:agent"}},
		"after the end, not seen":    {last: "2", terminal: true, want: []string{"#open", "task:3:completed", "end:3"}},
		"after the end, seen before": {last: "3", terminal: true, want: []string{"#open", "end:3"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				r := newRig(t)
				task := r.seed("one", nil)
				r.tasks.change(task, stageTo("x"))
				phase, stage := v1alpha1.CompileTaskRunning, "agent"
				if tc.terminal {
					phase, stage = v1alpha1.CompileTaskCompleted, "completed"
				}
				r.tasks.change(task, becomes(phase, stage))
				tap, done := r.watch(ctx, task, "Last-Event-ID", tc.last)
				expect(t, tap, tc.want...)
				if ended(done) != tc.terminal {
					t.Errorf("ended %t", !tc.terminal)
				}
				cancel()
				<-done
			})
		})
	}
}

func TestStreamShowsThatItLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t)
		tap, done := r.watch(ctx, r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent")))
		expect(t, tap, "#open", "task:1:agent")
		time.Sleep(14 * time.Second)
		expect(t, tap)
		time.Sleep(17 * time.Second)
		expect(t, tap, "#heartbeat", "#heartbeat")
		cancel()
		<-done
		synctest.Wait()
		if len(r.tasks.watchers["docs/one"]) != 0 {
			t.Error("a watch is left")
		}
	})
}

func TestStreamEnds(t *testing.T) {
	revoked := wire.Errorf(wire.CodeUnauthenticated, "revoked")
	cases := map[string]struct {
		caller string
		act    func(*rig, *v1alpha1.CompileTask)
		// within bounds how long after act it ends.
		within time.Duration
		want   []string
	}{
		"when own is revoked":     {act: func(r *rig, _ *v1alpha1.CompileTask) { r.rights.set("alice get own", false) }, within: 5 * time.Second, want: []string{"error::NOT_FOUND"}},
		"when any is revoked":     {caller: "root", act: func(r *rig, _ *v1alpha1.CompileTask) { r.rights.set("root get any", false) }, within: 5 * time.Second, want: []string{"error::NOT_FOUND"}},
		"when nobody can say":     {act: func(r *rig, _ *v1alpha1.CompileTask) { r.rights.fail(errors.New("down")) }, within: 15 * time.Second, want: []string{"error::UNAVAILABLE"}},
		"when the task is gone":   {act: func(r *rig, task *v1alpha1.CompileTask) { r.tasks.remove(task) }, want: []string{"error::NOT_FOUND"}},
		"when a result is broken": {act: breakResult, want: []string{"error::UNAVAILABLE"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				task := r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent"))
				if tc.caller != "" {
					r = r.as(tc.caller)
				}
				tap, done := r.watch(t.Context(), task)
				expect(t, tap, "#open", "task:1:agent")
				began := time.Now()
				tc.act(r, task)
				<-done
				if took := time.Since(began); took > tc.within {
					t.Errorf("ended after %s, want within %s", took, tc.within)
				}
				got := slices.DeleteFunc(brief(t, tap.take()), func(one string) bool { return one == "#heartbeat" })
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("stream (-want +got):\n%s", diff)
				}
			})
		})
	}
	t.Run("when the credential is revoked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			checks := 0
			r.info.Recheck = func(context.Context) error {
				if checks++; checks > 1 {
					return fmt.Errorf("recheck: %w", revoked)
				}
				return nil
			}
			began := time.Now()
			tap, done := r.watch(t.Context(), r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent")))
			<-done
			if took := time.Since(began); took != 10*time.Second {
				t.Errorf("ended after %s", took)
			}
			expect(t, tap, "#open", "task:1:agent", "error::UNAUTHENTICATED")
		})
	})
}

func TestStreamEndsWhenItsChecksHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.info.Recheck = func(ctx context.Context) error {
			<-ctx.Done()
			return wire.Unavailable("hangs", "authentication", "unavailable")
		}
		began := time.Now()
		_, done := r.watch(t.Context(), r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent")))
		<-done
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("ended after %s", took)
		}
	})
}

// breakResult ends the task while its result can't be read now.
func breakResult(r *rig, task *v1alpha1.CompileTask) {
	r.tasks.resultErr = context.DeadlineExceeded
	r.tasks.change(task, becomes(v1alpha1.CompileTaskCompleted, "completed"))
}

func TestStreamBearsAShortOutageOfChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t)
		_, done := r.watch(ctx, r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent")))
		// Checks are at multiples of 5 s; two of four fail.
		time.Sleep(time.Second)
		for range 5 {
			r.rights.fail(errors.New("down"))
			time.Sleep(11 * time.Second)
			r.rights.fail(nil)
			time.Sleep(9 * time.Second)
		}
		if ended(done) {
			t.Error("the stream ended")
		}
		cancel()
		<-done
	})
}

func TestStreamEndsSilentlyWhenTheServerDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		draining := make(chan struct{})
		r.info.Draining = draining
		tap, done := r.watch(t.Context(), r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent")))
		expect(t, tap, "#open", "task:1:agent")
		close(draining)
		<-done
		expect(t, tap)
	})
}

func TestStreamCutsOffAReaderThatDoesNotKeepUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		task := r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent"))
		tap, done := r.watch(t.Context(), task)
		expect(t, tap, "#open", "task:1:agent")
		tap.mu.Lock()
		tap.stuck = true
		tap.mu.Unlock()
		began := time.Now()
		r.tasks.change(task, stageTo("writing"))
		<-done
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("cut off after %s", took)
		}
	})
}
