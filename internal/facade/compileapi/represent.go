package compileapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

// etagBytes of a SHA-256 are enough to tell a record's states apart.
const etagBytes = 18

// representation is the whole answer about one task.
type representation struct {
	body     []byte
	etag     string
	terminal bool
}

// represent encodes a task. Equal records have equal ETags, whatever else changes of
// the object.
func (a *API) represent(ctx context.Context, task *v1alpha1.CompileTask) (representation, error) {
	fields, err := a.record(ctx, task)
	if err != nil {
		return representation{}, err
	}
	body, err := wire.EncodeOK(fields)
	if err != nil {
		return representation{}, err
	}
	sum := sha256.Sum256(body)
	etag := `"` + base64.RawURLEncoding.EncodeToString(sum[:etagBytes]) + `"`
	return representation{body: body, etag: etag, terminal: task.Terminal()}, nil
}

// show writes what was asked for, within the caller's share of memory. What a write
// has changed is answered without, for it can't be refused any more.
func (a *API) show(w http.ResponseWriter, info *httpapi.Info, status int, current representation) error {
	memory := a.answers.claim(info.Caller.User.Username)
	defer memory.release()
	if err := memory.reach(len(current.body)); err != nil {
		return err
	}
	current.write(w, status)
	return nil
}

// showTask is show for a task.
func (a *API) showTask(ctx context.Context, w http.ResponseWriter, status int, task *v1alpha1.CompileTask) error {
	current, err := a.represent(ctx, task)
	if err != nil {
		return err
	}
	return a.show(w, httpapi.InfoOf(ctx), status, current)
}

func (p representation) write(w http.ResponseWriter, status int) {
	w.Header().Set("ETag", p.etag)
	wire.Body(w, status, p.body)
}

// known reports whether the client's If-None-Match names this representation.
func (p representation) known(header http.Header) bool { return wire.Known(header, p.etag) }

func notModified(w http.ResponseWriter, p representation) {
	w.Header().Set("ETag", p.etag)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNotModified)
}
