package desk

import (
	"encoding/json"
	"os"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Brief is what brief.json holds. It has no reference answers, no task ids and no test
// tasks.
type Brief struct {
	Domain    string           `json:"domain"`
	Skill     string           `json:"skill"` // SKILL.md of the domain
	Cycle     int              `json:"cycle"`
	Iteration int              `json:"iteration"`
	Slots     int              `json:"slots"`
	Seed      uint64           `json:"seed"`
	Incumbent engine.HarnessID `json:"incumbent"`
	Entries   []Entry          `json:"entries"`
	Failures  []Transcript     `json:"failures"`
	Successes []Transcript     `json:"successes"`
	// Rejected were refused, the latest last. The last Repair of them were proposed for
	// this iteration and came back to be mended.
	Rejected []Rejected `json:"rejected,omitempty"`
	Repair   int        `json:"repair,omitempty"`
}

// Entry is one archived harness.
type Entry struct {
	ID       engine.HarnessID `json:"id"`
	Source   string           `json:"source"`
	Meta     engine.Meta      `json:"meta"`
	Score    engine.Score     `json:"score"`
	Accepted bool             `json:"accepted"`
}

// Rejected is a candidate that was refused, and why.
type Rejected struct {
	Source string `json:"source"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"`
}

// Transcript is one rollout as text.
type Transcript struct {
	Reward  float64            `json:"reward"`
	Verdict engine.VerdictKind `json:"verdict"`
	Failure string             `json:"failure,omitempty"`
	Lines   []Line             `json:"lines"`
}

// Line is one step of a rollout: what entered the context (role system, user, tool),
// what the model wrote (assistant), a tool call with its full result, or a log line.
type Line struct {
	Role string `json:"role"`
	Text string `json:"text"`
	Tool string `json:"tool,omitempty"` // name and arguments of the call that Text is the result of
}

// writeBrief writes a brief as JSON.
func writeBrief(path string, b engine.Brief) error {
	out := Brief{
		Domain: b.Domain, Skill: b.Skill, Cycle: b.Cycle, Iteration: b.Iteration, Slots: b.Slots, Seed: b.Seed,
		Incumbent: b.Incumbent, Failures: transcripts(b.Failures), Successes: transcripts(b.Successes), Repair: b.Repair,
	}
	for _, e := range b.Entries {
		out.Entries = append(out.Entries, Entry{e.Harness.ID, e.Harness.Source, e.Harness.Meta, e.Score, e.Accepted})
	}
	for _, r := range b.Rejected {
		out.Rejected = append(out.Rejected, Rejected{r.Harness.Source, r.Err.Line, r.Err.Column, r.Err.Rule, r.Err.Reason, r.Err.Hint})
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

func transcripts(list []*engine.Trajectory) []Transcript {
	all := []Transcript{}
	for _, t := range list {
		one := Transcript{Reward: t.Verdict.Reward, Verdict: t.Verdict.Kind, Failure: t.Failure}
		for _, e := range t.Events {
			switch {
			case e.Said != nil:
				one.Lines = append(one.Lines, Line{Role: e.Said.Role, Text: e.Said.Content})
			case e.Call != nil:
				one.Lines = append(one.Lines, Line{Role: "assistant", Text: e.Call.Text})
			case e.Tool != nil:
				one.Lines = append(one.Lines, Line{Role: "call", Text: e.Tool.Result, Tool: e.Tool.Name + " " + e.Tool.Args})
			case e.Log != "":
				one.Lines = append(one.Lines, Line{Role: "log", Text: e.Log})
			}
		}
		all = append(all, one)
	}
	return all
}
