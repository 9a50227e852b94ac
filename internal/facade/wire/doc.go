// Package wire is the envelope of the facade's dialects: what a success and an
// error look like, and which HTTP status belongs to which code (compile-api.md,
// section A).
//
// Handlers return *Error for what a client should be told; every other error is
// answered as INTERNAL, with nothing of it shown.
package wire
