package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7c27e6b8/whale/engine"
)

// scoreFile is score.json of a harness: its latest score on the select split.
type scoreFile struct {
	Weights  engine.WeightsID `json:"weights"` // measured under
	Accepted bool             `json:"accepted"`
	Score    engine.Score     `json:"score"`
}

// reportFile is report.json of an iteration.
type reportFile struct {
	Incumbent engine.HarnessID `json:"incumbent"` // after the iteration
	engine.Search
}

// resultLine is one rollout in results.jsonl.
type resultLine struct {
	Harness engine.HarnessID   `json:"harness"`
	Task    engine.TaskID      `json:"task"`
	Sample  int                `json:"sample"`
	Outcome engine.Outcome     `json:"outcome"`
	Verdict engine.VerdictKind `json:"verdict"`
	Reward  float64            `json:"reward"`
	Answer  string             `json:"answer"` // what was read from the model's text
	Calls   int                `json:"calls"`
	Tokens  int                `json:"tokens"` // sampled
	Failure string             `json:"failure,omitempty"`
}

// PutIteration lays out an iteration for the next proposer: the comparison, a line per
// rollout, and a transcript file per harness. A redone iteration replaces what a kill
// left.
func (a *Archive) PutIteration(n engine.IterationNote) error {
	parent := filepath.Join("cycles", cycleDir(n.Cycle))
	if err := os.MkdirAll(a.path(parent), 0o755); err != nil {
		return err
	}
	temp, err := a.fresh(parent, iterationDir(n.Index))
	if err != nil {
		return err
	}
	report, err := json.MarshalIndent(reportFile{n.Incumbent, n.Search}, "", "  ")
	if err != nil {
		return err
	}
	results, err := resultLines(n.Rollouts)
	if err != nil {
		return err
	}
	files := map[string][]byte{"report.json": append(report, '\n'), "report.md": iterationReport(n), "results.jsonl": results}
	for _, e := range n.Search.Evaluated {
		files["transcripts-"+string(e.Harness.ID)+".txt"] = transcripts(e.Harness.ID, n.Rollouts)
	}
	for name, content := range files {
		if err := a.disk.create(filepath.Join(temp, name), content); err != nil {
			return err
		}
	}
	path := a.path(parent, iterationDir(n.Index))
	if err := a.disk.remove(path); err != nil {
		return err
	}
	if err := a.disk.publish(temp, path); err != nil {
		return err
	}
	if err := a.putOverview(append(history(a.records), n)); err != nil {
		return err
	}
	for _, e := range n.Search.Evaluated {
		path := a.path("harnesses", string(e.Harness.ID), "score.json")
		if err := a.putJSON(path, scoreFile{e.Weights, e.Accepted || a.acceptedBefore(e.Harness.ID), e.Score}); err != nil {
			return err
		}
	}
	return nil
}

func (a *Archive) acceptedBefore(id engine.HarnessID) bool {
	for _, r := range a.records {
		if r.Harness == id {
			return true
		}
	}
	return false
}

func resultLines(ts []*engine.Trajectory) ([]byte, error) {
	var out bytes.Buffer
	for _, t := range ts {
		line, err := json.Marshal(resultLine{Harness: t.Harness, Task: t.Task, Sample: t.Sample, Outcome: t.Outcome,
			Verdict: t.Verdict.Kind, Reward: t.Verdict.Reward, Answer: t.Verdict.Answer, Calls: len(t.Calls()),
			Tokens: t.Sampled(), Failure: t.Failure})
		if err != nil {
			return nil, err
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// transcripts writes a harness's rollouts as text to read and to grep in.
func transcripts(id engine.HarnessID, ts []*engine.Trajectory) []byte {
	var out bytes.Buffer
	for _, t := range ts {
		if t.Harness != id {
			continue
		}
		fmt.Fprintf(&out, "=== task %s sample %d: %s, %s, reward %g\n", t.Task, t.Sample, t.Outcome, t.Verdict.Kind, t.Verdict.Reward)
		Transcript(&out, t)
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// Transcript writes what happened in a rollout as text.
func Transcript(out *bytes.Buffer, t *engine.Trajectory) {
	for _, e := range t.Events {
		switch {
		case e.Said != nil:
			fmt.Fprintf(out, "[%s] %s\n", e.Said.Role, e.Said.Content)
		case e.Call != nil:
			fmt.Fprintf(out, "[model #%d, %d tokens, %s] %s\n", e.Call.Handle, len(e.Call.Sampled), e.Call.Stop, e.Call.Text)
		case e.Tool != nil:
			fmt.Fprintf(out, "[call %s] %s\n[result] %s\n", e.Tool.Name, e.Tool.Args, e.Tool.Result)
		default:
			fmt.Fprintf(out, "[log] %s\n", e.Log)
		}
	}
	if t.Submitted != 0 {
		fmt.Fprintf(out, "[submitted] #%d\n", t.Submitted)
	}
	if t.Failure != "" {
		fmt.Fprintf(out, "[ended] %s\n", t.Failure)
	}
}
