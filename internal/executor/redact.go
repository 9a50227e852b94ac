package executor

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// Bounds of redaction.
const (
	// maxText is how many characters of a text are shown (C.8).
	maxText = 500
	cutMark = "...[truncated]"
	// minSecret is the length in bytes below which a value is no secret: looking
	// for it would blot out ordinary text.
	minSecret = 4
	// minEmbedded is the length from which a secret is also looked for inside the
	// base64 of a longer text.
	minEmbedded = 9
)

// tokenPattern finds what looks like a credential (C.8). A letter or digit
// right before it makes it the end of a word: "task-list" and "ocr_text" are
// no credentials, and results are full of such paths. What follows Bearer may
// be base64.
var tokenPattern = regexp.MustCompile(`(^|[^A-Za-z0-9])` +
	`(?:(?:sk-|cr_|ghp_|ntn_|xox[baprs]-)[A-Za-z0-9._-]+|Bearer\s+[A-Za-z0-9._~+/=-]+)`)

// Redact returns text with every secret and everything that looks like a
// credential replaced by [REDACTED], cut to 500 characters and a mark when it is
// longer (C.8). A secret is found as it is and escaped for a URL or for JSON or
// encoded as base64; values shorter than 4 bytes are not looked for. Redacting a
// second time changes nothing.
func Redact(text string, secrets ...string) string {
	return truncate(newRedactor(fitting(secrets, len(text))).text(text))
}

// fitting returns the secrets that a text of n bytes can hold in any form: no form
// is more than 4 bytes shorter than its secret. It spares a short text, as a stage
// in every poll is, the work of escaping long credentials.
func fitting(secrets []string, n int) []string {
	var fit []string
	for _, secret := range secrets {
		if len(strings.TrimSpace(secret))-4 <= n {
			fit = append(fit, secret)
		}
	}
	return fit
}

// RedactJSON returns raw with every string and key redacted as Redact does, but
// not cut; numbers that hold a secret become [REDACTED] too and all others keep
// their text. Members named api_key or user_key are removed at any depth. It
// fails when raw is not one JSON value.
func RedactJSON(raw json.RawMessage, secrets ...string) (json.RawMessage, error) {
	if !json.Valid(raw) {
		return nil, errors.New("redact JSON: not one JSON value")
	}
	w := jsonRedactor{dec: json.NewDecoder(bytes.NewReader(raw)), redactor: newRedactor(secrets)}
	w.dec.UseNumber()
	w.out.Grow(len(raw))
	if err := w.run(); err != nil {
		return nil, fmt.Errorf("redact JSON: %w", err)
	}
	return w.out.Bytes(), nil
}

// truncate cuts s after maxText characters, between two of them.
func truncate(s string) string {
	if len(s) <= maxText {
		return s
	}
	count := 0
	for i := range s {
		if count == maxText {
			return s[:i] + cutMark
		}
		count++
	}
	return s
}

// redactor replaces one set of secrets.
type redactor struct {
	exact *strings.Replacer
}

func newRedactor(secrets []string) redactor {
	var forms []string
	for _, secret := range secrets {
		for _, s := range []string{secret, strings.TrimSpace(secret)} {
			if len(s) >= minSecret {
				forms = append(forms, secretForms(s)...)
			}
		}
	}
	if len(forms) == 0 {
		return redactor{}
	}
	// The replacer takes the first pair that fits: a longer secret goes before a
	// shorter one that it begins with.
	slices.SortFunc(forms, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	forms = slices.Compact(forms)
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, redacted)
	}
	return redactor{exact: strings.NewReplacer(pairs...)}
}

func (r redactor) text(s string) string {
	if r.exact != nil {
		s = r.exact.Replace(s)
	}
	return tokenPattern.ReplaceAllString(s, "${1}"+redacted)
}

// secretForms returns the shapes in which a secret may stand in a text.
func secretForms(secret string) []string {
	query, path := url.QueryEscape(secret), url.PathEscape(secret)
	forms := []string{
		secret, query, path, lowerEscapes(query), lowerEscapes(path),
		jsonText(secret, true), jsonText(secret, false), strings.Trim(strconv.Quote(secret), `"`),
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		encoded := enc.EncodeToString([]byte(secret))
		forms = append(forms, encoded, encoded+strings.Repeat("=", (4-len(encoded)%4)%4))
		if len(secret) >= minEmbedded {
			forms = append(forms, embeddedForms(enc, secret)...)
		}
	}
	return slices.DeleteFunc(forms, func(f string) bool {
		// A part of the marks would be replaced inside them again and again.
		return len(f) < minSecret || strings.Contains(redacted, f) || strings.Contains(cutMark, f)
	})
}

