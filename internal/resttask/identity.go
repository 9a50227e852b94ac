package resttask

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strconv"
	"time"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
)

// Purposes keep what is made of one key ring apart.
const (
	purposeName   = "rest-task-name"
	purposeMark   = "rest-task-mark"
	purposeDigest = "rest-task-digest"
)

// namePrefix begins every name; sealed.NameDigits hex digits follow.
const namePrefix = "cmp-"

var namePattern = regexp.MustCompile(`^cmp-[0-9a-f]{32}$`)

// IsName reports whether a name is of the form that only the REST API gives.
func IsName(name string) bool { return namePattern.MatchString(name) }

// RandomName is the name of a task whose request has no Idempotency-Key.
func RandomName() string {
	var id [sealed.NameDigits / 2]byte
	// crypto/rand never fails: it ends the process instead.
	_, _ = rand.Read(id[:])
	return namePrefix + hex.EncodeToString(id[:])
}

// KeyedName is the name of the task of an Idempotency-Key, the same for every repeat
// by that user in that namespace, whatever has rotated in between. Nobody without
// the ring can guess it. With a ring that has no name key it is no valid name.
func KeyedName(ring *sealed.KeyRing, namespace, username, key string) string {
	return namePrefix + ring.Name(purposeName, namespace, username, key)
}

// Origin is which task it is, and when its request came in. Mark and bodies are for
// one origin, so what was made for an earlier task of the same name fits no later one.
type Origin struct {
	Namespace, Name string
	// Received counts to the microsecond, as a task records it.
	Received time.Time
}

// OriginOf is the origin that a task claims.
func OriginOf(task *v1alpha1.CompileTask) Origin {
	origin := Origin{Namespace: task.Namespace, Name: task.Name}
	if rest := task.Spec.RESTRequest; rest != nil && rest.ReceivedTime != nil {
		origin.Received = rest.ReceivedTime.Time
	}
	return origin
}

// received is the time as text, the same whatever its zone; empty for no time.
func (o Origin) received() string {
	if o.Received.IsZero() {
		return ""
	}
	return strconv.FormatInt(o.Received.UnixMicro(), 10)
}

// Mark proves that the REST API made a task: only a holder of the ring can make it,
// and it fits no other origin and no other requester. It is empty, and so no mark,
// with a ring that has no name key.
func Mark(ring *sealed.KeyRing, origin Origin, username string) string {
	return ring.Name(purposeMark, origin.Namespace, origin.Name, username, origin.received())
}

// Marked reports whether the task has the mark that fits its origin and its
// requester's name.
func Marked(ring *sealed.KeyRing, task *v1alpha1.CompileTask) bool {
	return MarkedFor(ring, task, task.Namespace, task.Spec.Requester.Username)
}

// MarkedFor is Marked with the namespace and the user of an admission request, which
// count there, rather than what the object says.
func MarkedFor(ring *sealed.KeyRing, task *v1alpha1.CompileTask, namespace, username string) bool {
	if task.Spec.RESTRequest == nil || !IsName(task.Name) {
		return false
	}
	origin := OriginOf(task)
	origin.Namespace = namespace
	want := Mark(ring, origin, username)
	return want != "" && hmac.Equal([]byte(task.Spec.RESTRequest.Mark), []byte(want))
}

// Digest is a keyed hash of a normalised request, fit to be stored and shown.
func Digest(ring *sealed.KeyRing, request []byte) string {
	return ring.Mac(purposeDigest, request)
}

// SameRequest reports whether a stored digest is that of the request, under whichever
// key of the ring it was made. It errs with sealed.ErrUnknownKey when that key is
// gone, and with sealed.ErrUnreadable when stored is no digest.
func SameRequest(ring *sealed.KeyRing, stored string, request []byte) (bool, error) {
	return ring.MatchMac(stored, purposeDigest, request)
}
