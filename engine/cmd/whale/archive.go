package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/report"
)

// archiveCommands look into a run folder, also while the run goes on.
type archiveCommands struct {
	Folder archiveRun `arg:"" help:"Run folder."`
}

// archiveRun's path is of type "path": kong leaves an "existingdir" that has commands
// after it empty.
type archiveRun struct {
	Folder   string                 `arg:"" type:"path" help:"Run folder."`
	Top      archiveTopCommand      `cmd:"" help:"The harnesses with the best scores."`
	Diff     archiveDiffCommand     `cmd:"" help:"What differs between two harnesses."`
	Rollouts archiveRolloutsCommand `cmd:"" help:"List rollouts, filtered and sorted."`
}

type archiveTopCommand struct {
	Count int  `short:"n" default:"10" help:"How many; 0 = all."`
	JSON  bool `name:"json" help:"One JSON object a line."`
}

// topRow is a line of `top --json`.
type topRow struct {
	Harness    engine.HarnessID   `json:"harness"`
	Mean       float64            `json:"mean"` // latest score on the select split
	Lo         float64            `json:"lo"`
	Hi         float64            `json:"hi"`
	Weights    engine.WeightsID   `json:"weights"`
	Accepted   bool               `json:"accepted"`
	InUse      bool               `json:"in_use"`
	Cycle      int                `json:"cycle"`
	Iteration  int                `json:"iteration"`
	Parents    []engine.HarnessID `json:"parents"`
	Axis       string             `json:"axis"`
	Hypothesis string             `json:"hypothesis"`
}

