package worker

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// tick is how often the watch looks, and so how late an interrupt may come.
const tick = 5 * time.Millisecond

// watch ends guest code whose time is used up. At most one session is in guest code.
type watch struct {
	running *abi.Running
	grace   time.Duration

	mu      sync.Mutex
	current *session // in guest code now, or nil
	entered time.Time
}

// enter says that a session goes into guest code.
func (w *watch) enter(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current, w.entered = s, time.Now()
	w.running.Enter(s.id, monotonic()+int64(s.left+w.grace))
}

// leave says that it came out.
func (w *watch) leave(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running.Leave()
	spent := time.Since(w.entered)
	s.left -= spent
	s.spent += spent
	w.current = nil
}

// loop looks for ever whether the current session must be interrupted. The word is
// written again on each look: the interpreter reads it afresh when it starts a function
// of the initialisation, which would forget a single interrupt.
func (w *watch) loop() {
	for range time.Tick(tick) {
		w.mu.Lock()
		if s := w.current; s != nil {
			if time.Since(w.entered) > s.left {
				s.overtime = true
			}
			if (s.overtime || s.cancelled()) && s.word != nil {
				s.word.Add(1)
			}
		}
		w.mu.Unlock()
	}
}

// monotonic is the clock that the engine's process compares with.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0 // can't fail for this clock
	}
	return t.Nano()
}
