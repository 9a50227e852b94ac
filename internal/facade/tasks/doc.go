// Package tasks is the store through which the facade reads and writes CompileTasks
// (DESIGN.md, "Who may do what", 3 and 4, and "One identity for a task everywhere").
//
// Reads come from an informer, whose events feed an ordered index: by wire id, and
// newest first by namespace and by requester. A read of one task makes no API call
// when the index has a state that is as new as this process's own last write;
// otherwise it is a live GET, so that a client always reads its own write. Writes go
// to the API server as the user they are for. What changes is pushed to those who
// watch a task, with no goroutine for each of them.
//
// Tasks are returned as they are shared: nobody may change them, and since they are
// trimmed nobody may write them back.
package tasks
