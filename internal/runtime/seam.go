package runtime

import (
	"context"
	"encoding/json"
)

// Principal is whom a task runs for. Its account selects the content root; its
// user id decides which viking://user trees it may touch (compile-api.md, G.4).
type Principal struct {
	Account string
	User    string
}

// Task is one compile: a request whose URIs Engine.Prepare has made canonical.
type Task struct {
	Principal Principal
	From      []string
	To        string
	Skill     string
	// Instruction is empty when the request gave none (B.5).
	Instruction string
	// ModelName is empty unless the operator allowed the model that
	// args.model_name named.
	ModelName string
}

// Outcome is what a finished task leaves behind.
type Outcome struct {
	// Stage is "completed" or "salvaged", without the wire's prefix (F.2).
	Stage string
	// Result is the JSON object of section F.4.
	Result json.RawMessage
	// Meta is a JSON object, for example with token_usage; nil means "{}".
	Meta json.RawMessage
}

// Progress reports the stage a task has reached (F.2, without the wire's
// prefix: "loading_skill", "collecting_context", ...). It does not block.
type Progress func(stage string)

// Engine is what a server asks to do the work. Errors are *runtimeapi.Error with
// a code of section F.3; any other error counts as INTERNAL.
type Engine interface {
	// Prepare checks a task as its user before it is admitted and returns it
	// with canonical URIs (F.6 step 3). A refused task leaves nothing behind.
	Prepare(ctx context.Context, task Task) (Task, error)
	// Run does a prepared task. It stops soon after ctx ends, with everything
	// it began either finished or removed, and returns ctx's error then.
	Run(ctx context.Context, task Task, progress Progress) (Outcome, error)
}
