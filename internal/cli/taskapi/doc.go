// Package taskapi is a client of the Compile and Tasks API (compile-api.md, A to
// C) and of what the facade serves beyond it: waits, event streams, cursors.
//
// It follows no redirect, reads no more than it has bounds for, and keeps each
// record's exact text beside the fields it understands.
package taskapi
