package report

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/engine"
)

func table(t *testing.T, r Run) string {
	t.Helper()
	var b strings.Builder
	if err := WriteTable(&b, r, "runs/lookup-1/report.html"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTable(t *testing.T) {
	got := table(t, sampleRun())
	want := `lookup, whale, seed 1, 3 cycles, model nano on cpu, 2 cores, AVX-512

test mean@8           start           best            final           tasks
  all                 0.164           0.947           0.947           128
  95 %                [0.100, 0.228]  [0.908, 0.986]  [0.908, 0.986]
  1-hop               0.181           0.995           0.995           76
  2-hop               0.030           0.892           0.892           51
  start, same tokens  0.391
                      [0.306, 0.476]
  select split        0.203           0.961           0.961           64
  select − test       +0.039          +0.014          +0.014
                      [-0.07, +0.16]  [-0.06, +0.06]  [-0.06, +0.06]

rollouts  weight 4,608    harness 384   test 9,216
tokens    prompt 681k     cached 402k   sampled 121k  trained 58k
seconds   total 218       rollout 92.1  train 105     propose 1.4
          idle 20.2       sandbox 3.2   verify 0.30
shares    coverage 1.000  unparsed 0.021
luck      up to 0.750 of the iterations take a candidate that is only as good

weights  w7f0c2be914d8a35e
harness  h83be10c55f20a4d1
report   runs/lookup-1/report.html
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, line := range strings.Split(got, "\n") {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("%q is wider than 80 columns", line)
		}
	}
}

func TestTableOfAnUnmeasuredRun(t *testing.T) {
	joules := 1234.0
	got := table(t, Run{Summary: engine.Summary{Domain: "a\x1b]0;x\x07\nb", Joules: &joules}})
	if !strings.Contains(got, "not measured") || !strings.Contains(got, "joules   1.2k") {
		t.Errorf("got\n%s", got)
	}
	if strings.ContainsAny(got, "\x1b\x07\r") || strings.Count(got, "a␛]0;x␇⏎b") != 1 {
		t.Errorf("control characters pass: %q", got)
	}
}

// Start, best and final stand in this order in all rows.
func TestTableColumns(t *testing.T) {
	at := func(mean float64) engine.Interval {
		return engine.Interval{Mean: mean, Lo: mean - .01, Hi: mean + .01, N: 9}
	}
	s := engine.Summary{Test: engine.Heads{Start: at(.1), Best: at(.2), Final: at(.3)}, Select: engine.Heads{Start: at(.4), Best: at(.5), Final: at(.6)},
		Gap: engine.Heads{Start: at(.07), Best: at(.08), Final: at(.09)}}
	got := strings.Join(strings.Fields(table(t, Run{Summary: s})), " ")
	for _, row := range []string{"all 0.100 0.200 0.300 9", "95 % [0.090, 0.110] [0.190, 0.210] [0.290, 0.310]", "select split 0.400 0.500 0.600 9",
		"select − test +0.070 +0.080 +0.090 [+0.06, +0.08] [+0.07, +0.09] [+0.08, +0.10]"} {
		if !strings.Contains(got, row) {
			t.Errorf("no %q in %s", row, got)
		}
	}
}

func TestTableNamesTheBoundary(t *testing.T) {
	if err := WriteTable(brokenWriter{}, Run{}, ""); err == nil || !strings.HasPrefix(err.Error(), "archive table: ") {
		t.Errorf("got %v", err)
	}
}

func TestComparison(t *testing.T) {
	whale, other := sampleRun().Summary, engine.Summary{Domain: "lookup", Condition: "weight-only", Seed: 12}
	var b strings.Builder
	if err := WriteComparison(&b, []engine.Summary{whale, other}); err != nil {
		t.Fatal(err)
	}
	want := `domain  condition    seed  start  best   final  95 %            select−test  rollouts  seconds
lookup  whale        1     0.164  0.947  0.947  [0.908, 0.986]  +0.014       4,992     218
lookup  weight-only  12    –      –      –      [0.000, 0.000]  –            0         0
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// Page and table say how the select split differs from the test, and what luck does.
func TestGapOnThePage(t *testing.T) {
	var b strings.Builder
	if err := WriteHTML(&b, sampleRun()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"select − test", "&#43;0.014", "at the start &#43;0.039", "accepts one of them by luck up to 0.750 of the time (accept_p 1)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not on the page", want)
		}
	}
}
