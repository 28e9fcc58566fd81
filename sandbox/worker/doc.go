// Package worker is the process in which guests run: the same binary, started again by
// package sandbox with one environment variable set.
//
// Compiled guest code can't be preempted, so nothing that has to wait for it may live in
// the engine's process: a garbage collection there would hang as long as a guest loops.
// Here, one loop runs the guests in turn, each up to its next request; the automatic
// collector is off and the loop collects between two guests. A watch ends a guest whose
// time is used up by writing the interpreter's run id; what does not react to that is
// ended by the engine's process, which kills this one.
//
// worker doesn't know what a task, a reply or a limit is for: it passes requests on
// unread and counts.
//
// Not covered: a guest that breaks out of wazero's compiled code has what this process
// has (confine.go, landlock.go, seccomp.go): memory, its socket, the sessions beside it.
package worker
