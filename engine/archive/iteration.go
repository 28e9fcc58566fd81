package archive

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-7c27e6b8/whale/engine"
)

// iterationReport is report.md of an iteration: what report.json has, to read. A row for
// each harness that was evaluated: score, comparison with the incumbent, endings of its
// rollouts, score by tag; then what was refused.
func iterationReport(n engine.IterationNote) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Cycle %d, iteration %d\n\nIn use after it: %s. Wins and losses are tasks on which a candidate did better or worse than the harness in use before, same seeds. "+
		"A gain below %.3f would often not be found.\n\n", n.Cycle, n.Index, n.Incumbent, n.Search.Detectable)
	out.WriteString("| harness | mean | gain | p | wins | losses | equal | different | unparsed | invalid | tokens | by tag |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i, e := range n.Search.Evaluated {
		gain, p, wins, losses := "", "", "", ""
		if i < len(n.Search.Compared) {
			c := n.Search.Compared[i]
			gain, p, wins, losses = fmt.Sprintf("%+.3f", c.Gain), fmt.Sprintf("%.3f", c.P), fmt.Sprint(c.Wins), fmt.Sprint(c.Losses)
		}
		ends := endings(e.Harness.ID, n.Rollouts)
		fmt.Fprintf(&out, "| %s | %.3f | %s | %s | %s | %s | %d | %d | %d | %d | %.1f | %s |\n", e.Harness.ID, e.Score.Mean, gain, p, wins, losses,
			ends[engine.Equal], ends[engine.Different], ends[engine.Unparsed], ends[invalid], e.Score.Tokens, byTag(e.Score))
	}
	for _, r := range n.Search.Rejected {
		fmt.Fprintf(&out, "\nRefused %s: %s\n", r.Harness.ID, markdown(r.Err.Error()))
	}
	if n.Search.Failed != "" {
		fmt.Fprintf(&out, "\nThe proposer failed: %s\n", markdown(n.Search.Failed))
	}
	return out.Bytes()
}

// invalid stands among the verdicts for rollouts that ended before there was one.
const invalid engine.VerdictKind = "invalid"

// endings counts how a harness's rollouts ended; those that the host lost count nowhere.
func endings(id engine.HarnessID, ts []*engine.Trajectory) map[engine.VerdictKind]int {
	counts := map[engine.VerdictKind]int{}
	for _, t := range ts {
		switch {
		case t.Harness != id:
		case t.Outcome == engine.Invalid:
			counts[invalid]++
		case t.Outcome == engine.Scored:
			counts[t.Verdict.Kind]++
		}
	}
	return counts
}

func byTag(s engine.Score) string {
	text := ""
	for _, tag := range slices.Sorted(maps.Keys(s.ByTag)) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s %.3f of %d", markdown(tag), s.ByTag[tag].Mean, s.ByTag[tag].N)
	}
	return text
}
