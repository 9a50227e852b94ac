// Package fakeruntime is a programmable executor over real HTTP: it speaks the
// Runtime execution protocol (compile-api.md, E.1), does no work, and misbehaves
// where a test tells it to.
//
// It honours keys as the protocol says, one session and one execution per user and
// key, but it does not forgive: every create it receives is counted, and a task is
// also known by its target, so that a report shows a task that was executed under
// two keys.
//
// A task's life is a script of steps, each taken after a time or by Advance. It is
// worked out when somebody looks, so ten thousand running tasks cost no timer and
// no goroutine.
package fakeruntime
