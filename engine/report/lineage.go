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
	maxSource    = 24000
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
	Score      engine.Score
	Interval   string
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

// viewHarnesses splits the archive into the accepted line, with diffs, and the others.
// final is the last accepted harness in full.
func viewHarnesses(r Run) (accepted, refused []harnessView, final *harnessView) {
	byID := make(map[engine.HarnessID]engine.Harness, len(r.Entries))
	for _, e := range r.Entries {
		byID[e.Harness.ID] = e.Harness
	}
	for _, e := range r.Entries {
		v := viewHarness(e)
		v.Seed = e.Harness.ID == r.Seed
		if !e.Accepted && !v.Seed {
			refused = append(refused, v)
			continue
		}
		if parent, ok := parentOf(e.Harness, byID); ok && !v.Seed {
			v.Parent = short(string(parent.ID))
			v.compare(parent.Source, e.Harness.Source)
		} else {
			v.Source, v.SourceCut = source(e.Harness.Source)
		}
		accepted = append(accepted, v)
		if e.Harness.ID == r.Summary.HarnessID && !v.Seed {
			final = &harnessView{ID: v.ID}
			final.Source, final.SourceCut = source(e.Harness.Source)
		}
	}
	return accepted, refused[:min(len(refused), maxRefused)], final
}

func viewHarness(e engine.Entry) harnessView {
	m := e.Harness.Meta
	v := harnessView{ID: short(string(e.Harness.ID)), Axis: oneLine(first(m.Axis, 40)),
		Cycle: m.Cycle, Iteration: m.Iteration,
		Hypothesis: first(m.Hypothesis, 600), Score: e.Score, Interval: interval(e.Score)}
	v.Origin = fmt.Sprintf("cycle %d, iteration %d", m.Cycle, m.Iteration)
	if m.Proposer != "" {
		v.Origin += ", by " + oneLine(first(m.Proposer, 40))
	}
	if len(m.Parents) > 0 {
		v.Parent = short(string(m.Parents[0]))
	}
	return v
}

func parentOf(h engine.Harness, byID map[engine.HarnessID]engine.Harness) (engine.Harness, bool) {
	for _, id := range h.Meta.Parents {
		if parent, ok := byID[id]; ok && id != h.ID {
			return parent, true
		}
	}
	return engine.Harness{}, false
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
