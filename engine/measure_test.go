package engine

import (
	"math"
	"testing"
)

// points is a state with a point for each pair of select and test means; below 0 = not
// measured.
func points(means ...[2]float64) *State {
	s := &State{}
	for i, m := range means {
		s.Points = append(s.Points, Point{Saved: string(rune('a' + i))})
		for j, split := range []Split{Select, Test} {
			if m[j] >= 0 {
				s.Measured = append(s.Measured, Measure{Point: i, Split: split, Score: Score{Mean: m[j], N: 10, K: 2}})
			}
		}
	}
	return s
}

// The best point is chosen by the select split alone; of equals the later one, and without
// any measurement the last.
func TestBest(t *testing.T) {
	for name, c := range map[string]struct {
		state *State
		want  int
	}{
		"select decides, not test":  {points([2]float64{.2, .1}, [2]float64{.6, .3}, [2]float64{.5, .9}), 1},
		"the later of equals":       {points([2]float64{.6, .9}, [2]float64{.2, .1}, [2]float64{.6, .3}), 2},
		"equals before the last":    {points([2]float64{.6, .9}, [2]float64{.6, .1}, [2]float64{.2, .3}), 1},
		"nothing measured":          {points([2]float64{-1, .9}, [2]float64{-1, .1}), 1},
		"one not measured is no 0":  {points([2]float64{-1, -1}, [2]float64{0, 0}), 1},
		"the start may be the best": {points([2]float64{.6, .1}, [2]float64{.2, .9}), 0},
	} {
		if got := c.state.Best(); got != c.want {
			t.Errorf("%s: point %d, want %d", name, got, c.want)
		}
	}
}

// A point that turns out to be the best of a run that went on is measured again with more
// samples; what was measured with enough stays.
func TestMeasured(t *testing.T) {
	s := points([2]float64{.5, .5})
	for samples, want := range map[int]bool{1: true, 2: true, 8: false} {
		if got := s.measured(measurement{0, Test, samples}); got != want {
			t.Errorf("measured with 2 samples, %d wanted: enough is %v", samples, got)
		}
	}
}

// The interval of a difference stands on the sides of the two intervals that face its ends.
func TestGap(t *testing.T) {
	g := gap(Interval{Mean: .9, Lo: .8, Hi: .95, N: 64}, Interval{Mean: .7, Lo: .4, Hi: .8, N: 80})
	if !near(g.Mean, .2, 1e-12) || !near(g.Lo, .2-math.Hypot(.1, .1), 1e-12) || !near(g.Hi, .2+math.Hypot(.05, .3), 1e-12) || g.N != 64 {
		t.Errorf("%+v", g)
	}
	if none := gap(Interval{}, Interval{Mean: .7, N: 80}); none != (Interval{}) {
		t.Errorf("of nothing measured: %+v", none)
	}
}

// Luck is bounded by the p of each candidate where that is strict, and by the incumbent's own
// chance to be in front where any gain will do.
func TestLuckAccepts(t *testing.T) {
	for p, want := range map[float64]float64{1: .75, .05: .15, .25: .75, .2: .6} {
		if got := (Config{Candidates: 3, AcceptP: p}).LuckAccepts(); !near(got, want, 1e-12) {
			t.Errorf("3 candidates at p %v: %v, want %v", p, got, want)
		}
	}
}
