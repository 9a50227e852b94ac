package openapi

import (
	"maps"
	"slices"
)

// NamespacedSuffix ends the operationId of an operation below
// /namespaces/{namespace}.
const NamespacedSuffix = ".namespaced"

const namespacePrefix = "/namespaces/{namespace}"

// document is as much of an OpenAPI document as is looked into.
type document struct {
	OpenAPI    string                          `json:"openapi"`
	Info       map[string]any                  `json:"info"`
	Servers    []any                           `json:"servers"`
	Tags       []any                           `json:"tags"`
	Security   []any                           `json:"security"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components any                             `json:"components"`
}

// operation is one operation. Security is there, and empty, when it is open to all.
type operation struct {
	OperationID string         `json:"operationId"`
	Tags        []string       `json:"tags"`
	Summary     string         `json:"summary"`
	Description string         `json:"description,omitempty"`
	Deprecated  bool           `json:"deprecated,omitempty"`
	Security    *[]any         `json:"security,omitempty"`
	Parameters  []any          `json:"parameters,omitempty"`
	RequestBody any            `json:"requestBody,omitempty"`
	Responses   map[string]any `json:"responses"`
}

// complete adds what operations share, and the paths that name their namespace.
func (d *document) complete() {
	paths := map[string]map[string]operation{}
	for path, item := range d.Paths {
		paths[path] = map[string]operation{}
		for method, op := range item {
			paths[path][method] = op.complete()
			if !op.open() {
				namespaced := namespacePrefix + path
				if paths[namespaced] == nil {
					paths[namespaced] = map[string]operation{}
				}
				paths[namespaced][method] = op.namespaced()
			}
		}
	}
	d.Paths = paths
}

func (o operation) open() bool { return o.Security != nil && len(*o.Security) == 0 }

// complete returns the operation at its own path.
func (o operation) complete() operation {
	if o.open() {
		return o.with([]string{"RequestID"}, map[string]string{
			"400": "Error", "500": "Error", "503": "TryLater", "504": "Error",
		})
	}
	return o.withCaller("Account")
}

// namespaced returns the operation below /namespaces/{namespace}. A segment of dots in
// place of a name makes another path of it, which is not found.
func (o operation) namespaced() operation {
	o.OperationID += NamespacedSuffix
	return o.withCaller("Namespace").with(nil, map[string]string{"404": "Error"})
}

// withCaller adds what is shared by operations that need a caller.
func (o operation) withCaller(namespace string) operation {
	return o.with([]string{"RequestID", namespace}, map[string]string{
		"400": "Error", "401": "Unauthenticated", "403": "Error", "429": "TryLater",
		"500": "Error", "503": "TryLater", "504": "Error",
	})
}

// with adds parameters and responses, by the names of their components. What the
// operation has already stays.
func (o operation) with(parameters []string, responses map[string]string) operation {
	o.Parameters = slices.Clone(o.Parameters)
	for _, name := range parameters {
		o.Parameters = append(o.Parameters, reference("parameters", name))
	}
	o.Responses = maps.Clone(o.Responses)
	for status, name := range responses {
		if _, has := o.Responses[status]; !has {
			o.Responses[status] = reference("responses", name)
		}
	}
	return o
}

func reference(kind, name string) map[string]any {
	return map[string]any{"$ref": "#/components/" + kind + "/" + name}
}
