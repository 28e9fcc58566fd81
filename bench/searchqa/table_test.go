package searchqa

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Each benchmark weighs the same, however many questions it has; lost rollouts and
// benchmarks without a counted one are left out.
func TestTable(t *testing.T) {
	var tasks []engine.Task
	var ts []*engine.Trajectory
	add := func(benchmark string, outcome engine.Outcome, rewards ...float64) {
		for i, reward := range rewards {
			id := engine.TaskID(fmt.Sprint(benchmark, outcome, i))
			tasks = append(tasks, engine.Task{ID: id, Tags: []string{benchmark}})
			ts = append(ts, &engine.Trajectory{Task: id, Outcome: outcome, Verdict: engine.Verdict{Reward: reward}})
		}
	}
	add("musique", engine.Scored, 1, 1, 0, 0, 0, 0, 0, 0)
	add("nq", engine.Scored, 1, 0)
	add("nq", engine.Infra, 0, 0, 0)
	add("popqa", engine.Infra, 0)
	table := NewTable(tasks, ts)
	if len(table.Rows) != 2 || table.Rows[0].Benchmark != "nq" || table.Rows[0].Score.Mean != 0.5 || table.Rows[1].Score.N != 8 || table.Average != 0.375 {
		t.Errorf("%+v", table)
	}
	nq, musique := table.Rows[0].Score, table.Rows[1].Score
	half := math.Hypot(nq.Hi-nq.Lo, musique.Hi-musique.Lo) / 4
	if table.Lo != max(0, 0.375-half) || table.Hi != min(1, 0.375+half) {
		t.Errorf("interval [%f, %f], want ± %f", table.Lo, table.Hi, half)
	}
	if text := table.String(); strings.Count(text, "\n") != 3 || !strings.Contains(text, "average          0.375") {
		t.Errorf("%s", text)
	}
	if empty := NewTable(nil, nil); empty.Average != 0 || len(empty.Rows) != 0 {
		t.Errorf("%+v", empty)
	}
}
