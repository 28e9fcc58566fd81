package searchqa

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Table reports each benchmark by itself and the average over them.
type Table struct {
	Rows []Line // the benchmarks with a counted question, in the order of Benchmarks
	// Average is the mean of the benchmarks' means, each weighing the same. Lo and Hi are
	// its 95 % interval, from the halves of theirs, which are independent.
	Average, Lo, Hi float64
}

// Line is one benchmark of a table.
type Line struct {
	Benchmark string
	Score     engine.Score
}

// NewTable summarises rollouts of this domain's tasks.
func NewTable(tasks []engine.Task, ts []*engine.Trajectory) Table {
	var table Table
	spread := 0.0
	for _, benchmark := range Benchmarks {
		var own []engine.Task
		mine := map[engine.TaskID]bool{}
		for _, task := range tasks {
			if slices.Contains(task.Tags, benchmark) {
				own = append(own, task)
				mine[task.ID] = true
			}
		}
		var rollouts []*engine.Trajectory
		for _, t := range ts {
			if mine[t.Task] {
				rollouts = append(rollouts, t)
			}
		}
		score := engine.NewScore(own, rollouts)
		if score.N == 0 {
			continue
		}
		table.Rows = append(table.Rows, Line{Benchmark: benchmark, Score: score})
		table.Average += score.Mean
		half := (score.Hi - score.Lo) / 2
		spread += half * half
	}
	n := float64(max(1, len(table.Rows)))
	table.Average /= n
	half := math.Sqrt(spread) / n
	table.Lo, table.Hi = max(0, table.Average-half), min(1, table.Average+half)
	return table
}

// String is the table for a terminal, one benchmark a line.
func (t Table) String() string {
	var out strings.Builder
	for _, row := range t.Rows {
		s := row.Score
		fmt.Fprintf(&out, "%-16s %.3f  [%.3f, %.3f]  %d questions, unparsed %.3f\n", row.Benchmark, s.Mean, s.Lo, s.Hi, s.N, s.Unparsed)
	}
	fmt.Fprintf(&out, "%-16s %.3f  [%.3f, %.3f]  %d benchmarks\n", "average", t.Average, t.Lo, t.Hi, len(t.Rows))
	return out.String()
}
