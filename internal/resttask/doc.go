// Package resttask holds what the REST API and the manager agree on about a
// CompileTask that the REST API makes: its name, the mark that proves who made it,
// the digest of its request, and the bodies sealed in it (DESIGN.md, "One identity
// for a task everywhere" and "Private or big bodies are sealed").
//
// The REST API writes all of it, on the caller's behalf; admission checks the mark,
// and the manager checks it again and opens the bodies. The package is pure but for
// the random bytes it draws. No error of it shows any part of a body.
package resttask
