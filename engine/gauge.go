package engine

import (
	"sync"
	"time"
)

// Idle is the time with rollouts in flight and none of them waiting for the policy, in
// seconds, by what they did instead. When several did different things, each cause has
// its share of them. It is time that a device stands still for.
type Idle struct {
	Start  float64 `json:"start"`  // opening environments and sandboxes
	Guest  float64 `json:"guest"`  // harness code
	Tool   float64 `json:"tool"`   // tools
	Verify float64 `json:"verify"` // verifiers
}

// Add returns the sum of two.
func (i Idle) Add(o Idle) Idle {
	return Idle{i.Start + o.Start, i.Guest + o.Guest, i.Tool + o.Tool, i.Verify + o.Verify}
}

// Sum is all of it.
func (i Idle) Sum() float64 { return i.Start + i.Guest + i.Tool + i.Verify }

// activity is what a rollout is doing.
type activity int

const (
	away activity = iota // not begun, or over
	starting
	inGuest
	atPolicy
	atTool
	atVerifier
	activities
)

// gauge counts rollouts by what they are doing. Callers bring the time, which they have
// read for other sums anyway: a change costs a lock and an addition.
type gauge struct {
	mu   sync.Mutex
	in   [activities]int
	all  int // of those in flight
	at   time.Time
	idle [activities]float64
}

// move books a rollout's change. The times of several goroutines may come a little out of
// order; the clock here never goes back.
func (g *gauge) move(from, to activity, now time.Time) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := now.Sub(g.at); d > 0 {
		if g.all > 0 && g.in[atPolicy] == 0 {
			share := d.Seconds() / float64(g.all)
			for a := starting; a < activities; a++ {
				g.idle[a] += share * float64(g.in[a])
			}
		}
		g.at = now
	}
	g.in[from]--
	g.in[to]++
	switch {
	case from == away:
		g.all++
	case to == away:
		g.all--
	}
}

// take hands out what was booked and starts over.
func (g *gauge) take() Idle {
	g.mu.Lock()
	defer g.mu.Unlock()
	idle := g.idle
	g.idle = [activities]float64{}
	return Idle{Start: idle[starting], Guest: idle[inGuest], Tool: idle[atTool], Verify: idle[atVerifier]}
}
