package openapi

import (
	"crypto/sha256"
	_ "embed" // openapi.yaml
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"sigs.k8s.io/yaml"

	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

//go:embed openapi.yaml
var source []byte

// Document is the OpenAPI document as it is served.
type Document struct {
	body []byte
	etag string
}

// New makes the document of the given version of the API; empty is "dev".
func New(version string) (*Document, error) {
	var root document
	if err := yaml.UnmarshalStrict(source, &root); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	if version == "" {
		version = "dev"
	}
	root.Info["version"] = version
	root.complete()
	body, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	sum := sha256.Sum256(body)
	return &Document{body: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`}, nil
}

// JSON returns the document. It must not be changed.
func (d *Document) JSON() []byte { return d.body }

// Route serves the document to anyone at /openapi.json.
func (d *Document) Route() httpapi.Route {
	return httpapi.Route{Name: "openapi", Method: http.MethodGet, Path: "/openapi.json", Open: true, Handle: d.serve}
}

// serve lets the document be kept, and asked about again by its ETag.
func (d *Document) serve(w http.ResponseWriter, r *http.Request) error {
	header := w.Header()
	header.Set("ETag", d.etag)
	header.Set("Cache-Control", "no-cache")
	if wire.Known(r.Header, d.etag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(d.body)))
	// A client that has gone gets nothing; there is nobody to tell.
	_, _ = w.Write(d.body)
	return nil
}
