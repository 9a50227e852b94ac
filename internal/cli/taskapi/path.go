package taskapi

import (
	"fmt"
	"net/url"
	"strings"
)

// aggregatedRoot is where the API server's aggregator serves the API.
const aggregatedRoot = "/apis/compile.agentruntime.dev/v1"

// url is a request's address.
func (c *Client) url(request call) string {
	u := c.options.Base.JoinPath(c.root(), request.path)
	u.RawQuery = request.query.Encode()
	return u.String()
}

// root is the path that the API's own paths are below.
func (c *Client) root() string {
	namespace := ""
	if c.options.Namespace != "" {
		namespace = "/namespaces/" + url.PathEscape(c.options.Namespace)
	}
	if c.options.Aggregated {
		return aggregatedRoot + namespace
	}
	return namespace + "/api/v1"
}

// taskPath is the path of a task, escaped.
func taskPath(id string) string { return "tasks/" + url.PathEscape(id) }

// CheckID refuses what can't be a task's id, so that no id can lead a request
// astray.
func CheckID(id string) error {
	if id == "" || id == "." || id == ".." || len(id) > 256 || strings.ContainsFunc(id, notInID) {
		return fmt.Errorf("%q is no task id: one looks like cmp_ and 32 hexadecimal digits", id)
	}
	return nil
}

func notInID(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`/\?#%`, r) }
