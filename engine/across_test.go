package engine

import (
	"math"
	"testing"
)

func TestAcrossRuns(t *testing.T) {
	run := func(mean float64) Interval { return Interval{Mean: mean, Lo: mean - .1, Hi: mean + .1, N: 80} }
	for _, c := range []struct {
		name         string
		runs         []Interval
		mean, lo, hi float64
		n            int
	}{
		// t(2) = 4.303, standard deviation .1: half = 4.303 * .1 / sqrt(3) = .2484
		{"three seeds", []Interval{run(.4), run(.5), run(.6)}, .5, .2516, .7484, 240},
		{"cut at one", []Interval{run(.9), run(1), run(.95)}, .95, .8258, 1, 240},
		{"one run keeps its own", []Interval{run(.4)}, .4, .3, .5, 80},
		{"not measured is left out", []Interval{run(.4), run(.6), {}}, .5, 0, 1, 160},
		{"two that agree", []Interval{run(.5), run(.5)}, .5, .5, .5, 160},
		{"nothing", nil, 0, 0, 1, 0},
	} {
		got := Across(c.runs)
		for _, p := range [][2]float64{{got.Mean, c.mean}, {got.Lo, c.lo}, {got.Hi, c.hi}} {
			if math.Abs(p[0]-p[1]) > 5e-5 {
				t.Errorf("%s: %+v, want mean %v in [%v, %v]", c.name, got, c.mean, c.lo, c.hi)
			}
		}
		if got.N != c.n {
			t.Errorf("%s: n %d, want %d", c.name, got.N, c.n)
		}
	}
}
