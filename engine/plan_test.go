package engine

import "testing"

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
