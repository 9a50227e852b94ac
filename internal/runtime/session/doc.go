// Package session is the durable memory of the built-in executor: what became of
// each task, and which session an Idempotency-Key led to (compile-api.md, E.1).
//
// Two things are kept apart, because they live for different times. A session
// record answers status and cancel; it goes soon after the task ended. A ledger
// entry says only "this user's key led to that session" and outlives it by days,
// so a late replay of a key is never executed a second time.
//
// Nothing here is a credential: users appear as a hash (Scope), keys as a hash of
// scope and key (Key), and the task's arguments are not stored at all, since a
// task is never resumed after a restart (E.1.5).
package session
