package taskapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// ServerVersion is what a server says of itself.
type ServerVersion struct {
	// Address is the server's.
	Address string `json:"address"`
	// Kind is "facade" or "kubernetes".
	Kind string `json:"kind"`
	// Version is empty when the server does not tell.
	Version string `json:"version,omitempty"`
}

// String is the version for people.
func (v *ServerVersion) String() string {
	version := v.Version
	if version == "" {
		version = "unknown"
	}
	return fmt.Sprintf("%s %s (%s)", v.Kind, version, v.Address)
}

// Version asks the server for its version: the facade's /health, or the API
// server's /version.
func (c *Client) Version(ctx context.Context) (*ServerVersion, error) {
	kind, path := "facade", "health"
	if c.options.Aggregated {
		kind, path = "kubernetes", "version"
	}
	response, err := c.sendTo(ctx, c.options.Base.JoinPath(path).String(), call{method: http.MethodGet})
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, errorOf(response, body)
	}
	var told struct {
		Version    string `json:"version"`
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &told); err != nil {
		return nil, fmt.Errorf("read the version of %s: %w", c.Server(), err)
	}
	return &ServerVersion{Address: c.Server(), Kind: kind, Version: told.Version + told.GitVersion}, nil
}
