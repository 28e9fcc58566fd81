package abi

import (
	"sync/atomic"
	"unsafe"
)

// RunningSize is the size in bytes of the memory that holds a Running.
const RunningSize = 4096

// Running is a few words of memory shared between the engine's process and a worker: which
// session is in guest code and until when it may be. The worker writes, the engine
// reads; so the engine notices a guest that can't be stopped even when nothing in the
// worker runs any more.
type Running struct {
	session  atomic.Uint32 // 0 = none
	deadline atomic.Int64  // nanoseconds of the worker's processor time
}

// RunningAt interprets shared memory of at least RunningSize bytes, 8-byte aligned.
func RunningAt(memory []byte) *Running {
	return (*Running)(unsafe.Pointer(unsafe.SliceData(memory)))
}

// Enter says that a session is in guest code.
func (r *Running) Enter(session uint32, deadline int64) {
	r.deadline.Store(deadline)
	r.session.Store(session)
}

// Leave says that no guest code runs.
func (r *Running) Leave() { r.session.Store(0) }

// Overdue is the session that is in guest code after its deadline, 0 = none.
func (r *Running) Overdue(now int64) uint32 {
	session := r.session.Load()
	if session == 0 || now < r.deadline.Load() || r.session.Load() != session {
		return 0
	}
	return session
}
