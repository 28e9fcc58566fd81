package report

import "time"

// Work counts rollouts by kind, planned or done.
type Work struct{ Weight, Harness, Test int }

// Total is all of it.
func (w Work) Total() int { return w.Weight + w.Harness + w.Test }

func (w Work) of(k PhaseKind) int {
	switch k {
	case WeightPhase:
		return w.Weight
	case HarnessPhase:
		return w.Harness
	}
	return w.Test
}

var workKinds = [...]PhaseKind{WeightPhase, HarnessPhase, TestWork}

// pace estimates the time left from what each kind of work has taken so far. A rollout
// that is also trained on costs more than one that only chooses between harnesses, so
// the kinds are timed apart; a kind not met yet is taken at the average of the others.
type pace struct {
	spent [len(workKinds)]time.Duration // by kind
	first Work                          // done before the clock started: a resumed run
	last  time.Time
	done  Work
	kind  PhaseKind // running since last
	begun bool
}

// see records that the work up to now was done, and that kind goes on from here.
func (p *pace) see(now time.Time, kind PhaseKind, done Work) {
	if !p.begun {
		p.begun, p.first = true, done
	} else if d := now.Sub(p.last); d > 0 {
		p.spent[index(p.kind)] += d
	}
	p.last, p.done, p.kind = now, done, kind
}

// left is the time that the rest of the plan takes at the pace so far; ok is false as
// long as nothing has been done to judge by.
func (p *pace) left(now time.Time, plan Work) (left time.Duration, ok bool) {
	done := p.done.Total() - p.first.Total()
	if !p.begun || done <= 0 {
		return 0, false
	}
	total := time.Duration(0)
	for _, d := range p.spent {
		total += d
	}
	average := total.Seconds() / float64(done)
	seconds := 0.0
	for i, k := range workKinds {
		each := average
		if n := p.done.of(k) - p.first.of(k); n > 0 && p.spent[i] > 0 {
			each = p.spent[i].Seconds() / float64(n)
		}
		seconds += each * float64(max(0, plan.of(k)-p.done.of(k)))
	}
	seconds -= now.Sub(p.last).Seconds() // between two reports time goes on
	return time.Duration(max(0, seconds) * float64(time.Second)), total > 0
}

func index(k PhaseKind) int {
	for i := range workKinds {
		if workKinds[i] == k {
			return i
		}
	}
	return len(workKinds) - 1
}

// speed is tokens per second over the last few seconds.
type speed struct{ seen []reading }

type reading struct {
	at     time.Time
	tokens int
}

const speedWindow = 10 * time.Second

func (s *speed) see(at time.Time, tokens int) {
	s.seen = append(s.seen, reading{at, tokens})
	for len(s.seen) > 2 && at.Sub(s.seen[1].at) >= speedWindow {
		s.seen = s.seen[1:]
	}
}

func (s *speed) perSecond() float64 {
	if len(s.seen) < 2 {
		return 0
	}
	a, b := s.seen[0], s.seen[len(s.seen)-1]
	if d := b.at.Sub(a.at).Seconds(); d > 0 && b.tokens > a.tokens {
		return float64(b.tokens-a.tokens) / d
	}
	return 0
}
