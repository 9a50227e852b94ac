package contentstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agentruntime/operator/internal/fileapi"
	"github.com/agentruntime/operator/internal/outbound"
	"github.com/agentruntime/operator/internal/viking"
)

const (
	// DefaultRemoteTimeout bounds one call of a Remote.
	DefaultRemoteTimeout = 5 * time.Second

	maxRemoteConns     = 64
	maxIdleRemoteConns = 16
)

// RemoteConfig says how a server of the file API is reached.
type RemoteConfig struct {
	// BaseURL is an http or https URL with a host and at most a path, which is
	// kept as a prefix.
	BaseURL string
	// CABundle holds PEM certificates that replace the system's roots when set.
	CABundle []byte
	// Timeout bounds each call, repeats included; 0 means DefaultRemoteTimeout.
	Timeout time.Duration
	// GatewayToken, when set, gives the operator's own credential. It is sent with
	// the account and the user that a call is for.
	GatewayToken func(ctx context.Context) (string, error)
	// GatewayRefused, when set, is told of each token that the server refused, so
	// that GatewayToken does not give it again. It must not block.
	GatewayRefused func(token string)
}

// Remote is the files of a server of OpenViking's file API. It owns no goroutine.
// Redirects are not followed.
type Remote struct {
	base    string
	timeout time.Duration
	token   func(ctx context.Context) (string, error)
	refused func(token string)
	pool    *http.Transport
}

// NewRemote returns a client of the server at cfg.BaseURL. It makes no call; an
// error names the field at fault and shows none of its value.
func NewRemote(cfg RemoteConfig) (*Remote, error) {
	base, err := outbound.ParseBaseURL(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("content store URL: %w", err)
	}
	roots, err := outbound.TLSConfig(cfg.CABundle)
	if err != nil {
		return nil, fmt.Errorf("content store CA bundle: %w", err)
	}
	if cfg.Timeout < 0 {
		return nil, errors.New("content store timeout: must not be negative")
	}
	r := &Remote{base: base, timeout: cfg.Timeout, token: cfg.GatewayToken, refused: cfg.GatewayRefused}
	if r.timeout == 0 {
		r.timeout = DefaultRemoteTimeout
	}
	if r.refused == nil {
		r.refused = func(string) {}
	}
	r.pool = outbound.NewTransport(roots, r.timeout, maxRemoteConns, maxIdleRemoteConns)
	return r, nil
}

// Close lets go of idle connections. Calls made afterwards, by whoever still holds
// the client, work; the connections they leave close when they have been idle.
func (r *Remote) Close() { r.pool.CloseIdleConnections() }

// For returns the files as they are shown to the holder of an API key, which is sent
// as X-API-Key; without one, the operator's own credential speaks for the caller.
func (r *Remote) For(apiKey string) Reader {
	return &remoteReader{remote: r, apiKey: strings.TrimSpace(apiKey)}
}

// remoteReader is a Remote with a caller's key. It shows the key in no form.
type remoteReader struct {
	remote *Remote
	apiKey string
}

var _ Reader = (*remoteReader)(nil)

// Format hides the key under every verb.
func (r *remoteReader) Format(state fmt.State, _ rune) {
	_, _ = fmt.Fprint(state, "content store reader")
}

// Stat implements [Reader].
func (r *remoteReader) Stat(ctx context.Context, who Principal, uri viking.URI) (Info, error) {
	at, err := readLocation(ctx, who, uri)
	if err != nil {
		return Info{}, err
	}
	answer, err := r.get(ctx, who, at.uri, request{path: fileapi.PathStat, limit: fileapi.MaxListBytes})
	if err != nil {
		return Info{}, err
	}
	entry, err := answer.Entry()
	if err != nil {
		return Info{}, notTheAPI(at.uri.String())
	}
	info := Info{URI: at.uri.String(), Dir: entry.IsDir}
	if !entry.IsDir {
		info.Size = entry.Size
	}
	return info, nil
}

// readOverhead is what an answer may hold beside the text of a file, and
// bytesPerByte how long one of the text's bytes may be in JSON: \u0000.
const (
	readOverhead = 64 << 10
	bytesPerByte = 6
)

// Read implements [Reader]. A limit above fileapi.MaxReadBytes is taken for that, and
// a file that is not UTF-8 text is KindInvalid: the API has no form for it.
func (r *remoteReader) Read(ctx context.Context, who Principal, uri viking.URI, limit int64) ([]byte, error) {
	at, err := readLocation(ctx, who, uri)
	if err != nil {
		return nil, err
	}
	limit = min(max(limit, 0), fileapi.MaxReadBytes)
	answer, err := r.get(ctx, who, at.uri, request{
		path:  fileapi.PathRead,
		query: map[string]string{fileapi.ParamRaw: "true"},
		limit: bytesPerByte*limit + readOverhead,
	})
	if err != nil {
		return nil, err
	}
	text, err := answer.Text()
	if err != nil {
		return nil, notTheAPI(at.uri.String())
	}
	if int64(len(text)) > limit {
		return nil, refuse(KindExhausted, at.uri.String(), "is larger than %d bytes", limit)
	}
	return []byte(text), nil
}
