// Package sealed turns private or big bodies into boxes that can stand in a
// resource, in etcd and on a watch without showing what is in them (DESIGN.md,
// "Private or big bodies are sealed"): compressed with zstd, encrypted with
// AES-256-GCM under a ring of keys, and bound to the object they belong to.
//
// A box that was changed, cut, moved to another object or field, or sealed under
// a key that the ring has lost does not open: it fails closed, with an error that
// errors.Is tells apart. The package is pure but for the nonces it draws: it has
// no clock and no client, and whoever uses it reads the Secret and stores the box.
//
// Keys are for one purpose each. From every key of the ring HKDF-SHA256 derives
// one for boxes, one for the HMAC of contents and one for fingerprints, and each
// box has a subkey of its own, drawn from its nonce, so random nonces are safe
// for any number of boxes. Beside them stands one name key that never rotates, of
// which names and marks are made that nobody else can make.
package sealed
