package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

// What the proposer's service took is on the page and in the table, by cycle and in all.
func TestProposals(t *testing.T) {
	r := sampleRun()
	r.Records = slices.Clone(r.Records)
	n := 0
	for i := range r.Records {
		if r.Records[i].Kind == engine.SearchRecord {
			r.Records[i].Spending.Cost.Proposal = engine.ProposalCost{Calls: 2, Input: 30_000, Cached: 10_000, Output: 1_000, Dollars: .125, Seconds: 4}
			n++
		}
	}
	page, table := written(t, r)
	for _, want := range []string{"What the proposer&#39;s service took", ">proposer tokens<"} {
		if !strings.Contains(strings.ReplaceAll(page, "'", "&#39;"), want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if !strings.Contains(table, "dollars "+dollars(engine.ProposalCost{Dollars: .125 * float64(n)})) {
		t.Errorf("%d iterations: %s", n, table)
	}
	if page, table := written(t, sampleRun()); strings.Contains(page, "What the proposer") || strings.Contains(table, "dollars") {
		t.Error("a proposer without a service has no costs")
	}
	for c, want := range map[engine.ProposalCost]string{{Calls: 1}: "0.00", {Calls: 1, Unpriced: 1}: missing, {Calls: 2, Unpriced: 1, Dollars: 2.5}: "≥ 2.50", {Calls: 1, Dollars: .0123}: "0.0123"} {
		if got := dollars(c); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}

// The estimate stands beside what came, and while a run goes on without a verdict.
func TestForetold(t *testing.T) {
	r := sampleRun()
	taken := r.Summary.Rollouts.Weight + r.Summary.Rollouts.Harness + r.Summary.Rollouts.Test
	r.Summary.Estimate = &engine.Estimate{Basis: "a <probe>", Rollouts: 2 * taken, Seconds: r.Summary.Seconds.Total / 2}
	page, _ := written(t, r)
	for _, want := range []string{"+100 %", "-50 %", "from a &lt;probe&gt;"} {
		if !strings.Contains(strings.ReplaceAll(page, "&#43;", "+"), want) {
			t.Errorf("no %q on the page", want)
		}
	}
	r.Live, r.Summary.Test.Final = &Bar{}, engine.Interval{}
	if page, _ := written(t, r); strings.Contains(strings.ReplaceAll(page, "&#43;", "+"), "+100 %") || !strings.Contains(page, "foretold") {
		t.Error("a run that goes on is judged")
	}
	if page, _ := written(t, sampleRun()); strings.Contains(page, "foretold") {
		t.Error("nothing was foretold")
	}
}

func written(t *testing.T, r Run) (page, table string) {
	t.Helper()
	var p, w bytes.Buffer
	if err := WriteHTML(&p, r); err != nil {
		t.Fatal(err)
	}
	if err := WriteTable(&w, r, ""); err != nil {
		t.Fatal(err)
	}
	return p.String(), w.String()
}
