package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-7c27e6b8/whale/engine"
)

const maxNodes = 600 // of one family tree

// family is the archive as a figure: one node for each time that a harness was scored, from
// left to right as that happened, as high as its select score; lines lead from parents.
// Scores of different cycles are under different weights, so a harness that is measured
// again has a node of its own, joined to the one before by a dotted line.
type family struct {
	Width, Height            float64
	Left, Top, Right, Bottom float64
	Label                    string
	Bands                    []band
	YTicks                   []tick
	Edges                    []edge
	Nodes                    []node
	Hidden                   int // nodes that are not shown
}

// PlotHeight is the height of the bands.
func (f family) PlotHeight() float64 { return f.Bottom - f.Top }

// BandText is the height of the cycles' names.
func (f family) BandText() float64 { return f.Bottom + 19 }

// YText is where the numbers of the axis end.
func (f family) YText() float64 { return f.Left - 8 }

type edge struct {
	Path  string
	Class string // born, taken (an accepted child), again
}

type node struct {
	X, Y  float64
	Class string // taken, refused, again
	Href  string
	Title string
}

// scored is one evaluation on the select split.
type scored struct {
	entry   engine.Entry
	cycle   int
	column  int // iterations with a score, from 0
	slot    int // place in the iteration, of so many
	slots   int
	again   bool // the incumbent, measured under new weights
	compare *engine.Comparison
}

// evaluations are all scores of the harness phases in order.
func evaluations(records []engine.Record) []scored {
	var all []scored
	column := 0
	for _, r := range records {
		if r.Search == nil || len(r.Search.Evaluated) == 0 {
			continue
		}
		for i, e := range r.Search.Evaluated {
			s := scored{entry: e, cycle: r.Cycle, column: column, slot: i, slots: len(r.Search.Evaluated), again: r.Index == 1}
			if !s.again && i < len(r.Search.Compared) {
				s.compare = &r.Search.Compared[i]
			}
			all = append(all, s)
		}
		column++
	}
	return all
}

// newFamily draws the evaluations; href gives a harness's place on the page.
func newFamily(records []engine.Record, href func(engine.HarnessID) string, width, height float64) family {
	f := family{Width: width, Height: height, Left: 38, Top: 14, Right: width - 14, Bottom: height - 28}
	all := evaluations(records)
	if len(all) > maxNodes {
		f.Hidden = len(all) - maxNodes
		all = all[:maxNodes]
	}
	if len(all) == 0 {
		return f
	}
	peak := peakScore(all)
	columns := all[len(all)-1].column + 1
	for i := range 5 {
		v := peak * float64(i) / 4
		f.YTicks = append(f.YTicks, tick{f.y(v, peak), fmt.Sprintf("%.2f", v)})
	}
	f.bands(all, columns)
	at := map[engine.HarnessID]node{}
	accepted := 0
	for _, s := range all {
		id := s.entry.Harness.ID
		n := node{X: f.x(s, columns), Y: f.y(s.entry.Score.Mean, peak), Class: "refused", Href: href(id), Title: nodeTitle(s)}
		before, known := at[id]
		switch {
		case s.again:
			n.Class = "again"
			if known {
				f.Edges = append(f.Edges, edge{line(before, n), "again"})
			}
		case s.entry.Accepted:
			n.Class = "taken"
			accepted++
		}
		if !s.again {
			for _, parent := range s.entry.Harness.Meta.Parents {
				if p, ok := at[parent]; ok {
					f.Edges = append(f.Edges, edge{bend(p, n), map[bool]string{true: "taken", false: "born"}[s.entry.Accepted]})
				}
			}
		}
		at[id] = n
		f.Nodes = append(f.Nodes, n)
	}
	// what was taken lies above what was not
	slices.SortStableFunc(f.Edges, func(a, b edge) int { return rank(a.Class) - rank(b.Class) })
	f.Label = fmt.Sprintf("Family tree of %s scored harnesses, %s of them accepted, by select score in the order of the search.", count(len(at)), count(accepted))
	return f
}

func rank(class string) int {
	if class == "taken" {
		return 1
	}
	return 0
}

func (f family) x(s scored, columns int) float64 {
	step := (f.Right - f.Left) / float64(columns)
	return f.Left + step*(float64(s.column)+(float64(s.slot)+1)/float64(s.slots+1))
}

func (f family) y(v, peak float64) float64 {
	if !finite(v) {
		v = 0
	}
	return f.Bottom - (f.Bottom-f.Top)*min(1, max(0, v/peak))
}

// bands shade every other cycle.
func (f *family) bands(all []scored, columns int) {
	step := (f.Right - f.Left) / float64(columns)
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].cycle == all[i].cycle {
			j++
		}
		from, to := all[i].column, all[j-1].column+1
		b := band{X: f.Left + step*float64(from), W: step * float64(to-from), Kind: "even", Title: fmt.Sprintf("cycle %d", all[i].cycle)}
		if len(f.Bands)%2 == 1 {
			b.Kind = "odd"
		}
		switch {
		case b.W >= 52:
			b.Label = b.Title
		case b.W >= 14:
			b.Label = fmt.Sprint(all[i].cycle)
		}
		f.Bands = append(f.Bands, b)
		i = j
	}
}

// line joins two nodes straight, bend as a branch that leaves its parent level.
func line(a, b node) string { return fmt.Sprintf("M%.1f %.1fL%.1f %.1f", a.X, a.Y, b.X, b.Y) }

func bend(a, b node) string {
	middle := a.X + (b.X-a.X)/2
	return fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", a.X, a.Y, middle, a.Y, middle, b.Y, b.X, b.Y)
}

func nodeTitle(s scored) string {
	m := s.entry.Harness.Meta
	title := fmt.Sprintf("%s, select %s", short(string(s.entry.Harness.ID)), interval(s.entry.Score.Interval()))
	if s.compare != nil {
		title += fmt.Sprintf(", gain %+.3f", s.compare.Gain)
	}
	switch {
	case s.again:
		title += fmt.Sprintf(" · measured in cycle %d", s.cycle)
	case s.entry.Accepted:
		title += fmt.Sprintf(" · accepted in cycle %d", s.cycle)
	default:
		title += fmt.Sprintf(" · not taken in cycle %d", s.cycle)
	}
	if m.Hypothesis != "" && !s.again {
		title += " · " + oneLine(first(m.Hypothesis, 200))
	}
	return title
}

// peakScore is the smallest fifth of the scale that holds all.
func peakScore(all []scored) float64 {
	most := 0.0
	for _, s := range all {
		if finite(s.entry.Score.Mean) {
			most = math.Max(most, s.entry.Score.Mean)
		}
	}
	return min(1, math.Ceil(max(most, .01)*5)/5)
}
