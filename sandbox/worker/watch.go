package worker

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// tick is how often the watch looks, and so how late an interrupt may come.
const tick = 5 * time.Millisecond

// exact is how much time may pass between two looks at the processor's clock, which is a
// system call: what is shorter is measured by the clock on the wall, so a stay in guest code
// is charged at most that much too little or too much.
const exact = 250 * time.Microsecond

// watch ends guest code whose time is used up. At most one session is in guest code, always
// on the same thread. Time is that thread's processor time: a guest can't
// sleep, and a busy machine must not make a harness look slow.
type watch struct {
	running *abi.Running
	thread  int // that runs guest code

	mu      sync.Mutex
	current *session      // in guest code now, or nil
	entered time.Duration // the thread's processor time then
	at      time.Duration // wall time then
	seen    time.Duration // processor time of the last look at it
	seenAt  time.Duration // wall time of it
}

// enter says that a session goes into guest code.
func (w *watch) enter(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = s
	w.at = wall()
	if w.at-w.seenAt > exact {
		w.look()
	}
	w.entered = w.seen + w.at - w.seenAt
	w.running.Enter(s.id)
}

// leave says that it came out.
func (w *watch) leave(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running.Leave()
	spent := wall() - w.at
	if spent > exact {
		w.look()
		spent = max(w.seen-w.entered, 0)
	}
	s.left -= spent
	s.spent += spent
	w.current = nil
}

// look reads the processor's clock.
func (w *watch) look() { w.seen, w.seenAt = readClock(unix.CLOCK_THREAD_CPUTIME_ID), wall() }

var began = time.Now()

func wall() time.Duration { return time.Since(began) }

// loop looks for ever whether the current session must be interrupted. The word is
// written again on each look: the interpreter reads it afresh when it starts a function
// of the initialisation, which would forget a single interrupt.
func (w *watch) loop() {
	for range time.Tick(tick) {
		w.mu.Lock()
		if s := w.current; s != nil {
			if readClock(threadClock(w.thread))-w.entered > s.left {
				s.overtime = true
			}
			if w.running.Interrupted() == s.id {
				s.cancelled = true
			}
			if (s.overtime || s.cancelled) && s.word != nil {
				s.word.Add(1)
			}
		}
		w.mu.Unlock()
	}
}

// threadClock names the processor clock of a thread of this process (the kernel's
// encoding: ones' complement of the id, three bits of flags).
func threadClock(tid int) int32 { return int32(^tid<<3 | 6) }

func readClock(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0 // only for a thread that is gone, which is not in guest code
	}
	return time.Duration(t.Nano())
}
