// Package tasks is what `arctl compile` and `arctl task` do: it checks requests
// before they are sent, follows tasks to their end through cuts and failures of
// the connection, and shows them.
package tasks
