package schedule

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestAdmit_limits(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		tokens int
		most   int // in flight at once
	}{
		"rollouts":            {Limits{Rollouts: 3}, 10, 3},
		"tokens":              {Limits{Rollouts: 100, Tokens: 25}, 10, 2},
		"larger than allowed": {Limits{Tokens: 5}, 10, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(c.limits)
			var mu sync.Mutex
			var now, peak int
			var wg sync.WaitGroup
			for range 50 {
				release, err := a.Admit(t.Context(), c.tokens)
				if err != nil {
					t.Fatal(err)
				}
				mu.Lock()
				now++
				peak = max(peak, now)
				mu.Unlock()
				wg.Go(func() {
					mu.Lock()
					now--
					mu.Unlock()
					release()
				})
			}
			wg.Wait()
			if peak > c.most {
				t.Errorf("%d in flight, at most %d", peak, c.most)
			}
			if a.rollouts != 0 || a.tokens != 0 || len(a.waiting) != 0 {
				t.Errorf("not given back: %d rollouts, %d tokens, %d waiting", a.rollouts, a.tokens, len(a.waiting))
			}
		})
	}
}

func TestAdmit_fillsTheLimit(t *testing.T) {
	a := New(Limits{Rollouts: 3})
	for range 3 {
		if _, err := a.Admit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if a.rollouts != 3 {
		t.Errorf("%d in flight, want 3", a.rollouts)
	}
}

// A waiter that gives up must neither keep its place nor block those behind it.
func TestAdmit_cancelledWaiterLeaves(t *testing.T) {
	a := New(Limits{Rollouts: 1})
	first, err := a.Admit(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := a.Admit(ctx, 1)
		gone <- err
	}()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	first()
	first() // twice is once
	second, err := a.Admit(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	second()
	if a.rollouts != 0 {
		t.Errorf("%d in flight, want 0", a.rollouts)
	}
}
