package compileapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/agentruntime/operator/internal/facade/wire"
)

const (
	// MaxBodyBytes bounds the body of a create request (B.1).
	MaxBodyBytes = 1 << 20
	// maxDepth bounds how deep a body nests, the outermost object counted: args,
	// which stand in it, nest one level less, as admission has it.
	maxDepth = 33
)

// readBody reads a body of at most limit bytes.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge, int64(len(body)) > limit:
		return nil, wire.Errorf(wire.CodeInvalidArgument, "Request body must not be larger than %d bytes", limit)
	case err != nil:
		return nil, told(wire.Errorf(wire.CodeInvalidArgument, "Request body could not be read"), "read the body", err)
	}
	return body, nil
}

// checkJSONType accepts application/json in UTF-8, and no type at all, which
// kubectl create --raw sends.
func checkJSONType(header http.Header) error {
	const accepted = "Content-Type must be application/json"
	values := header.Values("Content-Type")
	if len(values) == 0 {
		return nil
	}
	kind, params, err := mime.ParseMediaType(values[0])
	if err != nil || len(values) > 1 || kind != "application/json" {
		return wire.Errorf(wire.CodeInvalidArgument, accepted)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return wire.Errorf(wire.CodeInvalidArgument, accepted+" in UTF-8")
	}
	return nil
}

// bodyFault is a fault of the body as a whole.
func bodyFault(message string) *wire.Error {
	return wire.Invalid(wire.Violation{Loc: []any{locBody}, Message: message, Type: violationValue})
}

// checkJSON refuses text that two readers could understand differently or that
// costs too much to read: what is not one JSON value in valid Unicode, nests too
// deep, or has a name twice in one object.
func checkJSON(body []byte) error {
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return bodyFault("a JSON object is required")
	case !utf8.Valid(body):
		return bodyFault("must be valid UTF-8")
	}
	if err := scanJSON(body); err != nil {
		return err
	}
	if !json.Valid(body) {
		return bodyFault("is not one valid JSON value")
	}
	if repeatedName(body) {
		return bodyFault("has an object with a name in it twice")
	}
	return nil
}

// scanJSON looks at depth and at halves of surrogate pairs before anything that
// recurses, or replaces, sees the text, which need not be valid yet.
func scanJSON(body []byte) error {
	depth := 0
	for pos := 0; pos < len(body); pos++ {
		switch body[pos] {
		case '"':
			end, whole := scanString(body, pos+1)
			if !whole {
				return bodyFault("must be valid Unicode: it has half of a surrogate pair")
			}
			pos = end
		case '{', '[':
			if depth++; depth > maxDepth {
				return bodyFault("nests too deep")
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// scanString returns the place of the quote that ends the string, and whether every
// escaped surrogate has its other half.
func scanString(body []byte, pos int) (end int, whole bool) {
	for pos < len(body) && body[pos] != '"' {
		if body[pos] != '\\' {
			pos++
			continue
		}
		unit, ok := escapedUnit(body[pos:])
		switch {
		case !ok:
			pos += 2
		case !utf16.IsSurrogate(unit):
			pos += escapeBytes
		default:
			next, _ := escapedUnit(body[min(pos+escapeBytes, len(body)):])
			if utf16.DecodeRune(unit, next) == utf8.RuneError {
				return pos, false
			}
			pos += 2 * escapeBytes
		}
	}
	return pos, true
}

// escapeBytes is the length of \uXXXX.
const escapeBytes = 6

// escapedUnit reads a \uXXXX at the beginning of text.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < escapeBytes || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	var unit rune
	for _, c := range text[2:escapeBytes] {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 {
			return 0, false
		}
		unit = unit<<4 | rune(digit)
	}
	return unit, true
}
