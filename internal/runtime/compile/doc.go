// Package compile is the engine of the built-in executor: it turns sources into
// files of a target, following a Skill (compile-api.md, section F).
//
// The [Engine] does what every compile needs: it checks a task, reads the Skill,
// takes stock of sources and target, checks the output and writes what changed.
// What the output says is a [Compiler]'s to decide. One that needs no model is in
// the extractive package.
package compile
