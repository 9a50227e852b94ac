package compileapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/facade/wire"
	"github.com/agentruntime/operator/internal/viking"
)

const (
	locBody = "body"

	fieldFrom        = "from"
	fieldTo          = "to"
	fieldSkill       = "skill"
	fieldInstruction = "instruction"
	fieldArgs        = "args"
	fieldReason      = "reason"

	violationMissing = "missing"
	violationType    = "type"
	violationExtra   = "extra_forbidden"
	violationValue   = "value"

	// maxInstructionBytes bounds instruction once it is trimmed (B.1).
	maxInstructionBytes = 64 << 10
	// maxViolations bounds the faults listed of one body.
	maxViolations = 16
	// maxNameShown bounds, in characters, what is repeated of an unknown name.
	maxNameShown = 64
)

// createRequest is the body of POST /api/v1/compile (B.1).
type createRequest struct {
	from        []string
	to, skill   string
	instruction string
	// args is the exact text of the object without the space between its tokens;
	// nil when it is absent or empty.
	args json.RawMessage
}

// decodeCreate reads a create request. Everything that is wrong with its fields is
// listed, up to a bound, and no value of a field is repeated.
func decodeCreate(r *http.Request) (createRequest, error) {
	body, err := readBody(r, MaxBodyBytes)
	if err != nil {
		return createRequest{}, err
	}
	if err := checkJSONType(r.Header); err != nil {
		return createRequest{}, err
	}
	return parseCreate(body)
}

func parseCreate(body []byte) (createRequest, error) {
	if err := checkJSON(body); err != nil {
		return createRequest{}, err
	}
	members, names := membersOf(body)
	if members == nil {
		return createRequest{}, wire.Invalid(wire.Violation{Loc: []any{locBody}, Message: "must be a JSON object", Type: violationType})
	}
	d := decoder{members: members}
	request := createRequest{
		from: d.sources(), to: d.uri(fieldTo), skill: d.uri(fieldSkill),
		instruction: d.instruction(), args: d.args(),
	}
	d.refuseOthers(names)
	if len(d.violations) > 0 {
		return createRequest{}, wire.Invalid(d.violations...)
	}
	return request, nil
}

// decoder takes a body's members apart and notes what is wrong with them.
type decoder struct {
	members    map[string]json.RawMessage
	violations []wire.Violation
}

func (d *decoder) fail(kind, message string, loc ...any) {
	if len(d.violations) < maxViolations {
		d.violations = append(d.violations, wire.Violation{Loc: append([]any{locBody}, loc...), Message: message, Type: kind})
	}
}

// optional returns a member that is there and not null.
func (d *decoder) optional(name string) (json.RawMessage, bool) {
	value, ok := d.members[name]
	return value, ok && string(value) != "null"
}

func (d *decoder) required(name string) (json.RawMessage, bool) {
	value, ok := d.members[name]
	if !ok {
		d.fail(violationMissing, "is required", name)
	}
	return value, ok
}

func (d *decoder) sources() []string {
	raw, ok := d.required(fieldFrom)
	if !ok {
		return nil
	}
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		d.fail(violationType, "must be a list of strings", fieldFrom)
		return nil
	}
	switch {
	case len(items) == 0:
		d.fail(violationValue, "must have at least one item", fieldFrom)
	case len(items) > viking.MaxSources:
		d.fail(violationValue, fmt.Sprintf("must not have more than %d items", viking.MaxSources), fieldFrom)
		return nil
	}
	out := make([]string, 0, len(items))
	for i, item := range items {
		out = append(out, d.text(item, fieldFrom, i))
	}
	return out
}

func (d *decoder) uri(name string) string {
	raw, ok := d.required(name)
	if !ok {
		return ""
	}
	if string(raw) == `""` {
		d.fail(violationValue, "must not be empty", name)
	}
	return d.text(raw, name)
}

// text reads a URI's string.
func (d *decoder) text(raw json.RawMessage, loc ...any) string {
	text, ok := d.string(raw, loc...)
	if ok && len(text) > viking.MaxURIBytes {
		d.fail(violationValue, fmt.Sprintf("must not be longer than %d bytes", viking.MaxURIBytes), loc...)
	}
	return text
}

func (d *decoder) string(raw json.RawMessage, loc ...any) (string, bool) {
	var text string
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		d.fail(violationType, "must be a string", loc...)
		return "", false
	}
	return text, true
}

// instruction reads it, or its older name where it is absent itself.
func (d *decoder) instruction() string {
	instruction, given := d.optionalText(fieldInstruction)
	reason, _ := d.optionalText(fieldReason)
	if given {
		return instruction
	}
	return reason
}

func (d *decoder) optionalText(name string) (text string, given bool) {
	raw, ok := d.optional(name)
	if !ok {
		return "", false
	}
	text, _ = d.string(raw, name)
	if text = strings.TrimSpace(text); len(text) > maxInstructionBytes {
		d.fail(violationValue, fmt.Sprintf("must not be longer than %d bytes", maxInstructionBytes), name)
	}
	return text, true
}

func (d *decoder) args() json.RawMessage {
	raw, ok := d.optional(fieldArgs)
	if !ok {
		return nil
	}
	var compact bytes.Buffer
	if raw[0] != '{' || json.Compact(&compact, raw) != nil {
		d.fail(violationType, "must be a JSON object", fieldArgs)
		return nil
	}
	switch {
	case compact.Len() > v1alpha1.MaxArgsBytes:
		d.fail(violationValue, fmt.Sprintf("must not be larger than %d bytes", v1alpha1.MaxArgsBytes), fieldArgs)
		return nil
	case compact.String() == "{}":
		return nil
	}
	return compact.Bytes()
}

// refuseOthers lists the members that are no fields of the request.
func (d *decoder) refuseOthers(names []string) {
	for _, name := range names {
		switch name {
		case fieldFrom, fieldTo, fieldSkill, fieldInstruction, fieldArgs, fieldReason:
		default:
			d.fail(violationExtra, "is not a field of this request", printable(name))
		}
	}
}

// printable makes a name, which can be any text, fit to be repeated.
func printable(name string) string {
	runes := []rune(name)
	if len(runes) > maxNameShown {
		runes = append(runes[:maxNameShown:maxNameShown], '…')
	}
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = unicode.ReplacementChar
		}
	}
	return string(runes)
}
