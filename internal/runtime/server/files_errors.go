package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/fileapi"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

// filePrefix is what the paths of the file routes begin with.
const filePrefix = "/api/v1/"

// writeErrorFor answers in the shape that the request's dialect has for errors.
func writeErrorFor(w http.ResponseWriter, r *http.Request, err error) {
	if strings.HasPrefix(r.URL.Path, filePrefix) {
		writeFileError(w, err, nil)
		return
	}
	writeError(w, err)
}

// fail answers a file request that was not done. What the disk says is logged, and
// not told.
func (f *files) fail(w http.ResponseWriter, uri viking.URI, err error) {
	told := fileError(err)
	if told.body.Code == runtimeapi.CodeInternal {
		f.server.manager.log.Error("File request failed", "err", err)
	}
	var details map[string]any
	if told.body.Code == runtimeapi.CodeNotFound {
		details = map[string]any{"resource": uri.String(), "type": "file"}
	}
	writeFileError(w, told, details)
}

// fileError finds the answer for an error of a file request: the store's kinds are
// codes of the wire.
func fileError(err error) *httpError {
	stored, ok := errors.AsType[*contentstore.Error](err)
	switch {
	case !ok:
		return asHTTPError(err)
	case stored.Kind == contentstore.KindInternal:
		return &httpError{body: *errInternal}
	}
	return refuse(string(stored.Kind), stored.Error())
}

// writeFileError answers with an error in the envelope of A.2.
func writeFileError(w http.ResponseWriter, err error, details map[string]any) {
	e := asHTTPError(err)
	// Texts and maps of texts always encode.
	body, _ := json.Marshal(fileapi.Failure{
		Status: fileapi.StatusError,
		Error:  fileapi.Error{Code: e.body.Code, Message: e.body.Message, Details: details},
	})
	writeErrorBody(w, e, body)
}
