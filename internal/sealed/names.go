package sealed

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
)

// NameDigits is the number of hex digits of a name: 128 bits of its HMAC.
const NameDigits = 32

// AddNameKey returns a copy of a ring's Secret data with a random name key, or the
// data itself when it has one. A ring that can't be read is an error.
func AddNameKey(data map[string][]byte) (map[string][]byte, error) {
	ring, err := ParseKeyRing(data)
	if err != nil {
		return nil, fmt.Errorf("add a name key: %w", err)
	}
	if ring.HasNames() {
		return data, nil
	}
	added := maps.Clone(data)
	added[NamesEntry] = randomKey()
	return added, nil
}

// parseNameKey derives the key of names; nil when the ring has no name key.
func parseNameKey(data map[string][]byte) ([]byte, error) {
	value, ok := data[NamesEntry]
	if !ok {
		return nil, nil
	}
	secret, err := decodeKey(value)
	if err != nil {
		return nil, err
	}
	return derive(secret, labelNames)
}

// HasNames reports whether the ring has a name key, without which Name makes
// nothing.
func (k *KeyRing) HasNames() bool { return k.names != nil }

// Name returns NameDigits lower-case hex digits that only a holder of the ring can
// make of the parts: an HMAC under the name key, which never rotates, so that equal
// parts give one name for good. The purpose keeps names of different uses apart, and
// so do the bounds between the parts. It is empty when the ring has no name key,
// which is no name of anything.
func (k *KeyRing) Name(purpose string, parts ...string) string {
	if !k.HasNames() {
		return ""
	}
	mac := hmac.New(sha256.New, k.names)
	mac.Write(appendPart(nil, purpose))
	for _, part := range parts {
		mac.Write(appendPart(nil, part))
	}
	return hex.EncodeToString(mac.Sum(nil))[:NameDigits]
}
