package engine

import (
	"math"
	"testing"
	"time"
)

// Idle time is what passes with no rollout at the policy, shared among what they do.
func TestGauge(t *testing.T) {
	var g gauge
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * 1e9)) }
	for _, m := range []struct {
		from, to activity
		at       float64
	}{
		{away, starting, 0}, {starting, inGuest, 1}, // 1 s of start
		{away, starting, 3}, {starting, inGuest, 3}, // 2 s of guest
		{inGuest, atTool, 4},   // 1 s of guest
		{inGuest, atPolicy, 6}, // 2 s, half guest and half tool
		{atTool, inGuest, 7},   // none: a call is out
		{atPolicy, inGuest, 6.5},
		{inGuest, atVerifier, 8}, // 1 s of guest: the clock had seen 7
		{inGuest, atPolicy, 10},  // 2 s, half guest and half verify
		{atVerifier, away, 11}, {atPolicy, inGuest, 12}, {inGuest, atVerifier, 12}, {atVerifier, away, 12.5},
		{away, starting, 20}, {starting, away, 21}, // a pause is nobody's idle time
	} {
		g.move(m.from, m.to, at(m.at))
	}
	want := Idle{Start: 2, Guest: 2 + 1 + 1 + 1 + 1, Tool: 1, Verify: 1 + .5}
	got := g.take()
	if math.Abs(got.Start-want.Start)+math.Abs(got.Guest-want.Guest)+math.Abs(got.Tool-want.Tool)+math.Abs(got.Verify-want.Verify) > 1e-9 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if g.take() != (Idle{}) {
		t.Error("taken twice")
	}
	var none *gauge
	none.move(away, starting, at(0)) // a session without a pool
}

// What the ledger adds to a rollout of four turns with two tools, whatever the model:
// the changes of the gauge, the sums, the clock readings that nobody else needs.
func BenchmarkLedger_rollout(b *testing.B) {
	var g gauge
	var sum Cost
	one := Cost{Prompt: 100, Cached: 50, Sampled: 10, DeviceSeconds: .1}
	for b.Loop() {
		now := time.Now()
		g.move(away, starting, now)
		g.move(starting, inGuest, time.Now())
		for range 4 {
			g.move(inGuest, atPolicy, now)
			g.move(atPolicy, inGuest, now)
		}
		for range 2 {
			g.move(inGuest, atTool, now)
			g.move(atTool, inGuest, now)
		}
		g.move(inGuest, atVerifier, time.Now())
		g.move(atVerifier, away, time.Now())
		sum = sum.Add(one)
	}
}
