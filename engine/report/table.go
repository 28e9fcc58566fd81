package report

import (
	"fmt"
	"io"
	"path/filepath"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/engine"
)

// WriteTable writes the end of a run as an aligned plain text of at most 80 columns, as
// long as names and ids stay short. page is where the report lies; empty = nowhere.
func WriteTable(w io.Writer, r Run, page string) error {
	s := r.Summary
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, seed %d, %s cycles, model %s on %s\n\n", oneLine(s.Domain), oneLine(s.Condition), s.Seed,
		count(s.Cycles), oneLine(filepath.Base(s.Model)), oneLine(s.Device))
	alignRows(&b, scoreRows(s, headsOf(CurveOf(r.Records))))
	b.WriteByte('\n')
	rows := [][]string{
		{"rollouts", "weight " + count(s.Rollouts.Weight), "harness " + count(s.Rollouts.Harness), "test " + count(s.Rollouts.Test)},
		{"tokens", "prompt " + compact(float64(s.Tokens.Prompt)), "cached " + compact(float64(s.Tokens.Cached)),
			"sampled " + compact(float64(s.Tokens.Sampled)), "trained " + compact(float64(s.Tokens.Trained))},
		{"seconds", "total " + seconds(s.Seconds.Total), "rollout " + seconds(s.Seconds.Rollout),
			"train " + seconds(s.Seconds.Train), "propose " + seconds(s.Seconds.Propose)},
		{"", "idle " + seconds(s.Seconds.Idle), "sandbox " + seconds(s.Seconds.Sandbox), "verify " + seconds(s.Seconds.Verify)},
		{"shares", "coverage " + share(s.Coverage), "unparsed " + share(s.Unparsed)},
	}
	if c := proposalsOf(newTimeline(r.Records)); c.Calls > 0 {
		rows = append(rows, []string{"proposer", "tokens " + compact(float64(c.Input+c.Output)), "calls " + count(c.Calls), "dollars " + dollars(c)})
	}
	alignRows(&b, rows)
	if s.LuckAccepts > 0 {
		fmt.Fprintf(&b, "luck      up to %s of the iterations take a candidate that is only as good\n", share(s.LuckAccepts))
	}
	b.WriteByte('\n')
	pairs := [][]string{{"weights", oneLine(string(s.WeightsID))}, {"harness", oneLine(string(s.HarnessID))}}
	if s.Joules != nil {
		pairs = append([][]string{{"joules", compact(*s.Joules)}}, pairs...)
	}
	if page != "" {
		pairs = append(pairs, []string{"report", oneLine(page)})
	}
	alignRows(&b, pairs)
	_, err := io.WriteString(w, b.String())
	return engine.Fail(engine.AtArchive, "table", err)
}

// scoreRows are the three points of the test and below them their tags, one column each.
func scoreRows(s engine.Summary, h heads) [][]string {
	name := "test mean"
	if k := h.k(); k > 0 {
		name = fmt.Sprintf("test mean@%d", k)
	}
	rows := [][]string{{name, "start", "best", "final", "tasks"}}
	t := s.Test
	if t.Start.N+t.Best.N+t.Final.N == 0 {
		return append(rows, []string{"  not measured"})
	}
	mean, low := []string{"  all"}, []string{"  95 %"}
	for _, p := range []engine.Interval{t.Start, t.Best, t.Final} {
		if p.N == 0 {
			mean, low = append(mean, missing), append(low, "")
			continue
		}
		mean, low = append(mean, share(p.Mean)), append(low, brackets(p))
	}
	rows = append(rows, append(mean, count(max(t.Start.N, t.Final.N))), append(low, ""))
	for _, tag := range h.tags() {
		rows = append(rows, []string{"  " + oneLine(tag), share(tagMean(h.start, tag)), share(tagMean(h.best, tag)),
			share(tagMean(h.final, tag)), count(h.tagTasks(tag))})
	}
	if b := s.BaselineSameTokens; b.N > 0 {
		rows = append(rows, []string{"  start, same tokens", share(b.Mean)}, []string{"", brackets(b)})
	}
	return append(rows, gapRows(s)...)
}

// gapRows set the select split beside the test: what a point has there and not here was
// fitted to the tasks that chose it.
func gapRows(s engine.Summary) [][]string {
	if s.Gap.Best.N == 0 {
		return nil
	}
	chosen, gap, low := []string{"  select split"}, []string{"  select − test"}, []string{""}
	for _, p := range []engine.Interval{s.Select.Start, s.Select.Best, s.Select.Final} {
		chosen = append(chosen, share(p.Mean))
	}
	for _, p := range []engine.Interval{s.Gap.Start, s.Gap.Best, s.Gap.Final} {
		gap, low = append(gap, signed(p.Mean)), append(low, fmt.Sprintf("[%+.2f, %+.2f]", p.Lo, p.Hi))
	}
	return [][]string{append(chosen, count(s.Select.Best.N)), append(gap, ""), append(low, "")}
}

func (h heads) tags() []string {
	seen := map[string]bool{}
	var names []string
	for _, s := range h.all() {
		if s == nil {
			continue
		}
		for tag := range s.ByTag {
			if !seen[tag] {
				seen[tag] = true
				names = append(names, tag)
			}
		}
	}
	sort.Strings(names)
	return names
}

// tagTasks is the number of tasks with a tag.
func (h heads) tagTasks(tag string) int {
	n := 0
	for _, s := range h.all() {
		if s != nil {
			n = max(n, s.ByTag[tag].N)
		}
	}
	return n
}

// WriteComparison writes one line a run, to set conditions and seeds side by side.
func WriteComparison(w io.Writer, runs []engine.Summary) error {
	rows := [][]string{{"domain", "condition", "seed", "start", "best", "final", "95 %", "select−test", "rollouts", "seconds"}}
	mean := func(s engine.Interval) string {
		if s.N == 0 {
			return missing
		}
		return share(s.Mean)
	}
	for _, s := range runs {
		rows = append(rows, []string{oneLine(s.Domain), oneLine(s.Condition), fmt.Sprint(s.Seed), mean(s.Test.Start), mean(s.Test.Best),
			mean(s.Test.Final), brackets(s.Test.Final), fitted(s), count(s.Rollouts.Weight + s.Rollouts.Harness), seconds(s.Seconds.Total)})
	}
	var b strings.Builder
	alignRows(&b, rows)
	_, err := io.WriteString(w, b.String())
	return engine.Fail(engine.AtArchive, "table", err)
}

// fitted is how much better the best point is on the select split than on the test.
func fitted(s engine.Summary) string {
	if s.Gap.Best.N == 0 {
		return missing
	}
	return signed(s.Gap.Best.Mean)
}

// alignRows pads all columns but the last of a row to the widest cell.
func alignRows(b *strings.Builder, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell
			if i < len(row)-1 {
				line += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
