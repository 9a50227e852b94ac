package sealed

import (
	"encoding/binary"
	"fmt"
)

const (
	// MaxPlaintext bounds a body before it is sealed, in bytes.
	MaxPlaintext = 4 << 20
	// MaxBoxBytes bounds a marshalled box: a body that does not compress, and
	// what zstd, GCM and the header add.
	MaxBoxBytes = MaxPlaintext + 64<<10
	// InlineLimit is the greatest marshalled box that stands inline in a
	// resource; a larger one goes into a Payload.
	InlineLimit = 16 << 10
)

const (
	boxVersion  = 1
	nonceBytes  = 24
	macBytes    = 32
	gcmTagBytes = 16
	// fixedBytes is a marshalled box without its key id and ciphertext.
	fixedBytes = 1 + 1 + nonceBytes + 4 + macBytes
)

// Box is a sealed body. Everything in it may be shown to whoever may see the
// object; only the ring makes sense of it.
type Box struct {
	// KeyID names the key of the ring that sealed it.
	KeyID string
	// Nonce is random, and different in every box.
	Nonce [nonceBytes]byte
	// Size is the body's size in bytes, before compression.
	Size int
	// MAC is the HMAC-SHA256 of binding and body under a key of the ring, so it
	// tells equal bodies of one place apart from changed ones, and lets nobody
	// else test a guess; see [KeyRing.Matches].
	MAC [macBytes]byte
	// Ciphertext is the compressed body under AES-256-GCM, with its tag.
	Ciphertext []byte
}

// Inline reports whether the box stands inline in a resource.
func (b Box) Inline() bool { return b.MarshalledSize() <= InlineLimit }

// MarshalledSize returns the length of what Marshal returns.
func (b Box) MarshalledSize() int { return fixedBytes + len(b.KeyID) + len(b.Ciphertext) }

// Marshal returns the box as bytes: a version byte, the key id with a length
// byte, nonce, size (4 bytes, big-endian), MAC, ciphertext.
func (b Box) Marshal() []byte {
	out := make([]byte, 0, b.MarshalledSize())
	out = b.appendHeader(out)
	return append(out, b.Ciphertext...)
}

// appendHeader appends all but the ciphertext. The same bytes are authenticated
// with the ciphertext, so that no part of a box can be exchanged.
func (b Box) appendHeader(out []byte) []byte {
	out = append(out, boxVersion, byte(len(b.KeyID)))
	out = append(out, b.KeyID...)
	out = append(out, b.Nonce[:]...)
	out = binary.BigEndian.AppendUint32(out, uint32(b.Size))
	return append(out, b.MAC[:]...)
}

// Unmarshal reads what Marshal returned. It checks the form only: whether a box is
// genuine shows when it is opened. The box shares no memory with data. Errors are
// ErrUnreadable and ErrTooLarge.
func Unmarshal(data []byte) (Box, error) {
	if len(data) > MaxBoxBytes {
		return Box{}, fmt.Errorf("unmarshal box: %w", ErrTooLarge)
	}
	if len(data) < 2 || data[0] != boxVersion {
		return Box{}, fmt.Errorf("unmarshal box: unknown version: %w", ErrUnreadable)
	}
	idBytes := int(data[1])
	if len(data) < fixedBytes+idBytes+gcmTagBytes {
		return Box{}, fmt.Errorf("unmarshal box: truncated: %w", ErrUnreadable)
	}
	rest := data[2:]
	take := func(n int) []byte {
		part := rest[:n]
		rest = rest[n:]
		return part
	}
	var box Box
	box.KeyID = string(take(idBytes))
	copy(box.Nonce[:], take(nonceBytes))
	size := binary.BigEndian.Uint32(take(4))
	copy(box.MAC[:], take(macBytes))
	box.Ciphertext = append([]byte(nil), rest...)
	if !validKeyID(box.KeyID) {
		return Box{}, fmt.Errorf("unmarshal box: malformed key id: %w", ErrUnreadable)
	}
	if size > MaxPlaintext {
		return Box{}, fmt.Errorf("unmarshal box: %w", ErrTooLarge)
	}
	box.Size = int(size)
	return box, nil
}
