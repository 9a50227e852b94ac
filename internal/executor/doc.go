// Package executor is what a controller calls to run work outside the cluster:
// one small interface, and its client of the Runtime execution protocol
// (compile-api.md, section E.2).
//
// The package never repeats a call by itself. Whoever calls decides, from
// IsTransient and RetryAfter, whether and when to call again, so that a create is
// sent exactly as often as the caller asked for it.
//
// No credential leaves through an error, a log line or an observation's text:
// everything an executor says about itself passes Redact first. Meta and Result
// are handed on as they came; RedactJSON is for them, since only the caller knows
// all the secrets of a task.
package executor
