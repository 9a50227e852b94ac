package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// Bounds of a create payload (B.1).
const (
	maxURIBytes         = 4096
	maxInstructionBytes = 64 << 10
)

// readBody reads a request's body whole, within the protocol's bound.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		if kind, _, err := mime.ParseMediaType(ct); err != nil || kind != "application/json" {
			return nil, refuseWith(http.StatusUnsupportedMediaType,
				"The request body must be application/json.")
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, runtimeapi.MaxRequestBytes))
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return nil, refuseWith(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("The request body must not exceed %d bytes.", runtimeapi.MaxRequestBytes))
	case err != nil:
		return nil, refuse(runtimeapi.CodeInvalidArgument, "The request body could not be read.")
	case !utf8.Valid(body) || !json.Valid(body):
		return nil, refuse(runtimeapi.CodeInvalidArgument, "The request body is not valid JSON.")
	}
	return body, nil
}

// faults collects what is wrong with a body. It names fields, never values: a
// value may be a secret that was put in the wrong place (E.1.3).
type faults []string

func (f *faults) add(path, problem string) { *f = append(*f, path+": "+problem) }

func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return refuseWith(http.StatusUnprocessableEntity,
		"Invalid request body: "+strings.Join(f, "; "))
}

// maxFaults bounds how many faults one answer lists.
const maxFaults = 20

func (f faults) full() bool { return len(f) >= maxFaults }

// plainName is a field name that can't well be a secret.
var plainName = regexp.MustCompile(`^[a-z]{1,20}(_[a-z]{1,20}){0,3}$`)

// members splits an object. Unknown and repeated names are faults; names are
// compared exactly, since two spellings of one field would leave open which one
// counts. ok is false when raw is no object.
func (f *faults) members(path string, raw json.RawMessage, known ...string) (m map[string]json.RawMessage, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		f.add(path, "must be an object")
		return nil, false
	}
	m = make(map[string]json.RawMessage, len(known))
	for dec.More() && !f.full() {
		tok, err := dec.Token()
		name, isString := tok.(string)
		var value json.RawMessage
		if err != nil || !isString || dec.Decode(&value) != nil {
			f.add(path, "must be an object")
			return nil, false
		}
		f.member(path, m, name, value, known)
	}
	return m, true
}

func (f *faults) member(path string, m map[string]json.RawMessage, name string, value json.RawMessage, known []string) {
	for _, k := range known {
		if k != name {
			continue
		}
		if _, twice := m[name]; twice {
			f.add(join(path, name), "must not be given twice")
		}
		m[name] = value
		return
	}
	if plainName.MatchString(name) {
		f.add(join(path, name), "unknown field")
		return
	}
	f.add(path, "unknown field")
}

func join(path, name string) string {
	if path == "body" {
		return name
	}
	return path + "." + name
}

// text reads a required string and trims it.
func (f *faults) text(path string, raw json.RawMessage, limit int) string {
	if raw == nil {
		f.add(path, "field required")
		return ""
	}
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil {
		f.add(path, "must be a string")
		return ""
	}
	trimmed := strings.TrimSpace(*s)
	switch {
	case trimmed == "":
		f.add(path, "must not be empty")
	case len(trimmed) > limit:
		f.add(path, fmt.Sprintf("must not exceed %d bytes", limit))
	}
	return trimmed
}

// optionalText reads a string that may be absent, null or blank.
func (f *faults) optionalText(path string, raw json.RawMessage, limit int) string {
	var s *string
	if raw == nil {
		return ""
	}
	if json.Unmarshal(raw, &s) != nil {
		f.add(path, "must be a string")
		return ""
	}
	if s == nil {
		return ""
	}
	trimmed := strings.TrimSpace(*s)
	if len(trimmed) > limit {
		f.add(path, fmt.Sprintf("must not exceed %d bytes", limit))
	}
	return trimmed
}

// decodeCreate reads the body of a create: its schema, not its meaning.
func decodeCreate(body []byte) (runtimeapi.CompilePayload, error) {
	var f faults
	top, ok := f.members("body", body, "task_type", "payload")
	if !ok {
		return runtimeapi.CompilePayload{}, f.err()
	}
	kind := f.text("task_type", top["task_type"], maxURIBytes)
	if kind != "" && kind != runtimeapi.TaskTypeCompile {
		f.add("task_type", `must be "compile"`)
	}
	var payload runtimeapi.CompilePayload
	if raw := top["payload"]; raw == nil {
		f.add("payload", "field required")
	} else {
		payload = f.payload(raw)
	}
	return payload, f.err()
}

func (f *faults) payload(raw json.RawMessage) runtimeapi.CompilePayload {
	m, ok := f.members("payload", raw, "from", "to", "skill", "instruction", "args")
	if !ok {
		return runtimeapi.CompilePayload{}
	}
	p := runtimeapi.CompilePayload{
		From:        f.sources(m["from"]),
		To:          f.text("payload.to", m["to"], maxURIBytes),
		Skill:       f.text("payload.skill", m["skill"], maxURIBytes),
		Instruction: f.optionalText("payload.instruction", m["instruction"], maxInstructionBytes),
		Args:        m["args"],
	}
	if string(p.Args) == "null" {
		p.Args = nil
	}
	if p.Args != nil && p.Args[0] != '{' {
		f.add("payload.args", "must be an object")
	}
	return p
}

func (f *faults) sources(raw json.RawMessage) []string {
	const path = "payload.from"
	if raw == nil {
		f.add(path, "field required")
		return nil
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || items == nil {
		f.add(path, "must be a list of strings")
		return nil
	}
	if len(items) == 0 {
		f.add(path, "must have at least 1 item")
	}
	from := make([]string, 0, min(len(items), maxFaults))
	for i, item := range items {
		if f.full() {
			break
		}
		from = append(from, f.text(fmt.Sprintf("%s.%d", path, i), item, maxURIBytes))
	}
	return from
}

// maxSessionIDBytes bounds what a client may ask for.
const maxSessionIDBytes = 256

// decodeSession reads the body of status and cancel. args may stand beside the
// session id and is ignored (E.1.2).
func decodeSession(body []byte) (string, error) {
	var f faults
	m, ok := f.members("body", body, "session_id", "args")
	if !ok {
		return "", f.err()
	}
	id := f.text("session_id", m["session_id"], maxSessionIDBytes)
	return id, f.err()
}

// modelArgument reads the only argument there is. allowed names the models the
// operator lets users choose; anything else is refused (0.3).
func modelArgument(args json.RawMessage, allowed []string) (string, error) {
	if args == nil {
		return "", nil
	}
	var f faults
	m, ok := f.members("args", args, "model_name")
	if !ok || len(f) > 0 {
		return "", refuse(runtimeapi.CodeInvalidArgument, "args are not supported by this executor.")
	}
	raw, given := m["model_name"]
	if !given {
		return "", nil
	}
	var name string
	if json.Unmarshal(raw, &name) == nil && name != "" {
		for _, a := range allowed {
			if a == name {
				return name, nil
			}
		}
	}
	return "", refuse(runtimeapi.CodeInvalidArgument, "args.model_name is not a model that this executor allows.")
}
