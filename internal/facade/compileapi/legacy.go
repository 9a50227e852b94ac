package compileapi

import (
	"net/http"

	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

// legacyRoutes are the retired routes of older clients. They name their successors
// and do nothing else, whatever the body (D).
func legacyRoutes() []httpapi.Route {
	const get, cancel = "GET /api/v1/tasks/{task_id}", "POST /api/v1/tasks/{task_id}/cancel"
	return []httpapi.Route{
		retired("legacy.create", http.MethodPost, "/bot/v1/compile", "POST /api/v1/compile to create a task and "+get+" to read it"),
		retired("legacy.get", http.MethodGet, "/bot/v1/compile/{task_id}", get),
		retired("legacy.cancel", http.MethodPost, "/bot/v1/compile/{task_id}/cancel", cancel),
	}
}

func retired(name, method, path, successor string) httpapi.Route {
	message := "This route has been retired; use " + successor + "."
	return httpapi.Route{Name: name, Method: method, Path: path, Handle: func(http.ResponseWriter, *http.Request) error {
		return &wire.Error{Code: wire.CodeInvalidArgument, Message: message, Detail: message}
	}}
}
