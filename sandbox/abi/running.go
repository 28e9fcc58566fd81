package abi

import (
	"sync/atomic"
	"unsafe"
)

// RunningSize is the size in bytes of the memory that holds a Running.
const RunningSize = 4096

// Running is a few words of memory shared between the engine's process and a worker: which
// session is in guest code. The worker writes, the engine reads and may ask for an interrupt; so the engine notices a
// guest that can't be stopped even when nothing in the worker runs any more.
type Running struct {
	session atomic.Uint32 // 0 = none
	entries atomic.Uint32 // how often guest code was entered

	interrupted atomic.Uint32 // session that must end, or 0; written by the engine
}

// RunningAt interprets shared memory of at least RunningSize bytes, 4-byte aligned.
func RunningAt(memory []byte) *Running {
	return (*Running)(unsafe.Pointer(unsafe.SliceData(memory)))
}

// Enter says that a session goes into guest code.
func (r *Running) Enter(session uint32) {
	r.entries.Add(1)
	r.session.Store(session)
}

// Leave says that no guest code runs.
func (r *Running) Leave() { r.session.Store(0) }

// Interrupt asks the worker to end a session that is in guest code. It may be lost, so
// whoever asks does so until the guest is out.
func (r *Running) Interrupt(session uint32) { r.interrupted.Store(session) }

// Interrupted is the session that must end.
func (r *Running) Interrupted() uint32 { return r.interrupted.Load() }

// Stay is one stay of a session in guest code; the zero value is none.
type Stay struct{ Session, Entry uint32 }

// Now is the stay in progress: two equal results mean that the guest did not come out in
// between.
func (r *Running) Now() Stay {
	s := Stay{Session: r.session.Load(), Entry: r.entries.Load()}
	if s.Session == 0 || r.session.Load() != s.Session {
		return Stay{}
	}
	return s
}
