// Package server is the Runtime execution protocol's server side (compile-api.md,
// section E.1): it admits tasks, runs them through a runtime.Engine, and answers
// status and cancel. Beside it stands the part of OpenViking's file API that reads
// (package fileapi), under the same rules.
//
// Who is calling is settled in two steps. The gateway rule (A.7) says whether the
// caller may talk to this server at all: with the gateway token, or, when both
// ends are on loopback, without. Then the user is found, in this order:
//
//   - X-OpenViking-Account and X-OpenViking-User together, from a caller that
//     showed the gateway token (or is exempt from it, when Config says so). The
//     user is a viking user id; a credential sent beside them is not looked at.
//   - A Kubernetes token in X-API-Key (else Authorization: Bearer), when a
//     TokenVerifier is configured. The user is viking.UserID of its name.
//   - Any key, when none is configured: the user is "key-" and 32 hex digits of
//     the key's SHA-256, so the same key is the same user.
//
// The account is the trusted account header, else the namespace of a
// ServiceAccount, else Config.DefaultAccount. Headers that are not trusted are
// ignored. No credential is stored, logged, or handed to the engine.
//
// A session is found only by the user who created it; to anyone else it is as
// unknown as an id that never was. Finished sessions can be read for a day; after
// that a replayed key still gets the same session id, whose status is 404.
package server
