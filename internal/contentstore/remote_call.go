package contentstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/agentruntime/operator/internal/fileapi"
	"github.com/agentruntime/operator/internal/outbound"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

const (
	userAgent = "agentruntime-operator"
	// attempts bounds how often one call is sent: nothing that is only read does
	// harm when it is asked for twice.
	attempts = 2
	// maxRemoteCredential bounds a key or a token.
	maxRemoteCredential = 16 << 10
)

// request is a question about one URI.
type request struct {
	path  string
	query map[string]string
	// limit bounds the answer's body in bytes.
	limit int64
}

// get asks within the client's timeout. It asks a second time when the connection
// went wrong, or when the server refused a gateway token that has been replaced.
func (r *remoteReader) get(ctx context.Context, who Principal, uri viking.URI, q request) (fileapi.Answer, error) {
	callCtx, cancel := context.WithTimeout(ctx, r.remote.timeout)
	defer cancel()
	var sent string
	var refusal error
	for attempt := 1; ; attempt++ {
		token, err := r.remote.gatewayToken(callCtx)
		if err != nil {
			return fileapi.Answer{}, ended(ctx, uri, err)
		}
		if refusal != nil && token == sent {
			return fileapi.Answer{}, refusal
		}
		got, err := r.ask(callCtx, who, uri, q, token)
		switch {
		case err != nil && ctx.Err() != nil:
			return fileapi.Answer{}, ended(ctx, uri, err)
		case err != nil && callCtx.Err() != nil:
			return fileapi.Answer{}, unavailable(uri.String(), "no answer within "+r.remote.timeout.String())
		case err != nil && attempt < attempts && passing(err):
			continue
		case err != nil:
			return fileapi.Answer{}, asStoreError(uri, err)
		case got.gatewayRefused():
			r.remote.refused(token)
			sent, refusal = token, unavailable(uri.String(), "it refuses the operator's gateway token")
			if attempt < attempts {
				continue
			}
			return fileapi.Answer{}, refusal
		}
		return got.read(uri)
	}
}

// gatewayToken returns the token to show, "" when none is configured.
func (r *Remote) gatewayToken(ctx context.Context) (string, error) {
	if r.token == nil {
		return "", nil
	}
	token, err := r.token(ctx)
	token = strings.TrimSpace(token)
	if err == nil && !headerText(token) {
		err = errors.New("gateway token can't be sent in a header")
	}
	if err != nil {
		// The text is for users; the cause, for whoever runs the operator, stays
		// where only errors.As finds it.
		return "", &tokenError{cause: err}
	}
	return token, nil
}

// tokenError is a gateway token that can't be had. Its text says nothing of how the
// operator keeps the token.
type tokenError struct{ cause error }

func (*tokenError) Error() string   { return "the gateway token can't be read" }
func (e *tokenError) Unwrap() error { return e.cause }

// ask sends the question once and takes the whole answer.
func (r *remoteReader) ask(ctx context.Context, who Principal, uri viking.URI, q request, token string) (reply, error) {
	req, err := r.request(ctx, who, uri, q, token)
	if err != nil {
		return reply{}, err
	}
	resp, err := r.remote.pool.RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	defer closeQuietly(resp.Body)
	got := reply{
		status:  resp.StatusCode,
		gateway: token != "" && strings.EqualFold(resp.Header.Get(runtimeapi.HeaderGatewayChallenge), "true"),
	}
	got.body, err = io.ReadAll(io.LimitReader(resp.Body, q.limit+1))
	if err == nil && int64(len(got.body)) > q.limit {
		err = refuse(KindExhausted, uri.String(), "is more than can be taken in one answer")
	}
	return got, err
}

// request builds the request with the identity that the server gets to know (A.5).
func (r *remoteReader) request(ctx context.Context, who Principal, uri viking.URI, q request, token string) (*http.Request, error) {
	if token == "" && r.apiKey == "" {
		return nil, refuse(KindUnauthenticated, "", "the content store needs a credential, and the caller has none")
	}
	query := url.Values{fileapi.ParamURI: {uri.String()}}
	for name, value := range q.query {
		query.Set(name, value)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.remote.base+q.path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, refuse(KindInternal, uri.String(), "the request can't be built")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", userAgent)
	if r.apiKey != "" {
		if !headerText(r.apiKey) {
			return nil, refuse(KindUnauthenticated, "", "the caller's key can't be sent in a header")
		}
		req.Header.Set(runtimeapi.HeaderAPIKey, r.apiKey)
	}
	if token != "" {
		// A user who is nobody would be asked for as the operator itself.
		if !viking.ValidID(who.User) {
			return nil, refuse(KindInvalid, "", "user id is not valid")
		}
		req.Header.Set(runtimeapi.HeaderGatewayToken, token)
		req.Header.Set(runtimeapi.HeaderAccount, who.Account)
		req.Header.Set(runtimeapi.HeaderUser, who.User)
	}
	return req, nil
}

// headerText reports whether a credential is visible ASCII of a sane length.
func headerText(s string) bool {
	return s != "" && len(s) <= maxRemoteCredential &&
		strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
}

// passing reports whether a call that was not answered may be at the next try.
func passing(err error) bool {
	if _, ok := errors.AsType[*Error](err); ok {
		return false
	}
	switch outbound.Cause(err) {
	case outbound.CauseRefused, outbound.CauseReset, outbound.CauseClosed:
		return true
	}
	return false
}

// ended is the error of a call whose caller's time is over, else err's own.
func ended(ctx context.Context, uri viking.URI, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("ask the content store for %s: %w", uri, ctxErr)
	}
	return asStoreError(uri, err)
}

// asStoreError says why there was no answer, without an address.
func asStoreError(uri viking.URI, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if token, ok := errors.AsType[*tokenError](err); ok {
		return &Error{Kind: KindUnavailable, Path: uri.String(), Reason: unavailableReason, Err: token}
	}
	return unavailable(uri.String(), outbound.Cause(err))
}

const unavailableReason = "the content store can't be asked"

func unavailable(path, why string) *Error {
	return refuse(KindUnavailable, path, "%s: %s", unavailableReason, why)
}
