package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// Record is what is known of one session.
type Record struct {
	// ID is the session id of the wire. It is random, so it can't be guessed.
	ID string `json:"id"`
	// Owner is the Scope of the user who created the session.
	Owner string `json:"owner"`
	// To is the canonical target, told again to a replayed create.
	To     string            `json:"to"`
	Status runtimeapi.Status `json:"status"`
	// Stage is the stage without the wire's prefix (F.2).
	Stage string `json:"stage"`
	// Error is set when Status is failed.
	Error *runtimeapi.Error `json:"error,omitempty"`
	// Meta is a JSON object or nil.
	Meta json.RawMessage `json:"meta,omitempty"`
	// Result is a JSON object when Status is completed, else nil.
	Result json.RawMessage `json:"result,omitempty"`
	// Created is when the session was admitted, Changed when its present state
	// (status, stage and what goes with them) was reached.
	Created time.Time `json:"created"`
	Changed time.Time `json:"changed"`
}

// rank orders states by how far they are; a store never goes back to a lower one.
func rank(s runtimeapi.Status) int {
	switch {
	case s.Terminal():
		return 3
	case s == runtimeapi.StatusCancelling:
		return 2
	case s == runtimeapi.StatusRunning:
		return 1
	default:
		return 0
	}
}

// Supersedes reports whether r may replace old: a terminal record is final, and
// a cancelling one never turns back into a running one (F.2).
func (r Record) Supersedes(old Record) bool {
	return !old.Status.Terminal() && rank(r.Status) >= rank(old.Status)
}

// NewID returns a fresh session id: "ses_" and 32 random hex digits.
func NewID() string {
	var b [16]byte
	// crypto/rand.Read never returns an error: it ends the process instead.
	_, _ = rand.Read(b[:])
	return "ses_" + hex.EncodeToString(b[:])
}

// scopeDigits is how much of a scope's hash is kept: 128 bits.
const scopeDigits = 32

// Scope names a user without telling who it is, in the manner of section E.1.4.
// Neither part may hold a colon, so that two users never share a scope.
func Scope(account, user string) string {
	sum := sha256.Sum256([]byte("openviking:" + account + ":" + user))
	return hex.EncodeToString(sum[:])[:scopeDigits]
}

// Key is an Idempotency-Key in the ledger: a hash over the user's scope and the
// key, so the same key of two users is two entries (E.1.1).
type Key [sha256.Size]byte

// NewKey returns the ledger's key for a user's Idempotency-Key.
func NewKey(scope, idempotencyKey string) Key {
	return sha256.Sum256([]byte(scope + "\x00" + idempotencyKey))
}
