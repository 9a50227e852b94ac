package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

type authenticatorFunc func(*http.Request) (access.Caller, error)

func (f authenticatorFunc) Authenticate(r *http.Request) (access.Caller, error) { return f(r) }

func user(name string, groups ...string) access.Caller {
	return access.Caller{User: v1alpha1.Requester{Username: name, Groups: groups}}
}

// Many bad credentials may wait for their turn to be asked about; none waits for ever.
func TestAuthenticationIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := Chain(http.NotFoundHandler(), Begin(false, nil),
			Authenticate(authenticatorFunc(func(r *http.Request) (access.Caller, error) {
				<-r.Context().Done()
				return access.Caller{}, &access.UnavailableError{Action: "review a token", Err: r.Context().Err()}
			})))
		answer, began := httptest.NewRecorder(), time.Now()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
		if took := time.Since(began); answer.Code != http.StatusServiceUnavailable || took != authenticateTime {
			t.Errorf("answered %d after %s", answer.Code, took)
		}
	})
}

func TestAuthenticateFailures(t *testing.T) {
	tests := map[string]struct {
		err        error
		wantStatus int
		wantCode   string
		wantText   string
		wantHeader map[string]string
	}{
		"a stranger":         {access.Invalid(errors.New("apikey-123 has expired")), 401, "UNAUTHENTICATED", "the credential is not valid", map[string]string{"WWW-Authenticate": "Bearer"}},
		"a refused identity": {fmt.Errorf("wrapped: %w", &access.ForbiddenError{Message: "not served here"}), 403, "PERMISSION_DENIED", "not served here", nil},
		"nobody can say":     {&access.UnavailableError{Action: "review a token", Err: errors.New("dial tcp 10.0.0.1")}, 503, "UNAVAILABLE", "can't be checked now", map[string]string{"Retry-After": "1"}},
		"a fault of ours":    {errors.New("secret detail"), 500, "INTERNAL", "Internal server error", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			handler := Chain(http.NotFoundHandler(), Begin(false, nil),
				Authenticate(authenticatorFunc(func(*http.Request) (access.Caller, error) { return access.Caller{}, test.err })))
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/", failingBody{t}))
			var body struct {
				Status string
				Error  struct{ Code, Message string }
			}
			if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			if answer.Code != test.wantStatus || body.Error.Code != test.wantCode || !strings.Contains(body.Error.Message, test.wantText) {
				t.Errorf("answered %d %s", answer.Code, answer.Body)
			}
			for _, hidden := range []string{"apikey-123", "10.0.0.1", "secret detail", "wrapped"} {
				if strings.Contains(answer.Body.String(), hidden) {
					t.Errorf("the answer shows %q: %s", hidden, answer.Body)
				}
			}
			for header, want := range test.wantHeader {
				if got := answer.Header().Get(header); got != want {
					t.Errorf("%s is %q, want %q", header, got, want)
				}
			}
		})
	}
}

// failingBody is a body that nobody may read.
type failingBody struct{ t *testing.T }

func (b failingBody) Read([]byte) (int, error) {
	b.t.Error("the body was read")
	return 0, io.EOF
}

func TestRecheck(t *testing.T) {
	tests := map[string]struct {
		second access.Caller
		err    error
		want   wire.Code
	}{
		"the same caller goes on, with their groups of now": {second: user("ann", "new")},
		"a revoked credential ends it":                      {err: access.Invalid(nil), want: wire.CodeUnauthenticated},
		"somebody else ends it":                             {second: user("bob"), want: wire.CodeUnauthenticated},
		"another namespace ends it":                         {second: access.Caller{User: user("ann").User, Namespace: "other"}, want: wire.CodeUnauthenticated},
		"nobody can say":                                    {err: &access.UnavailableError{Err: io.EOF}, want: wire.CodeUnavailable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			asked := 0
			authenticator := authenticatorFunc(func(*http.Request) (access.Caller, error) {
				if asked++; asked == 1 {
					return user("ann", "old"), nil
				}
				return test.second, test.err
			})
			handler := Chain(Answer(func(_ http.ResponseWriter, r *http.Request) error {
				info := httpapi.InfoOf(r.Context())
				err := info.Recheck(r.Context())
				if test.want == "" {
					if err != nil {
						t.Error(err)
					}
					if diff := cmp.Diff(test.second, info.Caller); diff != "" {
						t.Errorf("caller (-want +got):\n%s", diff)
					}
					return nil
				}
				if got := wire.AsError(err).Code; err == nil || got != test.want {
					t.Errorf("Recheck() = %v, want %s", err, test.want)
				}
				return nil
			}), Begin(false, nil), Authenticate(authenticator))
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		})
	}
}

func TestAnswer(t *testing.T) {
	t.Run("a client that has gone is answered nothing", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var x *exchange
		handler := Begin(false, nil)(Answer(func(_ http.ResponseWriter, r *http.Request) error {
			x = exchangeOf(r.Context())
			return r.Context().Err()
		}))
		answer := httptest.NewRecorder()
		defer func() {
			if got, _ := recover().(error); !errors.Is(got, http.ErrAbortHandler) || x.out.code() != statusClientGone || answer.Body.Len() != 0 {
				t.Errorf("panicked with %v, noted %d, answered %q", got, x.out.code(), answer.Body)
			}
		}()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	})
	t.Run("an answer that has begun is broken off", func(t *testing.T) {
		handler := Begin(false, nil)(Answer(func(w http.ResponseWriter, _ *http.Request) error {
			_, _ = w.Write([]byte("half"))
			return errors.New("no more")
		}))
		defer func() {
			if got, _ := recover().(error); !errors.Is(got, http.ErrAbortHandler) {
				t.Errorf("panicked with %v, want http.ErrAbortHandler", got)
			}
		}()
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	})
}
