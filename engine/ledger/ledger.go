// Package ledger says what a run cost: one line for each unit (an update step, a search
// iteration, a measurement), and sums of lines by cycle and by kind. The lines are the
// only place with times, so the journal beside them is the same for the same seed.
//
// It may know records and costs, nothing of how they came about. A rollout's own cost
// is in its trajectory; Rollouts adds its share of what the unit as a whole took.
//
// Not covered: joules and money of a unit that was not committed; joules of one process
// on a machine that has others.
package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Line is the cost of one unit.
type Line struct {
	Seq      int               `json:"seq"` // of the journal's record
	Kind     engine.RecordKind `json:"kind"`
	Cycle    int               `json:"cycle,omitempty"`
	Index    int               `json:"index,omitempty"`
	Rollouts int               `json:"rollouts"`
	Spending engine.Spending   `json:"spending"`
}

// NewLine is the line of a record.
func NewLine(r engine.Record) Line {
	return Line{Seq: r.Seq, Kind: r.Kind, Cycle: r.Cycle, Index: r.Index, Rollouts: r.Spent, Spending: r.Spending}
}

// Encode is the line as JSON with a line feed.
func (l Line) Encode() ([]byte, error) {
	text, err := json.Marshal(l)
	return append(text, '\n'), err
}

// Parse reads lines. A last line without a line feed was cut by a kill and is left out;
// whole is the number of bytes before it. Any other damage is an error with its line.
func Parse(text []byte) (lines []Line, whole int, err error) {
	for {
		end := bytes.IndexByte(text[whole:], '\n')
		if end < 0 {
			return lines, whole, nil
		}
		var l Line
		if err := json.Unmarshal(text[whole:whole+end], &l); err != nil {
			return lines, whole, fmt.Errorf("ledger line %d: %w", len(lines)+1, err)
		}
		if l.Seq != len(lines) {
			return lines, whole, fmt.Errorf("ledger line %d: is of record %d", len(lines)+1, l.Seq)
		}
		lines = append(lines, l)
		whole += end + 1
	}
}

// Total is a sum of lines.
type Total struct {
	Cycle    int               // 0 = outside of the cycles, or over all
	Kind     engine.RecordKind // empty = over all
	Units    int
	Rollouts int
	Spending engine.Spending
}

func (t *Total) add(l Line) {
	t.Units++
	t.Rollouts += l.Rollouts
	t.Spending = t.Spending.Add(l.Spending)
}

// Sum adds all lines.
func Sum(lines []Line) Total {
	var t Total
	for _, l := range lines {
		t.add(l)
	}
	return t
}

// Phases adds the lines of each phase, in the order of their first line. The start and
// the measurements are a total of cycle 0 each.
func Phases(lines []Line) []Total {
	return group(lines, func(l Line) Total { return Total{Cycle: l.Cycle, Kind: l.Kind} })
}

// Cycles adds the lines of each cycle, in the order of their first line.
func Cycles(lines []Line) []Total {
	return group(lines, func(l Line) Total { return Total{Cycle: l.Cycle} })
}

// group adds lines by a key, which is a total without sums.
func group(lines []Line, key func(Line) Total) []Total {
	var totals []Total
	at := map[Total]int{}
	for _, l := range lines {
		k := key(l)
		i, ok := at[k]
		if !ok {
			i = len(totals)
			at[k] = i
			totals = append(totals, k)
		}
		totals[i].add(l)
	}
	return totals
}
