// Package compileapi serves OpenViking's Compile and Tasks API over CompileTasks
// (compile-api.md, A to D): one file a resource, each a handler that decodes, asks
// whether the caller may, calls the task store, and encodes.
//
// Beyond that document it serves a wait on one task ("?wait=30s", with ETags), a
// stream of its changes as server-sent events, and lists of a whole namespace for
// those whose RBAC allows it.
//
// Who may see what: a task answers its requester, when RBAC lets them get
// compiletasks/own in the namespace, and those who may get compiletasks/any. For
// everybody else it does not exist, and nothing in the answer tells it from an id
// that nobody has.
package compileapi
