package facade

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestHealth(t *testing.T) {
	f := newFixture(t)
	for target, want := range map[string]string{
		"/health": `{"status":"ok","healthy":true}`, "/healthz": `{"status":"ok"}`, "/livez": `{"status":"ok"}`,
	} {
		answer := f.do(http.MethodGet, target, "", "Authorization", "")
		if answer.Code != http.StatusOK || answer.Body.String() != want {
			t.Errorf("%s is answered %d %s", target, answer.Code, answer.Body)
		}
	}
}

func TestReady(t *testing.T) {
	tests := map[string]struct {
		change func(f *fixture, check *error)
		want   string
	}{
		"all holds":                  {func(*fixture, *error) {}, ""},
		"nothing is served yet":      {func(f *fixture, _ *error) { f.serving.Store(false) }, "listener"},
		"the server stops":           {func(f *fixture, _ *error) { f.unready.Store(true) }, "stopping"},
		"a check fails":              {func(_ *fixture, check *error) { *check = errors.New("Secret ns/name") }, "key ring"},
		"the API server was not met": {func(f *fixture, _ *error) { f.probe = &probe{} }, "API server"},
		"the API server was met long ago": {func(f *fixture, _ *error) {
			f.probe.reached, f.probe.err = time.Now().Add(-31*time.Second), errors.New("refused")
		}, "API server"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var check error
			f := newFixture(t, func(c *Config) {
				c.Checks = []Check{{Name: "key ring", Ready: func() error { return check }}}
			})
			f.serving.Store(true)
			f.probe.once(t.Context())
			test.change(f, &check)
			answer := f.do(http.MethodGet, "/readyz", "", "Authorization", "")
			if test.want == "" {
				if answer.Code != http.StatusOK {
					t.Errorf("answered %d %s", answer.Code, answer.Body)
				}
				return
			}
			got := decode(t, answer.Body.Bytes())
			if answer.Code != http.StatusServiceUnavailable || got.Error.Details["reason"] != test.want {
				t.Errorf("answered %d %s", answer.Code, answer.Body)
			}
			if strings.Contains(answer.Body.String(), "ns/name") {
				t.Errorf("the answer names objects: %s", answer.Body)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := errors.New("refused")
		var down atomic.Bool
		p := &probe{ping: func(context.Context) error {
			if down.Load() {
				return fault
			}
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.run(ctx) }()
		synctest.Wait()
		if err := p.ready(time.Now()); err != nil {
			t.Error(err)
		}
		down.Store(true)
		time.Sleep(29 * time.Second)
		if err := p.ready(time.Now()); err != nil {
			t.Errorf("not ready after 29 s: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := p.ready(time.Now()); !errors.Is(err, fault) {
			t.Errorf("ready after 31 s: %v", err)
		}
		down.Store(false)
		time.Sleep(10 * time.Second)
		if err := p.ready(time.Now()); err != nil {
			t.Errorf("not ready again: %v", err)
		}
		cancel()
		<-done
	})
}
