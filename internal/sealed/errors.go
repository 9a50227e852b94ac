package sealed

import "errors"

// The kinds of failure; test with errors.Is. None of their texts holds any part
// of a body or a key.
var (
	// ErrUnknownKey says that the ring has no key of the id that a box or a
	// fingerprint names. A ring that is loaded anew may have it.
	ErrUnknownKey = errors.New("sealed under a key that is not in the key ring")
	// ErrUnreadable says that a box is malformed, was changed, or belongs to
	// another object or field. It never becomes readable.
	ErrUnreadable = errors.New("sealed body is unreadable")
	// ErrTooLarge says that a body or a box exceeds MaxPlaintext or MaxBoxBytes.
	ErrTooLarge = errors.New("body is too large to be sealed")
)
