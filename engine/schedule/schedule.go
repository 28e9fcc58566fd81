// Package schedule decides how many rollouts are in flight. More of them fill the
// policy's batches, each holds memory for its tokens; so both are limited.
//
// It may know numbers only: no tasks, no harnesses, no model. Results do not depend on
// it, only how long they take.
//
// Not covered: readings from a device. A limit that follows free memory or load would
// be another type with the same method.
package schedule

import (
	"context"
	"sync"
)

// Limits are what may be in flight at once; 0 = no limit.
type Limits struct {
	Rollouts int
	Tokens   int // assistant tokens that the rollouts in flight may write at most
}

// Admission admits rollouts in the order they ask. It is safe for use from many
// goroutines.
type Admission struct {
	limits Limits

	mu       sync.Mutex
	rollouts int
	tokens   int
	waiting  []*waiter // oldest first
}

type waiter struct {
	tokens int
	ready  chan struct{} // closed when admitted
}

// New returns an admission with these limits.
func New(l Limits) *Admission { return &Admission{limits: l} }

// Admit waits for a place for a rollout that may write so many tokens and returns what
// gives the place back, which may be called more than once. A rollout larger than the
// token limit runs alone rather than never. It fails only with the context's error.
func (a *Admission) Admit(ctx context.Context, tokens int) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{tokens: tokens, ready: make(chan struct{})}
	a.mu.Lock()
	a.waiting = append(a.waiting, w)
	a.admit()
	a.mu.Unlock()
	var once sync.Once
	release = func() { once.Do(func() { a.leave(w) }) }
	select {
	case <-w.ready:
		return release, nil
	case <-ctx.Done():
		release()
		return nil, ctx.Err()
	}
}

// admit lets in the oldest waiters as far as they fit; a.mu is held.
func (a *Admission) admit() {
	for len(a.waiting) > 0 {
		w := a.waiting[0]
		full := a.limits.Rollouts > 0 && a.rollouts >= a.limits.Rollouts
		heavy := a.limits.Tokens > 0 && a.rollouts > 0 && a.tokens+w.tokens > a.limits.Tokens
		if full || heavy {
			return
		}
		a.waiting = a.waiting[1:]
		a.rollouts++
		a.tokens += w.tokens
		close(w.ready)
	}
}

// leave takes a waiter out, whether it was admitted or still waits.
func (a *Admission) leave(w *waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-w.ready:
		a.rollouts--
		a.tokens -= w.tokens
	default:
		for i, o := range a.waiting {
			if o == w {
				a.waiting = append(a.waiting[:i:i], a.waiting[i+1:]...)
				break
			}
		}
	}
	a.admit()
}
