// Package crash ends the process it runs in at a named point of the CompileTask
// controller's work. It does so from wrappers around what the controller is given,
// its client and its executors, so that the controller itself has no hooks.
package crash
