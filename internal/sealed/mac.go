package sealed

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
)

// macSeparator stands between the key id and the sum; no id has it.
const macSeparator = ":"

// Mac returns a fingerprint of data under the primary key: "<key id>:<HMAC-SHA256
// in unpadded base64url>". It is fit to be stored and shown, for without the ring
// nobody can test a guess. The purpose keeps fingerprints of different uses
// apart, and so do the bounds between the parts of data. A rotation of the ring
// changes the fingerprint, so compare with [KeyRing.MatchMac].
func (k *KeyRing) Mac(purpose string, data ...[]byte) string {
	return k.primary.fingerprint(purpose, data)
}

// MatchMac reports whether a fingerprint that Mac returned, now or under an older
// primary key, is that of data. It errs with ErrUnknownKey, and with ErrUnreadable
// when stored is no fingerprint. It takes constant time for the sum.
func (k *KeyRing) MatchMac(stored, purpose string, data ...[]byte) (bool, error) {
	id, _, found := strings.Cut(stored, macSeparator)
	if !found || !validKeyID(id) {
		return false, fmt.Errorf("compare fingerprint: malformed: %w", ErrUnreadable)
	}
	key, err := k.key(id)
	if err != nil {
		return false, fmt.Errorf("compare fingerprint: %w", err)
	}
	return EqualMac(stored, key.fingerprint(purpose, data)), nil
}

// EqualMac compares two fingerprints in constant time. Fingerprints of equal data
// under different keys are not equal; see [KeyRing.MatchMac].
func EqualMac(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

func (r *ringKey) fingerprint(purpose string, data [][]byte) string {
	mac := hmac.New(sha256.New, r.mac)
	mac.Write(appendPart(nil, purpose))
	for _, part := range data {
		mac.Write(appendPart(nil, part))
	}
	return r.id + macSeparator + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
