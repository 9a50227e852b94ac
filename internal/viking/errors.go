package viking

import (
	"strings"
	"unicode/utf8"
)

// Code says what kind of fault a field has, in the words of the wire (A.3).
type Code string

// The codes of this package, in the order in which B.3 looks for them.
const (
	// CodeInvalidURI marks a URI outside the grammar of G.1 or G.2: wire 400.
	CodeInvalidURI Code = "INVALID_URI"
	// CodeInvalidArgument marks a URI of the wrong shape for its field (B.2),
	// or a list of the wrong length: wire 400.
	CodeInvalidArgument Code = "INVALID_ARGUMENT"
	// CodePermissionDenied marks a tree that is not the caller's (G.4): wire 403.
	CodePermissionDenied Code = "PERMISSION_DENIED"
)

// displayLimit bounds the bytes of a URI that are repeated in an error.
const displayLimit = 512

// FieldError is one fault of one field of a request.
type FieldError struct {
	// Field is "from", "from[2]", "to" or "skill"; the index counts the items
	// of the request as it was sent.
	Field string
	// Code is the wire's error code.
	Code Code
	// URI is the text at fault, cleaned of control characters and cut to a
	// displayable length; empty when the fault is not about one URI.
	URI string
	// Reason says what is wrong, without the URI for CodeInvalidURI.
	Reason string
}

// Error returns the wire message: "Invalid URI: <uri> (<reason>)" for
// CodeInvalidURI, else the reason itself (B.2).
func (e *FieldError) Error() string {
	if e.Code == CodeInvalidURI {
		return "Invalid URI: " + e.URI + " (" + e.Reason + ")"
	}
	return e.Reason
}

// First returns the fault that a caller who can report only one should report,
// by B.3's order of evaluation: grammar before shape before permission, and
// within each from, skill, to. It returns nil when there is none.
func First(faults []*FieldError) *FieldError {
	var first *FieldError
	for _, f := range faults {
		if first == nil || rank(f) < rank(first) {
			first = f
		}
	}
	return first
}

func rank(f *FieldError) int {
	const fields = 3
	code := map[Code]int{CodeInvalidURI: 0, CodeInvalidArgument: 1, CodePermissionDenied: 2}[f.Code]
	field := map[string]int{fieldSkill: 1, fieldTo: 2}[f.Field]
	return code*fields + field
}

// invalidURI makes a grammar fault; B.3 wants the field's name in the reason.
func invalidURI(field, raw, reason string) *FieldError {
	return &FieldError{Field: field, Code: CodeInvalidURI, URI: display(raw), Reason: field + " " + reason}
}

func invalidArgument(field string, u URI, message string) *FieldError {
	return &FieldError{Field: field, Code: CodeInvalidArgument, URI: display(u.String()), Reason: message}
}

func permissionDenied(field string, u URI, why string) *FieldError {
	text := display(u.String())
	return &FieldError{Field: field, Code: CodePermissionDenied, URI: text, Reason: "Access denied: " + text + " (" + why + ")"}
}

// display makes outside text safe to repeat in messages and logs: valid UTF-8,
// no control characters, bounded.
func display(raw string) string {
	if len(raw) > displayLimit {
		cut := displayLimit
		for cut > displayLimit-utf8.UTFMax && !utf8.RuneStart(raw[cut]) {
			cut--
		}
		raw = raw[:cut] + "…"
	}
	return strings.Map(func(r rune) rune {
		if unsafeRune(r) {
			return utf8.RuneError
		}
		return r
	}, raw)
}
