// Package schedule decides how many rollouts are in flight. More of them fill the
// policy's batches, each holds memory for its tokens; so both are limited: by settings, by
// what the policy says of its own queue and cache, and by advice from sensors when others
// need the machine or it runs hot.
//
// It may know numbers only: no tasks, no harnesses, no model. Results do not depend on
// it, only how long they take.
//
// Not covered: rollouts in flight are never stopped or paused; which of their calls the
// device takes first is the policy's business.
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

// Load is the policy's own account of its work.
type Load struct {
	Running int // calls that the device works on
	Waiting int // calls that wait for a place
	Used    int // cache tokens held by running calls
	Room    int // cache tokens in all; 0 = it grows as needed
}

// Queue is a policy that knows its load. It answers at once.
type Queue interface{ Load() Load }

// Admission admits rollouts in the order they ask. It is safe for use from many
// goroutines.
type Admission struct {
	limits Limits
	queue  Queue // may be nil

	mu       sync.Mutex
	rollouts int
	tokens   int
	waiting  []*waiter // oldest first
	share    float64   // of the limits that advice leaves, in (0,1]
	most     int       // rollouts in flight before the advice, where no limit says
}

type waiter struct {
	tokens int
	ready  chan struct{} // closed when admitted
}

// New returns an admission with these limits.
func New(l Limits) *Admission { return NewQueued(l, nil) }

// NewQueued returns an admission that also asks the policy's queue; nil = none.
func NewQueued(l Limits, q Queue) *Admission { return &Admission{limits: l, queue: q, share: 1} }

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

// admit lets in the oldest waiters as far as they fit; a.mu is held. One rollout is always
// let in, so waiting for those in flight comes to an end.
func (a *Admission) admit() {
	for len(a.waiting) > 0 {
		w := a.waiting[0]
		if a.rollouts > 0 && (!a.fits(w) || a.crowded()) {
			return
		}
		a.waiting = a.waiting[1:]
		a.rollouts++
		a.tokens += w.tokens
		close(w.ready)
	}
}

// fits says whether limits and advice leave room for one more.
func (a *Admission) fits(w *waiter) bool {
	rollouts, tokens := a.limits.Rollouts, float64(a.limits.Tokens)
	if rollouts == 0 && a.share < 1 {
		rollouts = a.most
	}
	return (rollouts == 0 || a.rollouts < max(1, int(a.share*float64(rollouts)))) &&
		(tokens == 0 || float64(a.tokens+w.tokens) <= a.share*tokens)
}

// crowded says that calls wait because the cache is full: one more rollout would wait too,
// and push prompts out of the cache that those in flight come back to.
func (a *Admission) crowded() bool {
	if a.queue == nil {
		return false
	}
	l := a.queue.Load()
	return l.Waiting > 0 && l.Room > 0 && l.Used >= l.Room-l.Room/8
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
