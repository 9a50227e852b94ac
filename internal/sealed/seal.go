package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// saltBytes of a nonce choose a box's subkey; the rest is GCM's own nonce.
const saltBytes = 12

// Binding names the place a body belongs to. A box opens under the very binding
// it was sealed under, so it cannot be moved to another object or field.
type Binding struct {
	// Namespace and Kind are the object's; Namespace is empty for a cluster's.
	Namespace, Kind string
	// Name is the object's name. It must be known before sealing.
	Name string
	// UID is the object's uid; empty when the body is sealed before the API
	// server has given one, and then it stays empty for that body.
	UID string
	// Field is the path of the field that the body stands for: "spec.args".
	Field string
}

// encode writes every part with its length, so that no two bindings are alike.
func (b Binding) encode() []byte {
	var out []byte
	for _, part := range []string{b.Namespace, b.Kind, b.Name, b.UID, b.Field} {
		out = appendPart(out, part)
	}
	return out
}

func (b Binding) check() error {
	if b.Kind == "" || b.Name == "" || b.Field == "" {
		return errors.New("binding has no kind, name or field")
	}
	return nil
}

func appendPart[T string | []byte](out []byte, part T) []byte {
	out = binary.BigEndian.AppendUint64(out, uint64(len(part)))
	return append(out, part...)
}

// Seal compresses and encrypts a body under the primary key, bound to its place.
// Two calls never return the same box. A body of more than MaxPlaintext bytes is
// refused with ErrTooLarge; an incomplete binding is an error of the caller.
func (k *KeyRing) Seal(plaintext []byte, aad Binding) (Box, error) {
	if len(plaintext) > MaxPlaintext {
		return Box{}, fmt.Errorf("seal: %w", ErrTooLarge)
	}
	if err := aad.check(); err != nil {
		return Box{}, fmt.Errorf("seal: %w", err)
	}
	box := Box{KeyID: k.primary.id, Size: len(plaintext), MAC: k.primary.contentMAC(aad, plaintext)}
	return k.primary.encrypt(box, k.codec.compress(plaintext), aad)
}

// encrypt fills in a box's nonce and ciphertext.
func (r *ringKey) encrypt(box Box, compressed []byte, aad Binding) (Box, error) {
	// crypto/rand never fails: it ends the process instead.
	_, _ = rand.Read(box.Nonce[:])
	gcm, err := r.gcm(box.Nonce)
	if err != nil {
		return Box{}, fmt.Errorf("seal: %w", err)
	}
	box.Ciphertext = gcm.Seal(nil, box.Nonce[saltBytes:], compressed, box.additionalData(aad))
	return box, nil
}

// Open returns the body of a box. Errors are ErrUnknownKey; ErrUnreadable, when the
// box was changed or sealed for another place; and ErrTooLarge. Memory is bounded
// by the box's length and its Size, which is at most MaxPlaintext.
func (k *KeyRing) Open(box Box, aad Binding) ([]byte, error) {
	if box.Size < 0 || box.Size > MaxPlaintext || len(box.Ciphertext) > MaxBoxBytes {
		return nil, fmt.Errorf("open: %w", ErrTooLarge)
	}
	key, err := k.key(box.KeyID)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	gcm, err := key.gcm(box.Nonce)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	compressed, err := gcm.Open(nil, box.Nonce[saltBytes:], box.Ciphertext, box.additionalData(aad))
	if err != nil {
		return nil, fmt.Errorf("open: authentication: %w", ErrUnreadable)
	}
	plaintext, err := k.codec.decompress(compressed, box.Size)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	if mac := key.contentMAC(aad, plaintext); !hmac.Equal(mac[:], box.MAC[:]) {
		return nil, fmt.Errorf("open: content differs from its HMAC: %w", ErrUnreadable)
	}
	return plaintext, nil
}

// Matches reports, without opening the box, whether it was sealed for this place
// from exactly this body. It errs with ErrUnknownKey. The comparison takes the
// same time wherever the two differ.
func (k *KeyRing) Matches(box Box, aad Binding, plaintext []byte) (bool, error) {
	key, err := k.key(box.KeyID)
	if err != nil {
		return false, fmt.Errorf("compare with box: %w", err)
	}
	mac := key.contentMAC(aad, plaintext)
	return hmac.Equal(mac[:], box.MAC[:]), nil
}

// gcm makes the cipher of one box from the first part of its nonce.
func (r *ringKey) gcm(nonce [nonceBytes]byte) (cipher.AEAD, error) {
	subkey, err := hkdf.Expand(sha256.New, r.box, string(nonce[:saltBytes]), KeyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive box key: %w", err)
	}
	block, err := aes.NewCipher(subkey)
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

// additionalData is what GCM authenticates beside the ciphertext: the header with
// its version, and the place.
func (b Box) additionalData(aad Binding) []byte {
	return append(appendPart(nil, b.appendHeader(nil)), aad.encode()...)
}

// contentMAC covers the place as well as the body. Otherwise whoever sees HMACs
// and may create objects could seal guesses and compare.
func (r *ringKey) contentMAC(aad Binding, plaintext []byte) (sum [macBytes]byte) {
	mac := hmac.New(sha256.New, r.content)
	mac.Write(appendPart(nil, aad.encode()))
	mac.Write(plaintext)
	mac.Sum(sum[:0])
	return sum
}
