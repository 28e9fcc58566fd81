package ledger

import (
	"encoding/json"
	"fmt"
	"io"
)

// event is one of Chrome's trace format: ph X is a stretch of time, M names things.
type event struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Start float64        `json:"ts"`            // microseconds
	Long  float64        `json:"dur,omitempty"` // microseconds
	Run   int            `json:"pid"`
	Row   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// Rows of a run in the trace.
const (
	phaseRow = 1 + iota
	unitRow
	stageRow
)

// WriteTrace writes profiles as Chrome trace JSON, for chrome://tracing and Perfetto. A
// run is a process with rows for phases, units and stages. The ledger has durations, no
// clock times: units stand one behind the other, stages in a unit in their order.
func WriteTrace(w io.Writer, runs []Profile) error {
	var events []event
	for i, run := range runs {
		events = append(events, run.trace(i+1)...)
	}
	encoder := json.NewEncoder(w)
	return encoder.Encode(struct {
		Events []event `json:"traceEvents"`
		Unit   string  `json:"displayTimeUnit"`
	}{events, "ms"})
}

func (p Profile) trace(id int) []event {
	events := []event{{Name: "process_name", Phase: "M", Run: id, Args: map[string]any{"name": p.Name}}}
	for row, name := range []string{"", "phases", "units", "stages"} {
		if name != "" {
			events = append(events, event{Name: "thread_name", Phase: "M", Run: id, Row: row, Args: map[string]any{"name": name}})
		}
	}
	now := 0.0
	for _, part := range p.Parts {
		name := phaseOf(part.Kind)
		if part.Cycle > 0 {
			name = fmt.Sprintf("cycle %d, %s", part.Cycle, name)
		}
		args := map[string]any{"rollouts": part.Rollouts, "tokens": part.Kinds()}
		if gain, ok := part.Gain(); ok {
			args["gain"] = gain
		}
		events = append(events, event{Name: name, Phase: "X", Start: now, Long: part.Spending.Wall * 1e6, Run: id, Row: phaseRow, Args: args})
		now += part.Spending.Wall * 1e6
	}
	now = 0
	for _, l := range p.Lines {
		t := Total{Spending: l.Spending}
		events = append(events, event{Name: unitOf(l), Phase: "X", Start: now, Long: l.Spending.Wall * 1e6, Run: id, Row: unitRow,
			Args: map[string]any{"rollouts": l.Rollouts, "cost": l.Spending.Cost}})
		at := now
		for _, s := range t.Stages() {
			if s.Seconds > 0 {
				events = append(events, event{Name: s.Name, Phase: "X", Start: at, Long: s.Seconds * 1e6, Run: id, Row: stageRow})
				at += s.Seconds * 1e6
			}
		}
		now += l.Spending.Wall * 1e6
	}
	return events
}
