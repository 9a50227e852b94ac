package viking

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	aliasHome    = "~"
	aliasSession = "session"
	dirSessions  = "sessions"
	dirPeers     = "peers"
	dirPrivacy   = "privacy"
	dirMemories  = "memories"
	dirResources = "resources"
	dirSkills    = "skills"
)

var (
	internalScopes = []string{"temp", "queue", "upload"}
	// reservedUserWords are the directories of a user's tree. Older clients
	// wrote them right after viking://user, without a uid (G.1).
	reservedUserWords = []string{dirMemories, dirResources, dirSkills, dirPeers, dirPrivacy, dirSessions}
)

// Caller is the user on whose behalf URIs are read.
type Caller struct {
	// User is the caller's viking user id, as [UserID] gives it. Empty, or no
	// valid id, means that the caller is not known: then no viking://user tree
	// may be named and no alias is resolved.
	User string
}

func (c Caller) known() bool { return ValidID(c.User) }

// Parse reads a URI that has no aliases: what this package printed, or what
// another server calls canonical. It trims white space, drops empty segments,
// and refuses everything outside G.1 with CodeInvalidURI. field names the field
// in the fault.
func Parse(field, raw string) (URI, *FieldError) { return Caller{}.Parse(field, raw) }

// Parse reads a URI as the caller means it: as the function [Parse] does, with
// "~" and the older "session" resolved into the caller's own tree, and a reserved
// word accepted as uid when it is the caller's. It does not decide what the
// caller may use; see [Canonicalize].
func (c Caller) Parse(field, raw string) (URI, *FieldError) {
	text := strings.TrimSpace(raw)
	if strings.Trim(text, "/") == "" {
		return URI{}, invalidURI(field, text, "must not be empty")
	}
	if len(text) > MaxURIBytes {
		return URI{}, invalidURI(field, text, fmt.Sprintf("must not be longer than %d bytes", MaxURIBytes))
	}
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return URI{}, invalidURI(field, text, "must start with "+Scheme)
	}
	segments := slices.DeleteFunc(strings.Split(rest, "/"), func(s string) bool { return s == "" })
	for _, segment := range segments {
		if reason := segmentFault(segment); reason != "" {
			return URI{}, invalidURI(field, text, reason)
		}
	}
	if len(segments) == 0 {
		return URI{}, nil
	}
	segments, reason := c.resolve(segments)
	if reason != "" {
		return URI{}, invalidURI(field, text, reason)
	}
	u := URI{path: strings.Join(segments, "/")}
	// Aliases make a URI longer and deeper, so the bounds hold for the outcome.
	if len(segments) > MaxDepth {
		return URI{}, invalidURI(field, text, fmt.Sprintf("must not be deeper than %d segments", MaxDepth))
	}
	if len(u.String()) > MaxURIBytes {
		return URI{}, invalidURI(field, text, fmt.Sprintf("must not be longer than %d bytes", MaxURIBytes))
	}
	return u, nil
}

// resolve checks the scope, puts the caller's tree in place of aliases, and
// checks the ids. It returns a reason instead when the URI is not valid.
func (c Caller) resolve(segments []string) (resolved []string, reason string) {
	scope := segments[0]
	switch {
	case scope == aliasHome, scope == aliasSession:
		if !c.known() {
			return nil, fmt.Sprintf("uses the alias %q, which needs a known caller", scope)
		}
		tree := []string{ScopeUser, c.User}
		if scope == aliasSession {
			tree = append(tree, dirSessions)
		}
		segments = append(tree, segments[1:]...)
	case scope == ScopeResources, scope == ScopeUser, scope == ScopeAgent:
	case slices.Contains(internalScopes, scope):
		return nil, fmt.Sprintf("uses the internal scope %q", scope)
	default:
		return nil, "has an unknown scope; use resources, user or agent"
	}
	if segments[0] == ScopeUser {
		return segments, c.userFault(segments)
	}
	return segments, ""
}

// userFault checks the ids in viking://user/<uid>[/peers/<pid>].
func (c Caller) userFault(segments []string) string {
	if len(segments) < 2 {
		return ""
	}
	uid := segments[1]
	if slices.Contains(reservedUserWords, uid) && uid != c.User {
		return fmt.Sprintf("has no user id before %q; use viking://~/%s or viking://user/<user id>/%s", uid, uid, uid)
	}
	if !ValidID(uid) {
		return "has an invalid user id"
	}
	if len(segments) > 3 && segments[2] == dirPeers && !ValidID(segments[3]) {
		return "has an invalid peer id"
	}
	return ""
}

// ValidID reports whether s can be a user, account or peer id (G.1): letters,
// digits, '_', '.', '-' and at most one '@', neither "." nor "..", and at most
// MaxSegmentBytes long.
func ValidID(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > MaxSegmentBytes || strings.Count(s, "@") > 1 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return !idRune(r) }) < 0
}

func idRune(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return true
	}
	return r == '_' || r == '.' || r == '@' || r == '-'
}

// segmentFault says what is wrong with one non-empty segment of a URI or of a
// relative path, or "".
func segmentFault(s string) string {
	switch {
	case len(s) > MaxSegmentBytes:
		return fmt.Sprintf("must not have a segment longer than %d bytes", MaxSegmentBytes)
	case s == ".", s == "..":
		return "must not contain . or .. segments"
	case !utf8.ValidString(s):
		return "must be valid UTF-8"
	case strings.ContainsAny(s, `?#\`):
		return `must not contain ?, # or \`
	case strings.ContainsFunc(s, unsafeRune):
		return "must not contain control characters"
	case strings.TrimSpace(s) != s:
		return "must not have a segment that begins or ends with white space"
	case hasUnsafeEscape(s):
		return `must not contain percent-encoded ., /, \ or control characters`
	}
	return ""
}

// unsafeRune reports control characters and those that break or reorder lines of
// text, which could make a path read as another one.
func unsafeRune(r rune) bool {
	switch {
	case unicode.IsControl(r), r == '\u2028', r == '\u2029', r == '\ufeff':
		return true
	case r == '\u200e', r == '\u200f', r == '\u061c':
		return true
	}
	return '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069'
}

// hasUnsafeEscape looks for an escape of '.', '/', '\' or a control character.
// It decodes again and again, so that "%252e" and "%%32e" are found as well:
// whoever decodes twice must not be led astray. Each round shortens s, and a
// segment is short, so the work is bounded.
func hasUnsafeEscape(s string) bool {
	for strings.Contains(s, "%") {
		decoded, changed, unsafe := decodeOnce(s)
		if unsafe || !changed {
			return unsafe
		}
		s = decoded
	}
	return false
}

func decodeOnce(s string) (decoded string, changed, unsafe bool) {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		b, ok := hexByte(s[i+1:])
		if s[i] != '%' || !ok {
			out.WriteByte(s[i])
			continue
		}
		if b < 0x20 || b == 0x7f || b == '.' || b == '/' || b == '\\' {
			return "", true, true
		}
		out.WriteByte(b)
		changed = true
		i += 2
	}
	return out.String(), changed, false
}

func hexByte(s string) (byte, bool) {
	if len(s) < 2 {
		return 0, false
	}
	high, ok1 := hexDigit(s[0])
	low, ok2 := hexDigit(s[1])
	return high<<4 | low, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
