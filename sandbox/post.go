package sandbox

import (
	"context"
	"runtime"
	"sync"

	"github.com/seed-7c27e6b8/whale/engine"
)

// post is the place of one worker process; when the process has died, the next to need
// it starts another.
type post struct {
	config   Config
	compiles bool          // its worker runs compiled candidates
	starts   chan<- func() // run on the thread that workers depend on

	mu      sync.Mutex
	current *process
	closed  bool
}

// start runs functions on one thread until done is closed: a worker dies with the thread
// that started it, and the runtime may end any other thread.
func start(functions <-chan func(), done <-chan struct{}) {
	runtime.LockOSThread()
	for {
		select {
		case f := <-functions:
			f()
		case <-done:
			return
		}
	}
}

// process gives the living process of the post and waits until it is ready.
func (w *post) process(ctx context.Context) (*process, error) {
	p, err := w.living()
	if err != nil {
		return nil, err
	}
	select {
	case <-p.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.gone() {
		_, failure := p.why()
		return nil, failure
	}
	return p, nil
}

func (w *post) living() (*process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errClosed
	}
	if w.current != nil && !w.current.gone() {
		return w.current, nil
	}
	type started struct {
		p   *process
		err error
	}
	result := make(chan started, 1)
	w.starts <- func() {
		p, err := startProcess(w.config, w.compiles)
		result <- started{p, err}
	}
	s := <-result
	w.current = s.p
	return s.p, s.err
}

// load is how many sessions are open on the post; missing is what the lack of a program's
// image adds.
func (w *post) load(id engine.HarnessID, missing int) int {
	if p := w.peek(); p != nil {
		return p.load(id, missing)
	}
	return missing
}

// peek gives the current process, which may be dead, or nil.
func (w *post) peek() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

func (w *post) killOverdue() {
	if p := w.peek(); p != nil {
		p.killOverdue(w.config.Limits)
	}
}

// close ends the process and waits until it is gone.
func (w *post) close() error {
	w.mu.Lock()
	p := w.current
	w.closed = true
	w.mu.Unlock()
	if p == nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	<-p.dead
	if err == nil || isDone(err) {
		return nil
	}
	return err
}