// Run prints the best harnesses, the earlier one first on a tie.
func (c *archiveTopCommand) Run(run *archiveRun) error {
	r, err := archive.Read(run.Folder)
	if err != nil {
		return err
	}
	state := engine.Fold(r.Records())
	entries := slices.Clone(state.Entries)
	slices.SortStableFunc(entries, func(a, b engine.Entry) int { return cmp.Compare(b.Score.Mean, a.Score.Mean) })
	if c.Count > 0 {
		entries = entries[:min(c.Count, len(entries))]
	}
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	if !c.JSON {
		fmt.Fprintf(out, "%-18s %6s  %-16s %-9s %-6s %-10s %s\n", "harness", "mean", "95 %", "state", "from", "axis", "hypothesis")
	}
	for _, e := range entries {
		m, s := e.Harness.Meta, e.Score
		row := topRow{e.Harness.ID, s.Mean, s.Lo, s.Hi, e.Weights, e.Accepted, e.Harness.ID == state.Harness, m.Cycle, m.Iteration, m.Parents, m.Axis, m.Hypothesis}
		if c.JSON {
			if err := encoder.Encode(row); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(out, "%-18s %6.3f  [%.3f, %.3f]   %-9s %-6s %-10s %s\n", row.Harness, row.Mean, row.Lo, row.Hi, row.standing(),
			fmt.Sprintf("%d.%d", m.Cycle, m.Iteration), quiet(m.Axis), quiet(m.Hypothesis))
	}
	return out.Flush()
}

func (r topRow) standing() string {
	switch {
	case r.InUse:
		return "in use"
	case r.Accepted:
		return "accepted"
	}
	return ""
}

// quiet keeps foreign text on its line and away from the terminal's controls.
func quiet(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
}

type archiveDiffCommand struct {
	From string `arg:"" help:"Harness id, or the beginning of one."`
	To   string `arg:"" optional:"" help:"Harness id; without it FROM is compared with its first parent."`
}

// Run prints the lines that differ.
func (c *archiveDiffCommand) Run(run *archiveRun) error {
	r, err := archive.Read(run.Folder)
	if err != nil {
		return err
	}
	from, err := findHarness(r, c.From)
	if err != nil {
		return err
	}
	var to engine.Harness
	if c.To != "" {
		if to, err = findHarness(r, c.To); err != nil {
			return err
		}
	} else {
		if len(from.Meta.Parents) == 0 {
			return usageError{engine.Fail(engine.AtHarness, string(from.ID), errors.New("has no parent; name the other harness"))}
		}
		to = from
		if from, err = findHarness(r, string(to.Meta.Parents[0])); err != nil {
			return err
		}
	}
	fmt.Printf("--- %s\n+++ %s\n", from.ID, to.ID)
	for _, h := range report.Hunks(report.Compare(from.Source, to.Source), 3) {
		fmt.Println(h.Header())
		for _, l := range h.Lines {
			fmt.Printf("%c%s\n", l.Edit, quiet(l.Text))
		}
	}
	return nil
}

// findHarness finds a harness by the beginning of its id.
func findHarness(r *archive.Reader, prefix string) (engine.Harness, error) {
	var found []engine.HarnessID
	for _, rec := range r.Records() {
		ids := []engine.HarnessID{rec.Harness}
		if rec.Search != nil {
			for _, e := range rec.Search.Evaluated {
				ids = append(ids, e.Harness.ID)
			}
			for _, e := range rec.Search.Rejected {
				ids = append(ids, e.Harness.ID)
			}
		}
		for _, id := range ids {
			if strings.HasPrefix(string(id), prefix) && !slices.Contains(found, id) {
				found = append(found, id)
			}
		}
	}
	if len(found) != 1 {
		return engine.Harness{}, usageError{engine.Fail(engine.AtHarness, prefix, fmt.Errorf("names %d harnesses of the run", len(found)))}
	}
	h, err := r.Harness(found[0])
	return h, engine.Fail(engine.AtArchive, string(found[0]), err)
}

type archiveRolloutsCommand struct {
	Outcome   string `enum:",scored,invalid,infra" default:"" help:"scored, invalid or infra."`
	Verdict   string `enum:",equal,different,unparsed" default:"" help:"equal, different or unparsed."`
	Harness   string `placeholder:"ID" help:"Harness id, or the beginning of one."`
	Task      string `placeholder:"ID" help:"Task id, or the beginning of one."`
	Phase     string `placeholder:"TEXT" help:"Beginning of the phase: train, select/2, measure."`
	File      string `placeholder:"NAME" help:"Beginning of the unit's file."`
	MinTokens int    `help:"At least so many sampled tokens."`
	MaxTokens int    `default:"-1" help:"At most so many; -1 = any."`
	MinTurns  int    `help:"At least so many calls of the model."`
	MaxTurns  int    `default:"-1" help:"At most so many; -1 = any."`
	Sort      string `enum:"order,tokens,turns,reward" default:"order" help:"order (as made), tokens, turns or reward."`
	Down      bool   `help:"Largest first."`
	Count     int    `short:"n" default:"20" help:"Show so many; 0 = all."`
	Show      bool   `help:"Print their transcripts."`
	JSON      bool   `name:"json" help:"One JSON object a line."`
}

// Run lists what the filters keep.
func (c *archiveRolloutsCommand) Run(run *archiveRun) error {
	r, err := archive.Read(run.Folder)
	if err != nil {
		return err
	}
	found, err := r.Rollouts(c.keep)
	if err != nil {
		return err
	}
	c.sort(found)
	shown := found
	if c.Count > 0 {
		shown = found[:min(c.Count, len(found))]
	}
	out := bufio.NewWriter(os.Stdout)
	if err := c.print(out, r, shown); err != nil {
		return err
	}
	if !c.JSON {
		fmt.Fprintf(out, "%d of %d rollouts that match\n", len(shown), len(found))
	}
	return out.Flush()
}

func (c *archiveRolloutsCommand) keep(x *archive.Rollout) bool {
	within := func(n, least, most int) bool { return n >= least && (most < 0 || n <= most) }
	return (c.Outcome == "" || string(x.Outcome) == c.Outcome) &&
		(c.Verdict == "" || string(x.Verdict) == c.Verdict) &&
		strings.HasPrefix(string(x.Harness), c.Harness) && strings.HasPrefix(string(x.Task), c.Task) &&
		strings.HasPrefix(x.Phase, c.Phase) && strings.HasPrefix(x.File, c.File) &&
		within(x.Sampled, c.MinTokens, c.MaxTokens) && within(x.Turns, c.MinTurns, c.MaxTurns)
}

func (c *archiveRolloutsCommand) sort(found []archive.Rollout) {
	key := map[string]func(x *archive.Rollout) float64{
		"tokens": func(x *archive.Rollout) float64 { return float64(x.Sampled) },
		"turns":  func(x *archive.Rollout) float64 { return float64(x.Turns) },
		"reward": func(x *archive.Rollout) float64 { return x.Reward },
	}[c.Sort]
	switch {
	case key != nil:
		slices.SortStableFunc(found, func(a, b archive.Rollout) int {
			if c.Down {
				return cmp.Compare(key(&b), key(&a))
			}
			return cmp.Compare(key(&a), key(&b))
		})
	case c.Down:
		slices.Reverse(found)
	}
}

func (c *archiveRolloutsCommand) print(out *bufio.Writer, r *archive.Reader, shown []archive.Rollout) error {
	encoder := json.NewEncoder(out)
	if !c.JSON {
		fmt.Fprintf(out, "%-30s %-18s %-18s %3s %-8s %-9s %6s %5s %5s %7s %s\n", "rollout", "harness", "task", "k", "outcome", "verdict",
			"reward", "turns", "tools", "tokens", "phase")
	}
	file, ts := "", []*engine.Trajectory(nil)
	for i := range shown {
		x := &shown[i]
		if c.JSON {
			if err := encoder.Encode(x); err != nil {
				return err
			}
		} else {
			fmt.Fprintf(out, "%-30s %-18s %-18s %3d %-8s %-9s %6.3g %5d %5d %7d %s\n", fmt.Sprintf("%s:%d", x.File, x.Index), x.Harness,
				quiet(string(x.Task)), x.Sample, x.Outcome, x.Verdict, x.Reward, x.Turns, x.Tools, x.Sampled, x.Phase)
		}
		if !c.Show {
			continue
		}
		if file != x.File {
			var err error
			if ts, err = r.Trajectories(x.File); err != nil {
				return engine.Fail(engine.AtArchive, x.File, err)
			}
			file = x.File
		}
		printTranscript(out, ts[x.Index])
	}
	return nil
}