// embeddedForms returns the part of the secret's base64 that is the same whatever
// stands before and after it, for each of the three alignments: "user:secret"
// encoded for Basic is found by it.
func embeddedForms(enc *base64.Encoding, secret string) []string {
	forms := make([]string, 0, 3)
	for skip := range 3 {
		whole := secret[skip:]
		whole = whole[:len(whole)/3*3]
		forms = append(forms, enc.EncodeToString([]byte(whole)))
	}
	return forms
}

// lowerEscapes writes the hex digits of percent escapes in lower case.
func lowerEscapes(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			b.WriteString(strings.ToLower(s[i : i+3]))
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// jsonText returns s as it stands between the quotes of a JSON string.
func jsonText(s string, escapeHTML bool) string {
	var b bytes.Buffer
	writeJSONString(&b, s, escapeHTML)
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), `"`)
}

func writeJSONString(b *bytes.Buffer, s string, escapeHTML bool) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(escapeHTML)
	// A string always encodes, and a buffer takes all of it.
	_ = enc.Encode(s)
	b.Truncate(b.Len() - 1) // the newline Encode ends with
}

// jsonRedactor copies JSON token by token, so that depth costs no stack.
type jsonRedactor struct {
	redactor
	dec    *json.Decoder
	out    bytes.Buffer
	frames []jsonFrame
}

// jsonFrame is one open object or array.
type jsonFrame struct {
	object bool
	// value is set in an object between a key and its value.
	value   bool
	written int
	masked  int
}

func (w *jsonRedactor) run() error {
	for {
		token, err := w.dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.token(token); err != nil {
			return err
		}
	}
}

func (w *jsonRedactor) token(token json.Token) error {
	if delim, ok := token.(json.Delim); ok && (delim == '}' || delim == ']') {
		w.frames = w.frames[:len(w.frames)-1]
		w.out.WriteByte(byte(delim))
		return nil
	}
	if frame := w.top(); frame != nil && frame.object && !frame.value {
		return w.key(frame, token)
	}
	w.separate()
	switch v := token.(type) {
	case json.Delim:
		w.frames = append(w.frames, jsonFrame{object: v == '{'})
		w.out.WriteByte(byte(v))
	case string:
		writeJSONString(&w.out, w.text(v), false)
	case json.Number:
		w.number(string(v))
	case bool:
		w.out.WriteString(strconv.FormatBool(v))
	default:
		w.out.WriteString("null")
	}
	return nil
}

func (w *jsonRedactor) top() *jsonFrame {
	if len(w.frames) == 0 {
		return nil
	}
	return &w.frames[len(w.frames)-1]
}

// separate writes what stands before a value.
func (w *jsonRedactor) separate() {
	frame := w.top()
	switch {
	case frame == nil:
	case frame.object:
		frame.value = false
	default:
		if frame.written > 0 {
			w.out.WriteByte(',')
		}
		frame.written++
	}
}

// key writes a member's name, or drops the member. Names that a redaction makes
// equal are numbered, so that no member hides another.
func (w *jsonRedactor) key(frame *jsonFrame, token json.Token) error {
	name, _ := token.(string)
	if v1alpha1.IsSecretArg(name) {
		var dropped json.RawMessage
		return w.dec.Decode(&dropped)
	}
	shown := w.text(name)
	if shown != name {
		if frame.masked++; frame.masked > 1 {
			shown += "#" + strconv.Itoa(frame.masked)
		}
	}
	if frame.written > 0 {
		w.out.WriteByte(',')
	}
	frame.written++
	frame.value = true
	writeJSONString(&w.out, shown, false)
	w.out.WriteByte(':')
	return nil
}

func (w *jsonRedactor) number(digits string) {
	if w.text(digits) != digits {
		writeJSONString(&w.out, redacted, false)
		return
	}
	w.out.WriteString(digits)
}
