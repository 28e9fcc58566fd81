// Package abi is the language that the engine's process, its sandbox workers and the
// guest inside a worker speak: one compact binary form for every message, written by
// hand so that the guest needs nothing but the standard library.
//
//	engine process  ⇄  worker process      frames over a socket (Frame, ReadFrame)
//	worker process  ⇄  guest (wasm)        bytes in the guest's memory
//
// A call that a harness makes travels from guest to engine as one Request that the
// worker passes on unread, and comes back as one Answer. Everything is decoded as
// foreign: a decoder never panics, never allocates more than the bytes it was given
// can hold, and reports what was wrong.
//
// abi doesn't know what a harness is, where the bytes go, nor which limits apply.
// It has no forward compatibility: both ends are built from one tree, and Version only
// tells a guest image of another build apart.
package abi

// Version changes whenever a message changes its form.
const Version = 2
