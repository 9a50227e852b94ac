// Package runtime is the built-in executor behind cmd/runtime. This root package
// holds only the seam between its two halves: server (the Runtime protocol:
// sessions, the key ledger, admission) and compile (what a task does). Neither
// half imports the other.
package runtime
