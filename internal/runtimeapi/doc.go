// Package runtimeapi holds the wire types of the Runtime execution protocol
// (compile-api.md, section E), shared by its client (internal/executor) and its
// server (internal/runtime).
//
// The protocol has three POST routes. A task is created under an
// Idempotency-Key, which answers with the executor's session id; that session is
// then read and cancelled. Two standard preferences extend it (RFC 7240), both
// optional for a server and harmless to one that does not know them:
//
//   - "Prefer: wait=N" on the status route asks the server to hold the answer up
//     to N seconds. Without If-None-Match it answers at the task's end; with the
//     ETag of an earlier answer it answers at the next change of status, stage,
//     error, meta or result. A server that understands the preference says so
//     with Preference-Applied on every answer of the route, errors included,
//     which is how a client learns that polls can be held. The one exception is
//     an answer that would have been held but that a busy or stopping server
//     gave at once: without the header, so that the client paces itself.
//   - The ETag of a status answer names that state.
package runtimeapi
