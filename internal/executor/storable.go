package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/maphash"
	"slices"
	"strconv"
	"unicode/utf8"
)

const (
	// MaxStorableDepth is how deep objects and arrays of a storable result or meta
	// may nest, the outermost object counted.
	MaxStorableDepth = 64
	// maxPlainNumber is the length in bytes up to which a number without an exponent
	// is within the range of float64.
	maxPlainNumber = 308
)

// Why JSON can't be stored. The texts repeat nothing of it.
var (
	errNotObject  = errors.New("store JSON: not one JSON object")
	errTooDeep    = errors.New("store JSON: nests deeper than " + strconv.Itoa(MaxStorableDepth) + " levels")
	errOutOfRange = errors.New("store JSON: a number is outside the range of 64-bit floats")
)

// Storable returns raw as the Kubernetes API server stores it without refusing, raw
// itself when nothing is to be changed. Of members of one name in an object the last
// is kept, and bytes that are not UTF-8 become U+FFFD; members may change their
// order then. It fails when raw is not one JSON object, nests deeper than
// MaxStorableDepth, or holds a number outside the range of float64, which the API
// server reads all numbers into that are not int64; the error says which, and
// repeats nothing of raw.
func Storable(raw json.RawMessage) (json.RawMessage, error) {
	if trimmed := bytes.TrimLeft(raw, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, errNotObject
	}
	s := storeScan{raw: raw, seed: maphash.MakeSeed()}
	if err := s.depths(); err != nil {
		return nil, err
	}
	if !json.Valid(raw) {
		return nil, errNotObject
	}
	if err := s.run(); err != nil {
		return nil, err
	}
	if !s.repeated && utf8.Valid(raw) {
		return raw, nil
	}
	return rewritten(raw)
}

// rewritten decodes and encodes raw, which keeps the last of equal names and
// replaces what is not UTF-8. Numbers keep their text.
func rewritten(raw json.RawMessage) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		return nil, errNotObject
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		return nil, errNotObject
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// storeScan reads JSON once, without decoding it.
type storeScan struct {
	raw  []byte
	seed maphash.Seed
	pos  int
	// open are the objects and arrays around pos; hashes are those of the names seen
	// in the open objects, outermost first. A hash for a name: two names of one hash
	// only cost a rewriting that changes nothing.
	open   []storeFrame
	hashes []uint64
	// repeated is set once an object has a name twice.
	repeated bool
}

type storeFrame struct {
	object bool
	// name is set where a member's name comes next.
	name bool
	// first is where the object's names begin in hashes.
	first int
}

// depths checks the depth before anything that may recurse sees raw, which need
// not be valid yet.
func (s *storeScan) depths() error {
	depth := 0
	for pos := 0; pos < len(s.raw); pos++ {
		switch s.raw[pos] {
		case '"':
			pos = stringEnd(s.raw, pos) - 1
		case '{', '[':
			if depth++; depth > MaxStorableDepth {
				return errTooDeep
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// run reads valid JSON.
func (s *storeScan) run() error {
	for s.pos < len(s.raw) {
		switch c := s.raw[s.pos]; c {
		case '{', '[':
			s.open = append(s.open, storeFrame{object: c == '{', name: c == '{', first: len(s.hashes)})
			s.pos++
		case '}', ']':
			s.close()
			s.pos++
		case ',', ':':
			frame := &s.open[len(s.open)-1]
			frame.name = c == ',' && frame.object
			s.pos++
		case '"':
			s.text()
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			if !s.number() {
				return errOutOfRange
			}
		default:
			s.pos++
		}
	}
	return nil
}

// close ends the innermost object or array and looks for names it has twice.
func (s *storeScan) close() {
	frame := s.open[len(s.open)-1]
	s.open = s.open[:len(s.open)-1]
	names := s.hashes[frame.first:]
	s.hashes = s.hashes[:frame.first]
	if s.repeated || len(names) < 2 {
		return
	}
	slices.Sort(names)
	for i := range names[1:] {
		if names[i] == names[i+1] {
			s.repeated = true
			return
		}
	}
}

func (s *storeScan) text() {
	end := stringEnd(s.raw, s.pos)
	quoted := s.raw[s.pos:end]
	s.pos = end
	if frame := s.open[len(s.open)-1]; !frame.name {
		return
	}
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		var unescaped string
		// A valid JSON string always decodes.
		_ = json.Unmarshal(quoted, &unescaped)
		name = []byte(unescaped)
	}
	s.hashes = append(s.hashes, maphash.Bytes(s.seed, name))
}

// number reports whether the number at pos is within the range of float64.
func (s *storeScan) number() bool {
	start, plain := s.pos, true
	for ; s.pos < len(s.raw); s.pos++ {
		c := s.raw[s.pos]
		if c == 'e' || c == 'E' {
			plain = false
		} else if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' {
			break
		}
	}
	if plain && s.pos-start <= maxPlainNumber {
		return true
	}
	_, err := strconv.ParseFloat(string(s.raw[start:s.pos]), 64)
	return err == nil
}

// stringEnd returns the position after the string that begins at start, at most
// the end of raw.
func stringEnd(raw []byte, start int) int {
	for pos := start + 1; pos < len(raw); pos++ {
		switch raw[pos] {
		case '\\':
			pos++
		case '"':
			return pos + 1
		}
	}
	return len(raw)
}
