package engine

import (
	"slices"
	"testing"
)

// small is a domain of so many training tasks and a tenth as many for choosing.
func small(train int) *Domain {
	d := &Domain{}
	for range train {
		d.Train = append(d.Train, Task{})
	}
	d.Select = d.Train[:train/10]
	return d
}

// A stretch of epochs is a whole number of steps, the nearest one, and never none.
func TestStepsIn(t *testing.T) {
	c := Config{Prompts: 4}
	for epochs, want := range map[float64]int{.6: 6, .25: 3, .24: 2, .01: 1, 0: 1, 1: 10, 2.5: 25} {
		if got := c.StepsIn(epochs, small(43)); got != want {
			t.Errorf("%v epochs are %d steps, want %d", epochs, got, want)
		}
	}
}

// A run ends once the success rate is what was asked for, not only above it, and once the
// next unit does not fit; one that just fits is made.
func TestNext_ends(t *testing.T) {
	c := Config{Condition: "weight-only", Prompts: 4, Samples: 2, Steps: 3, Rollouts: 40, StopAt: .5}
	for name, p := range map[string]struct {
		state State
		more  bool
	}{
		"below":    {State{Reached: .4999}, true},
		"reached":  {State{Reached: .5}, false},
		"just fit": {State{Spent: Spent{Weight: 32}}, true},
		"no room":  {State{Spent: Spent{Weight: 33}}, false},
	} {
		if _, more := c.next(p.state, small(40)); more != p.more {
			t.Errorf("%s: goes on %v, want %v", name, more, p.more)
		}
	}
}

// An adaptive search goes on for Least proposals, then until Patience of them in a row
// brought nothing.
func TestSettled_search(t *testing.T) {
	c := Config{Adaptive: Adaptive{Least: 3, Patience: 2}}
	for _, p := range []struct {
		inPhase, since int // the first unit of a phase proposes nothing
		want           bool
	}{{1, 0, false}, {3, 2, false}, {4, 1, false}, {4, 2, true}, {4, 3, true}, {6, 1, false}} {
		if got := c.settled(HarnessKind, State{InPhase: p.inPhase, Since: p.since}, small(40)); got != p.want {
			t.Errorf("after %d units, %d without gain: settled %v, want %v", p.inPhase, p.since, got, p.want)
		}
	}
}

// A weight phase is over when no average over a window was better for as long as it spans.
func TestSettled_weights(t *testing.T) {
	c := Config{Adaptive: Adaptive{WindowSteps: 2}}
	for _, p := range []struct {
		means []float64
		want  bool
	}{
		{nil, false}, {[]float64{.1, .2, .3, .4, .5, .6}, false},
		{[]float64{.5, .5, .5}, false}, {[]float64{.5, .5, .5, .5}, true}, // no better is not better
		{[]float64{.5, .5, .1, .1}, true}, {[]float64{.5, .5, .1, .95}, false}, {[]float64{.1, .9, .9, .1, .2}, true},
	} {
		if got := c.settled(WeightKind, State{Means: p.means}, small(40)); got != p.want {
			t.Errorf("%v: settled %v, want %v", p.means, got, p.want)
		}
	}
}

// A forecast is of the whole budget: that the run may stop early is not foreseen.
func TestForecast_stopAt(t *testing.T) {
	c := Defaults()
	c.Prompts, c.Samples = 4, 2
	whole := c.Forecast(small(40), State{})
	c.StopAt = .5
	if got := c.Forecast(small(40), State{}); len(whole) < 2 || !slices.Equal(got, whole) {
		t.Errorf("with stop_at %v, without %v", got, whole)
	}
}
