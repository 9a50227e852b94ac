package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/cli/tasks"
)

var compileArgs = []string{"compile", "--from", "viking://resources/a,viking://resources/b", "--from", "viking://resources/c", "--to", "viking://resources/wiki", "--skill", "viking://agent/skills/wiki"}

func TestCompile(t *testing.T) {
	created := func(w http.ResponseWriter, _ *http.Request) { ok(w, 202, record("pending", "queued", "")) }
	tests := map[string]struct {
		arguments []string
		wantBody  string
		wantOut   string
	}{
		"prints the id alone": {
			wantBody: `{"from":["viking://resources/a","viking://resources/b","viking://resources/c"],"to":"viking://resources/wiki","skill":"viking://agent/skills/wiki"}`,
			wantOut:  taskID + "\n",
		},
		"keeps the text of numbers in args": {
			arguments: []string{"--args", ` {"n": 12345678901234567890, "e":1e2, "s":"<&>"} `, "--instruction", " do it "},
			wantBody:  `{"from":["viking://resources/a","viking://resources/b","viking://resources/c"],"to":"viking://resources/wiki","skill":"viking://agent/skills/wiki","instruction":"do it","args":{"n":12345678901234567890,"e":1e2,"s":"<&>"}}`,
			wantOut:   taskID + "\n",
		},
		"drops args without keys": {
			arguments: []string{"--args", "{ }", "-o", "name"},
			wantBody:  `{"from":["viking://resources/a","viking://resources/b","viking://resources/c"],"to":"viking://resources/wiki","skill":"viking://agent/skills/wiki"}`,
			wantOut:   "task/" + taskID + "\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := serve(t, created)
			got := runWith(t, keyEnv(f.URL), slices.Concat(compileArgs, test.arguments)...)
			if got.code != 0 {
				t.Fatalf("exit code %d: %s", got.code, got.err)
			}
			if diff := cmp.Diff(test.wantBody, strings.TrimSpace(f.bodies[0])); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if got.out != test.wantOut {
				t.Errorf("stdout %q, want %q", got.out, test.wantOut)
			}
			if diff := cmp.Diff([]string{"POST /api/v1/compile"}, f.seen()); diff != "" {
				t.Error(diff)
			}
			if key := f.requests[0].Header.Get("X-API-Key"); key != "sk-test" {
				t.Errorf("X-API-Key %q", key)
			}
		})
	}
}

func TestCompileRefusesBeforeAnyRequest(t *testing.T) {
	tests := map[string][]string{
		"args that are an array":      append(slices.Clone(compileArgs), "--args", "[1]"),
		"args that are a string":      append(slices.Clone(compileArgs), "--args", `"{}"`),
		"args that are null":          append(slices.Clone(compileArgs), "--args", "null"),
		"args that are no JSON":       append(slices.Clone(compileArgs), "--args", "{a:1}"),
		"args that end too early":     append(slices.Clone(compileArgs), "--args", `{"a":`),
		"args with something behind":  append(slices.Clone(compileArgs), "--args", `{"a":1} {}`),
		"no source":                   {"compile", "--from", " , ", "--to", "b", "--skill", "c"},
		"no target":                   {"compile", "--from", "a", "--skill", "c"},
		"no skill":                    {"compile", "--from", "a", "--to", "c"},
		"a short idempotency key":     append(slices.Clone(compileArgs), "--idempotency-key", "short"),
		"an unknown flag":             append(slices.Clone(compileArgs), "--reason", "x"),
		"an unknown format":           append(slices.Clone(compileArgs), "-o", "xml"),
		"an argument":                 append(slices.Clone(compileArgs), "x"),
		"an unknown command":          {"bogus"},
		"an unknown task command":     {"task", "bogus"},
		"a task id with a slash":      {"task", "get", "a/../b"},
		"a task id of dots":           {"task", "get", ".."},
		"a limit of nothing":          {"task", "list", "--limit", "0"},
		"an unknown status":           {"task", "list", "--status", "done"},
		"two ways to name the server": {"task", "list", "--server", "http://127.0.0.1:1", "--context", "c"},
		"two keys":                    {"task", "list", "--server", "http://127.0.0.1:1", "--api-key", "a", "--api-key-file", "b"},
		"a key without a server":      {"task", "list", "--kubeconfig", "x", "--api-key", "a"},
		"plain HTTP to elsewhere":     {"task", "list", "--server", "http://facade.example.com"},
		"a key that is two lines":     {"task", "list", "--server", "http://127.0.0.1:1", "--api-key", "a\nb"},
	}
	for name, arguments := range tests {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(w http.ResponseWriter, _ *http.Request) { ok(w, 202, record("pending", "queued", "")) })
			got := runWith(t, keyEnv(f.URL), arguments...)
			if got.code != 2 || strings.Count(got.err, "\n") != 1 {
				t.Errorf("exit code %d, want 2 and one line: %q", got.code, got.err)
			}
			if seen := f.seen(); len(seen) > 0 {
				t.Errorf("requests were made: %v", seen)
			}
		})
	}
}

