package report

import (
	"fmt"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

const (
	diffContext  = 3   // kept lines around a change
	maxDiffLines = 400 // of one harness
	openDiff     = 70  // longer ones start folded
	maxRefused   = 60  // rows of candidates that were not taken
	maxAccepted  = 40
	maxSource    = 24000 // runes
)

// harnessView is one candidate laid out for the page.
type harnessView struct {
	ID, Parent string
	Seed       bool
	Cycle      int
	Iteration  int
	Origin     string // cycle, iteration, proposer in words
	Axis       string
	Hypothesis string
	Score      engine.Interval
	Select     string // score on the select split
	Coverage   float64
	Gain       string // over the incumbent on the same tasks and seeds
	Hunks      []hunkView
	Open       bool
	DiffSize   string // +12 −3
	DiffCut    string
	Source     string // in full, where there is no parent to compare with
	SourceCut  string
}

type hunkView struct {
	Header string
	Lines  []diffLine
}

type diffLine struct {
	Class string // keep, del, add
	Text  string
}

// lineage sorts the trials of a run.
type lineage struct {
	Accepted, Refused []harnessView
	Left              int          // refused ones that are not shown
	Final             *harnessView // the last accepted harness in full
}

func newLineage(t timeline, sources []engine.Harness) lineage {
	byID := make(map[engine.HarnessID]engine.Harness, len(sources))
	for _, h := range sources {
		byID[h.ID] = h
	}
	var l lineage
	if t.seed != "" {
		l.Accepted = append(l.Accepted, viewSeed(t, byID))
	}
	var last engine.HarnessID
	for _, c := range t.trials {
		v := viewTrial(c)
		h := c.entry.Harness
		switch {
		case c.entry.Accepted && len(l.Accepted) < maxAccepted:
			v.explain(h, c.incumbent, byID)
			l.Accepted = append(l.Accepted, v)
			last = h.ID
		case len(l.Refused) < maxRefused:
			if known := byID[h.ID]; known.Source != "" {
				v.explain(h, c.incumbent, byID)
				v.Source = ""
			}
			l.Refused = append(l.Refused, v)
		default:
			l.Left++
		}
	}
	if h, ok := byID[last]; ok && h.Source != "" {
		l.Final = &harnessView{ID: short(string(last))}
		l.Final.Source, l.Final.SourceCut = source(h.Source)
	}
	return l
}

func viewSeed(t timeline, byID map[engine.HarnessID]engine.Harness) harnessView {
	v := harnessView{ID: short(string(t.seed)), Seed: true}
	if t.incoming != nil {
		v.Score = t.incoming.Interval()
		v.Select = interval(v.Score)
	}
	v.Source, v.SourceCut = source(byID[t.seed].Source)
	return v
}

func viewTrial(c trial) harnessView {
	m, s := c.entry.Harness.Meta, c.entry.Score
	v := harnessView{ID: short(string(c.entry.Harness.ID)), Parent: short(string(c.incumbent)),
		Cycle: m.Cycle, Iteration: m.Iteration, Axis: oneLine(first(m.Axis, 40)),
		Hypothesis: first(m.Hypothesis, 600), Score: s.Interval(), Select: interval(s.Interval()), Coverage: s.Coverage, Gain: missing}
	v.Origin = fmt.Sprintf("cycle %d, iteration %d", m.Cycle, m.Iteration)
	if m.Proposer != "" {
		v.Origin += ", by " + oneLine(first(m.Proposer, 40))
	}
	if len(m.Parents) > 0 {
		v.Parent = short(string(m.Parents[0]))
	}
	if c.paired {
		v.Gain = fmt.Sprintf("%+.3f", c.compared.Gain)
		v.Origin += fmt.Sprintf(" · %s on %s paired tasks (%d won, %d lost, p %s)", v.Gain, count(c.compared.Tasks),
			c.compared.Wins, c.compared.Losses, share(c.compared.P))
	}
	return v
}

// explain compares an accepted harness with its first known parent, or else with the
// incumbent that it replaced.
func (v *harnessView) explain(h engine.Harness, incumbent engine.HarnessID, byID map[engine.HarnessID]engine.Harness) {
	text := byID[h.ID].Source
	if text == "" {
		text = h.Source
	}
	for _, id := range append(append([]engine.HarnessID{}, h.Meta.Parents...), incumbent) {
		parent, ok := byID[id]
		if ok && id != h.ID && parent.Source != "" && text != "" {
			v.Parent = short(string(id))
			v.compare(parent.Source, text)
			return
		}
	}
	v.Source, v.SourceCut = source(text)
}

// compare fills in the difference to the parent.
func (v *harnessView) compare(before, after string) {
	lines := Compare(before, after)
	added, removed, shown := 0, 0, 0
	for _, l := range lines {
		switch l.Edit {
		case Add:
			added++
		case Remove:
			removed++
		}
	}
	v.DiffSize = fmt.Sprintf("+%d −%d", added, removed)
	for _, h := range Hunks(lines, diffContext) {
		if shown >= maxDiffLines {
			break
		}
		view := hunkView{Header: h.Header()}
		for _, l := range h.Lines[:min(len(h.Lines), maxDiffLines-shown)] {
			view.Lines = append(view.Lines, viewLine(l))
		}
		shown += len(view.Lines)
		v.Hunks = append(v.Hunks, view)
	}
	v.Open = shown <= openDiff
	if shown >= maxDiffLines {
		v.DiffCut = fmt.Sprintf("cut after %d lines", maxDiffLines)
	}
}

func viewLine(l Line) diffLine {
	text, left := cut(l.Text, 400)
	if left > 0 {
		text += fmt.Sprintf(" … %d more characters", left)
	}
	d := diffLine{Class: "keep", Text: string(l.Edit) + strings.ReplaceAll(visible(text), "\t", "    ")}
	switch l.Edit {
	case Add:
		d.Class = "add"
	case Remove:
		d.Class = "del"
	}
	return d
}

func source(s string) (text, note string) {
	head, left := cut(s, maxSource)
	if left > 0 {
		note = fmt.Sprintf("%s more characters", count(left))
	}
	return strings.ReplaceAll(visible(head), "\t", "    "), note
}
