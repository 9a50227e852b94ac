// Package compiletask reconciles CompileTasks: it has an executor do each one and
// records what becomes of it.
//
// A pass over a task observes (the object, its runtime, what calls under way have
// answered), decides in pure functions (queue.go: whose turn it is; decide.go:
// what follows from an executor's answers), and acts (a write to the API server,
// or a call begun on a goroutine of the caller, whose end asks for another pass).
// No pass waits for an executor, and there is no goroutine per task: polls that
// are not held wait in the work queue.
//
// What makes work happen at most once is the task's id, which is the executor's
// idempotency key, and the rule that whatever makes repeating a call safe is on
// record in the API server before the call leaves (claim.go). What this process
// knows beyond the objects (attempt.go) can be lost at any time.
package compiletask
