package schedule

import "github.com/seed-7c27e6b8/whale/engine/schedule/sensor"

// Trouble is what speaks against much work at once.
type Trouble uint8

// The troubles, the graver the later.
const (
	Quiet    Trouble = iota // none
	PowerCap                // a card runs at its power limit: more work at once gains nothing
	Heat                    // heat or a failing supply slows a card down
	Memory                  // memory is short, for other processes need it
)

// String is the word for it on the terminal.
func (t Trouble) String() string {
	return [...]string{"none", "power limit", "heat", "memory"}[t]
}

// floor is the share of the limits that a trouble leaves at least.
func (t Trouble) floor() float64 {
	return [...]float64{1, .75, .25, .125}[t]
}

// How fast advice takes and gives back: a quarter at once, a sixteenth of all back with
// each quiet sample.
const (
	backOff = .75
	regain  = 1. / 16
)

// Advise tells of the latest sample. Trouble lowers what may be in flight with every
// sample down to its floor; without, it comes back slowly. What is in flight goes on.
func (a *Admission) Advise(t Trouble) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case t == Quiet:
		a.share = min(1, a.share+regain)
	case a.share > t.floor():
		if a.share == 1 {
			a.most = a.rollouts
		}
		a.share = max(t.floor(), a.share*backOff)
	}
	a.admit()
}

// Standing is what an admission does at the moment.
type Standing struct {
	Rollouts, Waiting int
	Share             float64 // of the limits that advice leaves
}

// Standing tells.
func (a *Admission) Standing() Standing {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Standing{a.rollouts, len(a.waiting), a.share}
}

// Memory is short below these shares of all.
const (
	scarce  = .04 // free
	foreign = .05 // held by others on a card, less does not explain anything
	stalled = .2  // of the time, some task waited for memory
)

// Judge reads a sample. own is what this process holds on each card, in bytes; 0 = not
// known. What is not known is no trouble.
func Judge(s sensor.Sample, own float64) Trouble {
	worst := Quiet
	if free, total := s.Host.MemoryFree.Or(1), s.Host.MemoryTotal.Or(0); free < scarce*total || s.Host.Stalled.Or(0) > stalled {
		worst = Memory
	}
	for _, c := range s.Cards {
		worst = max(worst, judgeCard(c, own))
	}
	return worst
}

func judgeCard(c sensor.Card, own float64) Trouble {
	used, known := c.MemoryUsed.Get()
	if total, ok := c.MemoryTotal.Get(); ok && known && total-used < scarce*total {
		others := c.Others.Or(0)
		if own > 0 {
			others = c.Others.Or(used - own)
		}
		if others > foreign*total {
			return Memory
		}
	}
	switch {
	case c.Throttled(sensor.ThrottleHeat), c.Throttled(sensor.ThrottleBrake):
		return Heat
	case c.Throttled(sensor.ThrottleCap):
		return PowerCap
	}
	return Quiet
}
