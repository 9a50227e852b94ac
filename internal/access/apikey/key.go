package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/agentruntime/operator/internal/access"
)

const (
	keyBytes = 32
	// namePrefix begins the name of a key's Secret; nameDigits hex digits follow.
	namePrefix = "apikey-"
	nameDigits = 32
)

// Mint makes a new key. It is shown to its holder once.
func Mint() access.Secret {
	var random [keyBytes]byte
	// crypto/rand never fails: it ends the process instead.
	_, _ = rand.Read(random[:])
	return access.Secret(access.APIKeyPrefix + base64.RawURLEncoding.EncodeToString(random[:]))
}

// WellFormed reports whether a text can be a key.
func WellFormed(key access.Secret) bool {
	text, ok := strings.CutPrefix(string(key), access.APIKeyPrefix)
	if !ok || len(text) != base64.RawURLEncoding.EncodedLen(keyBytes) {
		return false
	}
	random, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(random) == keyBytes
}

// SecretName is the name of a key's Secret. It shows nothing of the key, and people
// may use it to name the key.
func SecretName(key access.Secret) string { return nameOf(digestOf(key)) }

// digestOf is what is kept of a key. A key is random, so a plain hash of it can't be
// turned back.
func digestOf(key access.Secret) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func nameOf(digest string) string { return namePrefix + digest[:nameDigits] }
