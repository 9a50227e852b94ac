// Package content is how the facade looks files up in a runtime's content store, as
// the user who asks, before it creates a task (compile-api.md, B.3, steps 9 to 12).
package content
