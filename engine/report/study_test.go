package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

// member is a run of a study that ends at a mean, with four test tasks of two samples of
// which the first `right` samples are right.
func member(condition string, seed uint64, steps int, final float64, right int) Member {
	r := sampleRun()
	m := Member{Config: r.Config, Summary: r.Summary, Records: r.Records}
	m.Config.Condition, m.Config.Seed, m.Config.Steps = condition, seed, steps
	m.Summary.Condition, m.Summary.Seed = condition, seed
	m.Summary.Test.Final = engine.Interval{Mean: final, Lo: final - .05, Hi: final + .05, N: 4}
	for i := range 8 {
		t := &engine.Trajectory{Task: engine.TaskID(fmt.Sprintf("t%d", i/2)), Sample: i % 2, Outcome: engine.Scored}
		if i < right {
			t.Verdict = engine.Verdict{Kind: engine.Equal, Reward: 1}
		}
		m.Final = append(m.Final, t)
	}
	return m
}

func sampleStudy() []Member {
	return []Member{
		member("whale", 1, 2, .7, 6), // another schedule than the other conditions have
		member("weight-only", 1, 6, .5, 4), member("weight-only", 2, 6, .4, 4),
		member("whale", 1, 6, .9, 8), member("whale", 2, 6, .8, 8),
	}
}

func TestStudySetsArmsSideBySide(t *testing.T) {
	var b strings.Builder
	if err := WriteStudyTable(&b, sampleStudy()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("got\n%s", b.String())
	}
	// The other schedule is an arm of its own. Leads: 4 of 8 samples on each of two seeds,
	// so 2 of 4 tasks a seed: chance 1/2^4; and 2 of 8 on the one seed in common: 1/2.
	for i, want := range []string{
		"lookup           seeds  start  final  95 %            whale is ahead by  p       1-hop  2-hop  rollouts  tokens  seconds",
		"whale            2      0.164  0.850  [0.215, 1.000]  –                  –       0.995  0.892  4,992     121k    218",
		"whale, E 2, I 3  1      0.164  0.700  [0.650, 0.750]  +0.250             0.5000  0.995  0.892  4,992     121k    218",
		"weight-only      2      0.164  0.450  [0.000, 1.000]  +0.500             0.0625  0.995  0.892  4,992     121k    218",
	} {
		if lines[i] != want {
			t.Errorf("got  %q\nwant %q", lines[i], want)
		}
	}
}

func TestStudyPage(t *testing.T) {
	var b strings.Builder
	if err := WriteStudy(&b, sampleStudy()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"5 runs", "Every condition", "Other schedules", "weight-only can&#39;t be told apart", "whale, E 2, I 3"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(page, "Against prompts alone") || strings.Contains(page, "<script") || strings.Contains(page, "NaN") {
		t.Error("a figure without runs, a script, or a number that is none")
	}
	b.Reset()
	if err := WriteStudy(&b, nil); err != nil || !strings.Contains(b.String(), "0 runs") {
		t.Errorf("no runs: %v", err)
	}
}

func TestMeanCurveReadsBetweenPoints(t *testing.T) {
	point := func(at int, mean float64) engine.CurvePoint {
		s := engine.Score{Mean: mean, Lo: mean, Hi: mean, N: 1, K: 2}
		return engine.CurvePoint{Point: engine.Point{Rollouts: at}, Test: &s}
	}
	got := meanCurve([][]engine.CurvePoint{
		{point(0, 0), point(100, 1)},
		{point(0, .2), point(50, .4), {Point: engine.Point{Rollouts: 70}}, point(100, .6)},
	})
	want := map[int]float64{0: .1, 50: .45, 100: .8}
	if len(got) != len(want) {
		t.Fatalf("got %d points", len(got))
	}
	for _, p := range got {
		if d := p.Test.Mean - want[p.Rollouts]; d > 1e-12 || d < -1e-12 {
			t.Errorf("at %d: %v, want %v", p.Rollouts, p.Test.Mean, want[p.Rollouts])
		}
	}
}
