package sealed

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// PrimaryEntry is the entry of a key ring's Secret that names the primary
	// key: the one that seals. The others only open.
	PrimaryEntry = "primary"
	// NamesEntry is the entry that holds the name key, from which names and marks
	// are made; see [KeyRing.Name]. It never rotates.
	NamesEntry = "names"
	// KeyEntryPrefix and a key's id name the entry that holds the key.
	KeyEntryPrefix = "key-"
	// KeyBytes is the size of a key.
	KeyBytes = 32
	// MaxKeys bounds the keys of a ring.
	MaxKeys = 64
	// MaxKeyIDBytes bounds a key's id.
	MaxKeyIDBytes = 32
)

// The labels under which HKDF derives a key for each purpose. A change of a
// label makes every older box or fingerprint unreadable.
const (
	labelBox     = "agentruntime.dev sealed v1 box"
	labelContent = "agentruntime.dev sealed v1 content"
	labelMac     = "agentruntime.dev sealed v1 mac"
	labelNames   = "agentruntime.dev sealed v1 names"
)

// KeyRing holds the keys that seal and open boxes. It does not change after it is
// made and may be used by any number of goroutines; to rotate, make a new one. It
// prints as its primary key's id and its number of keys, never as keys.
type KeyRing struct {
	primary *ringKey
	keys    map[string]*ringKey
	// names is derived from the name key; nil when the ring has none.
	names []byte
	codec *codec
}

// ringKey is what is derived from one key; the key itself is not kept.
type ringKey struct {
	id                string
	box, content, mac []byte
}

// ParseKeyRing reads the data of a key ring's Secret: "primary" holds the id of
// the primary key, each "key-<id>" a key, as 32 raw bytes or in base64, and "names"
// the name key in the same form. Ids have 1 to MaxKeyIDBytes of [A-Za-z0-9._-]. Any
// other entry, a key of another size or of zeros only, and a primary that is missing
// are errors; no error repeats a value. A ring without a name key opens and seals,
// but makes no names.
func ParseKeyRing(data map[string][]byte) (*KeyRing, error) {
	if countKeys(data) > MaxKeys {
		return nil, fmt.Errorf("parse key ring: more than %d keys", MaxKeys)
	}
	codec, err := newCodec()
	if err != nil {
		return nil, fmt.Errorf("parse key ring: %w", err)
	}
	ring := &KeyRing{keys: make(map[string]*ringKey, len(data)), codec: codec}
	for _, entry := range slices.Sorted(maps.Keys(data)) {
		if entry == PrimaryEntry || entry == NamesEntry {
			continue
		}
		key, err := parseKey(entry, data[entry])
		if err != nil {
			return nil, fmt.Errorf("parse key ring: entry %q: %w", entry, err)
		}
		ring.keys[key.id] = key
	}
	primary, ok := ring.keys[string(bytes.TrimSpace(data[PrimaryEntry]))]
	if !ok {
		return nil, fmt.Errorf("parse key ring: entry %q does not name a key of the ring", PrimaryEntry)
	}
	ring.primary = primary
	if ring.names, err = parseNameKey(data); err != nil {
		return nil, fmt.Errorf("parse key ring: entry %q: %w", NamesEntry, err)
	}
	return ring, nil
}

// countKeys counts what may be keys: every entry but the two of other names.
func countKeys(data map[string][]byte) int {
	count := len(data)
	for _, other := range []string{PrimaryEntry, NamesEntry} {
		if _, ok := data[other]; ok {
			count--
		}
	}
	return count
}

func parseKey(entry string, value []byte) (*ringKey, error) {
	id, ok := strings.CutPrefix(entry, KeyEntryPrefix)
	if !ok || !validKeyID(id) {
		return nil, fmt.Errorf("name is neither %q nor %q and a valid key id", PrimaryEntry, KeyEntryPrefix)
	}
	secret, err := decodeKey(value)
	if err != nil {
		return nil, err
	}
	key := &ringKey{id: id}
	for label, derived := range map[string]*[]byte{labelBox: &key.box, labelContent: &key.content, labelMac: &key.mac} {
		if *derived, err = derive(secret, label); err != nil {
			return nil, err
		}
	}
	return key, nil
}

func derive(secret []byte, label string) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, label, KeyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	return key, nil
}

// decodeKey takes 32 bytes as they are, and anything else as base64.
func decodeKey(value []byte) ([]byte, error) {
	secret := value
	if len(value) != KeyBytes {
		text := strings.TrimRight(string(bytes.TrimSpace(value)), "=")
		decoded, err := base64.RawStdEncoding.Strict().DecodeString(text)
		// The decoder's own error would tell a byte of the key.
		if err != nil || len(decoded) != KeyBytes {
			return nil, fmt.Errorf("key is neither %d raw bytes nor their base64", KeyBytes)
		}
		secret = decoded
	}
	if bytes.Equal(secret, make([]byte, KeyBytes)) {
		return nil, errors.New("key has only zeros")
	}
	return secret, nil
}

func validKeyID(id string) bool {
	if id == "" || len(id) > MaxKeyIDBytes {
		return false
	}
	return strings.IndexFunc(id, func(r rune) bool {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return false
		}
		return r != '.' && r != '_' && r != '-'
	}) < 0
}

// GenerateKeyRingData makes the Secret data of a new ring with one random key and
// a name key.
func GenerateKeyRingData() map[string][]byte {
	data := map[string][]byte{NamesEntry: randomKey()}
	addKey(data)
	return data
}

// RotateKeyRingData returns a copy of a ring's Secret data with a new random key
// as its primary; older keys go on opening what they sealed, and the name key stays
// as it is. A process that still
// has the older ring cannot open what the new key seals, so a reader should load
// the ring anew on ErrUnknownKey.
func RotateKeyRingData(data map[string][]byte) (map[string][]byte, error) {
	ring, err := ParseKeyRing(data)
	if err != nil {
		return nil, fmt.Errorf("rotate key ring: %w", err)
	}
	if len(ring.keys) >= MaxKeys {
		return nil, fmt.Errorf("rotate key ring: it has %d keys already; remove some that seal nothing any more", MaxKeys)
	}
	rotated := maps.Clone(data)
	addKey(rotated)
	return rotated, nil
}

func addKey(data map[string][]byte) {
	const idBytes = 8
	var id [idBytes]byte
	// crypto/rand never fails: it ends the process instead.
	_, _ = rand.Read(id[:])
	name := hex.EncodeToString(id[:])
	data[KeyEntryPrefix+name] = randomKey()
	data[PrimaryEntry] = []byte(name)
}

func randomKey() []byte {
	key := make([]byte, KeyBytes)
	// crypto/rand never fails: it ends the process instead.
	_, _ = rand.Read(key)
	return key
}

// PrimaryID returns the id of the key that seals.
func (k *KeyRing) PrimaryID() string { return k.primary.id }

// Has reports whether the ring has a key of this id.
func (k *KeyRing) Has(id string) bool {
	_, ok := k.keys[id]
	return ok
}

// Format prints the ring without its keys, whatever the verb.
func (k KeyRing) Format(state fmt.State, _ rune) {
	if k.primary == nil {
		_, _ = fmt.Fprint(state, "KeyRing(empty)")
		return
	}
	_, _ = fmt.Fprintf(state, "KeyRing(primary %s, %d keys)", k.primary.id, len(k.keys))
}

func (k *KeyRing) key(id string) (*ringKey, error) {
	key, ok := k.keys[id]
	if !ok {
		return nil, fmt.Errorf("key %q: %w", id, ErrUnknownKey)
	}
	return key, nil
}
