package middleware

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/facade/wire"
)

// Authenticator says who sent a request. Its errors are those of
// access.Authenticator.
type Authenticator interface {
	Authenticate(r *http.Request) (access.Caller, error)
}

// authenticateTime bounds the finding out who the caller is, the wait for a turn to
// ask included.
const authenticateTime = 15 * time.Second

// authenticateRetry is when to come back when nobody could say who the caller is.
const authenticateRetry = time.Second

// Authenticate lets in whom the authenticator knows, before a byte of the body is
// read, and notes who it is and how to ask again.
func Authenticate(authenticator Authenticator) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := exchangeOf(r.Context())
			caller, err := authenticate(authenticator, r)
			if err != nil {
				fail(w, r, accessError(err))
				return
			}
			x.info.Caller = caller
			x.info.Recheck = func(ctx context.Context) error { return recheck(ctx, authenticator, r, &x.info.Caller) }
			next.ServeHTTP(w, r)
		})
	}
}

func authenticate(authenticator Authenticator, r *http.Request) (access.Caller, error) {
	ctx, cancel := context.WithTimeout(r.Context(), authenticateTime)
	defer cancel()
	return authenticator.Authenticate(r.WithContext(ctx))
}

// recheck authenticates the request again and brings the caller up to date: what an
// answer that lasts is asked about next must not rest on a group that they have lost.
func recheck(ctx context.Context, authenticator Authenticator, r *http.Request, caller *access.Caller) error {
	again, err := authenticator.Authenticate(r.WithContext(ctx))
	if err != nil {
		return accessError(err)
	}
	if again.User.Username != caller.User.Username || again.User.UID != caller.User.UID || again.Namespace != caller.Namespace {
		return accessError(access.Invalid(errors.New("the credential now stands for somebody else")))
	}
	*caller = again
	return nil
}

// Namespace notes which namespace the request is for: the {namespace} of its path,
// or what access.ResolveNamespace finds instead.
func Namespace(defaultNamespace string) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := exchangeOf(r.Context())
			namespace, err := access.ResolveNamespace(r.PathValue("namespace"), x.info.Caller,
				r.Header.Values("X-OpenViking-Account"), defaultNamespace)
			if err != nil {
				fail(w, r, accessError(err))
				return
			}
			x.info.Namespace = namespace
			next.ServeHTTP(w, r)
		})
	}
}

// accessError is what a client is told of an error of the package access. The error
// stays within, for the log.
func accessError(err error) error {
	answer := wire.AsError(err)
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		answer = wire.Errorf(wire.CodeUnauthenticated, "%s", clientText(err))
	case errors.Is(err, access.ErrForbidden):
		answer = wire.Errorf(wire.CodePermissionDenied, "%s", clientText(err))
	case errors.Is(err, access.ErrInvalidNamespace):
		answer = wire.Errorf(wire.CodeInvalidArgument, "%s", clientText(err))
	case errors.Is(err, access.ErrUnavailable):
		answer = wire.Unavailable("the credential can't be checked now; try again later", "authentication", "unavailable")
		answer.RetryAfter = authenticateRetry
	}
	return fmt.Errorf("%w: %w", answer, err)
}

// clientText is the message for the client of an error of the package access,
// without what wraps it.
func clientText(err error) string {
	if unauthenticated, ok := errors.AsType[*access.UnauthenticatedError](err); ok {
		return unauthenticated.Message
	}
	if forbidden, ok := errors.AsType[*access.ForbiddenError](err); ok {
		return forbidden.Message
	}
	if invalid, ok := errors.AsType[*access.InvalidNamespaceError](err); ok {
		return invalid.Message
	}
	return "the request was refused"
}
