package compileapi

import "encoding/json"

// membersOf splits a valid object, and tells the order of its names; nil when the
// body is none. The members are parts of the body, which is scanned and not decoded:
// most of a large body may stand in a member that is refused for its name.
func membersOf(body []byte) (members map[string]json.RawMessage, names []string) {
	pos := skipSpace(body, 0)
	if body[pos] != '{' {
		return nil, nil
	}
	members = map[string]json.RawMessage{}
	for pos = skipSpace(body, pos+1); body[pos] != '}'; {
		if body[pos] == ',' {
			pos = skipSpace(body, pos+1)
		}
		quote, _ := scanString(body, pos+1)
		name := string(unescaped(body[pos : quote+1]))
		colon := skipSpace(body, quote+1)
		begin := skipSpace(body, colon+1)
		end := valueEnd(body, begin)
		members[name] = body[begin:end:end]
		names = append(names, name)
		pos = skipSpace(body, end)
	}
	return members, names
}

// skipSpace returns the place of the next byte that is no space.
func skipSpace(body []byte, pos int) int {
	for pos < len(body) && isSpace(body[pos]) {
		pos++
	}
	return pos
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// valueEnd returns where the valid value ends that begins at pos.
func valueEnd(body []byte, pos int) int {
	depth := 0
	for pos < len(body) {
		switch c := body[pos]; {
		case c == '"':
			pos, _ = scanString(body, pos+1)
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}' || c == ']' || isSpace(c)):
			// A number or a word ends before what follows it.
			return pos
		case c == '}' || c == ']':
			depth--
		default:
			pos++
			continue
		}
		pos++
		if depth == 0 {
			return pos
		}
	}
	return pos
}
