package viking

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
)

const (
	// MaxUserIDBytes bounds what UserID returns.
	MaxUserIDBytes = 128

	prefixBytes = 48
	hashMark    = "--"
	// hashChars of 5 bits each make 160 bits.
	hashChars = 32

	serviceAccountPrefix = "system:serviceaccount:"
)

// UserID maps a Kubernetes user name to the viking user id of its owner: the uid
// in viking://user/<uid> (0.3).
//
//   - A name that is a valid id, of at most MaxUserIDBytes, maps to itself.
//   - Any other name maps to a readable prefix, "--", and the first 160 bits of
//     its SHA-256 in lower-case base32hex: system:serviceaccount:docs:builder
//     becomes sa-docs-builder--<32 characters>.
//   - So do names that begin with a dot, the reserved directory names of G.1, and
//     names that already end the way mapped names do; therefore no two names
//     share an id, as long as SHA-256 holds.
//   - The empty name, nobody, maps to "".
func UserID(kubernetesUsername string) string {
	name := kubernetesUsername
	if name == "" || fits(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := strings.ToLower(base32.HexEncoding.EncodeToString(sum[:hashChars*5/8]))
	return readable(name) + hashMark + hash
}

func fits(name string) bool {
	return len(name) <= MaxUserIDBytes && ValidID(name) && name[0] != '.' &&
		!slices.Contains(reservedUserWords, name) && !looksMapped(name)
}

func looksMapped(name string) bool {
	mark := len(name) - hashChars - len(hashMark)
	if mark < 0 || !strings.HasPrefix(name[mark:], hashMark) {
		return false
	}
	for _, c := range []byte(name[mark+len(hashMark):]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'v') {
			return false
		}
	}
	return true
}

// readable makes a hint of whose id it is, of 1 to prefixBytes id characters
// other than '@'. It tells people only; the hash tells names apart.
func readable(name string) string {
	if rest, ok := strings.CutPrefix(name, serviceAccountPrefix); ok {
		name = "sa-" + rest
	}
	// Mapping one byte to one byte keeps the work bounded for any length.
	name = name[:min(len(name), prefixBytes)]
	hint := []byte(name)
	for i, c := range hint {
		if c == '@' || !idRune(rune(c)) {
			hint[i] = '-'
		}
	}
	if trimmed := strings.Trim(string(hint), ".-"); trimmed != "" {
		return trimmed
	}
	return "user"
}