// script answers a create, then each poll with the next record; ETags make polls
// conditional, as the facade's are.
func script(records ...string) http.HandlerFunc {
	var next atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			ok(w, 202, record("pending", "queued", ""))
			return
		}
		i := min(int(next.Add(1)), len(records)) - 1
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, i))
		if r.Header.Get("If-None-Match") == fmt.Sprintf(`"%d"`, i) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if records[i] == "" {
			refuse(w, 503, "UNAVAILABLE", "not now")
			return
		}
		ok(w, 200, records[i])
	}
}

func TestCompileWaits(t *testing.T) {
	running := record("running", "compile: agent", "")
	tests := map[string]struct {
		records  []string
		wantCode int
		wantErr  []string
	}{
		"completed": {
			records: []string{running, running, record("completed", "completed", "")},
			wantErr: []string{"[00:00] pending: queued", "[00:00] running: compile: agent", "[00:00] completed"},
		},
		"failed": {
			records: []string{record("failed", "agent", "MODEL: no\x1b[2J\nmore")}, wantCode: 10,
			wantErr: []string{"arctl: task " + taskID + " failed at stage agent: MODEL: no[2J more"},
		},
		"cancelled": {
			records: []string{record("cancelled", "cancelled", "")}, wantCode: 11,
			wantErr: []string{"arctl: task " + taskID + " was cancelled"},
		},
		"a failure of the server is waited out": {
			records: []string{running, "", "", record("completed", "salvaged", "")},
			wantErr: []string{"still trying: UNAVAILABLE: not now (request id req-1)", "[00:00] completed: salvaged"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := serve(t, script(test.records...))
			got := runWith(t, keyEnv(f.URL), append(slices.Clone(compileArgs), "--wait")...)
			if got.code != test.wantCode || got.out != taskID+"\n" {
				t.Errorf("exit code %d, want %d; stdout %q; stderr %q", got.code, test.wantCode, got.out, got.err)
			}
			for _, want := range test.wantErr {
				if !strings.Contains(got.err, want+"\n") {
					t.Errorf("stderr lacks %q:\n%s", want, got.err)
				}
			}
			if strings.ContainsAny(got.err, "\r\x1b") {
				t.Errorf("control characters where there is no terminal: %q", got.err)
			}
		})
	}
}

func TestCompileRewritesOneLineOnATerminal(t *testing.T) {
	f := serve(t, script(record("running", strings.Repeat("long ", 40), ""), record("completed", "completed", "")))
	p := keyEnv(f.URL)
	p.screen = tasks.Screen{Terminal: true, Width: 40}
	got := runWith(t, p, append(slices.Clone(compileArgs), "--wait", "-o", "json")...)
	if got.code != 0 || strings.Count(got.err, "\n") != 1 || strings.Count(got.err, "\r") != 3 {
		t.Errorf("exit code %d, stderr %q", got.code, got.err)
	}
	for line := range strings.SplitSeq(got.err, "\r") {
		if len(strings.TrimSuffix(line, "\x1b[K")) > 40 {
			t.Errorf("a line wraps: %q", line)
		}
	}
	if !strings.Contains(got.out, `"big": 12345678901234567890`) || strings.Contains(got.out, taskID+"\n") {
		t.Errorf("stdout %q", got.out)
	}
}

func TestWaitEndsBeforeTheTask(t *testing.T) {
	hold := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			ok(w, 202, record("pending", "queued", ""))
			return
		}
		<-r.Context().Done()
	}
	t.Run("by its timeout", func(t *testing.T) {
		f := serve(t, hold)
		got := runWith(t, keyEnv(f.URL), append(slices.Clone(compileArgs), "--wait", "--timeout", "50ms")...)
		if got.code != 12 || !strings.Contains(got.err, "the task goes on; follow it with: arctl task watch "+taskID) {
			t.Errorf("exit code %d: %s", got.code, got.err)
		}
	})
	t.Run("by Ctrl-C, without cancelling it", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				interrupt()
			}
			hold(w, r)
		})
		got := runIn(ctx, keyEnv(f.URL), append(slices.Clone(compileArgs), "--wait")...)
		if got.code != 130 || !strings.Contains(got.err, "the task goes on") {
			t.Errorf("exit code %d: %s", got.code, got.err)
		}
		if posts := strings.Count(strings.Join(f.seen(), "\n"), "POST"); posts != 1 {
			t.Errorf("%d POSTs, want the create alone: %v", posts, f.seen())
		}
	})
}
