package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/ledger"
)

type profileCommand struct {
	Runs  []string `arg:"" type:"existingdir" help:"Run folders, also of runs that go on; with several a comparison comes last."`
	Pprof string   `type:"path" placeholder:"FILE" help:"Write a profile for 'go tool pprof': seconds, tokens and work by cycle, phase, unit and stage."`
	Trace string   `type:"path" placeholder:"FILE" help:"Write Chrome trace JSON (chrome://tracing, Perfetto)."`
	JSON  bool     `name:"json" help:"Print one JSON object a run instead of tables."`
	// Calibration is for those who embed it.
	Calibration string `type:"path" placeholder:"FILE" help:"Write the runs as calibrations, what estimates of later runs rest on."`
	// Rollouts holds the same for each rollout and call.
	Rollouts string `type:"path" placeholder:"FILE" help:"Write what each rollout and each of its calls cost, one line of JSON a rollout."`
}

// Run prints what runs cost.
func (c *profileCommand) Run(ctx context.Context) error {
	var profiles []ledger.Profile
	var runs []*archive.Reader
	for _, dir := range c.Runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := archive.Read(dir)
		if err != nil {
			return err
		}
		runs = append(runs, r)
		profiles = append(profiles, ledger.NewProfile(filepath.Base(filepath.Clean(dir)), r.Records()))
	}
	for _, f := range []struct {
		path  string
		write func(io.Writer, []ledger.Profile) error
	}{{c.Pprof, ledger.WritePprof}, {c.Trace, ledger.WriteTrace}} {
		if f.path == "" {
			continue
		}
		if err := writeFile(f.path, func(w io.Writer) error { return f.write(w, profiles) }); err != nil {
			return err
		}
	}
	if c.Calibration != "" {
		if err := writeCalibrations(c.Calibration, c.Runs); err != nil {
			return err
		}
	}
	if c.Rollouts != "" {
		if err := writeFile(c.Rollouts, func(w io.Writer) error { return writeRollouts(ctx, w, runs) }); err != nil {
			return err
		}
	}
	out := bufio.NewWriter(os.Stdout)
	for _, p := range profiles {
		if c.JSON {
			if err := json.NewEncoder(out).Encode(profileLine(p)); err != nil {
				return err
			}
			continue
		}
		printProfile(out, p)
	}
	if len(profiles) > 1 && !c.JSON {
		printComparison(out, profiles)
	}
	return out.Flush()
}

// writeRollouts goes through the runs unit by unit.
func writeRollouts(ctx context.Context, w io.Writer, runs []*archive.Reader) error {
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	for _, r := range runs {
		for _, record := range r.Records() {
			if record.File == "" {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			ts, err := r.Trajectories(record.File)
			if err != nil {
				return err
			}
			for _, one := range ledger.Rollouts(ledger.NewLine(record), record.File, ts) {
				if err := encoder.Encode(one); err != nil {
					return err
				}
			}
		}
	}
	return out.Flush()
}

func printProfile(w io.Writer, p ledger.Profile) {
	fmt.Fprintf(w, "%s\n\ntokens            units rollouts   prefill    cached   sampled   trained | a rollout: prompt sampled\n", p.Name)
	rows := append(append([]ledger.Part{}, p.Parts...), ledger.Part{Total: p.Total, Before: p.First, After: p.Last})
	for _, r := range rows {
		k := r.Kinds()
		fmt.Fprintf(w, "%-16s %6d %8d %9d %9d %9d %9d | %17s %7s\n", partName(r.Total), r.Units, r.Rollouts, k.Prefill, k.Cached, k.Sampled, k.Trained,
			per(float64(k.Prefill+k.Cached), r.Rollouts), per(float64(k.Sampled), r.Rollouts))
	}
	fmt.Fprintf(w, "\nseconds              wall  propose     load rollouts    train     save     idle | work: policy  sandbox    tools   verify | ms a rollout\n")
	for _, r := range rows {
		c := r.Spending.Cost
		fmt.Fprintf(w, "%-16s %8.1f", partName(r.Total), r.Spending.Wall)
		for _, s := range r.Stages() {
			fmt.Fprintf(w, " %8.1f", max(0, s.Seconds))
		}
		fmt.Fprintf(w, " | %12.1f %8.2f %8.2f %8.2f | %12s\n", c.PolicySeconds, c.SandboxSeconds, c.ToolSeconds, c.VerifySeconds,
			per(1000*r.Spending.Wall, r.Rollouts))
	}
	printIdle(w, rows)
	printMoney(w, rows)
	printGains(w, p, rows)
	if p.Failed > 0 {
		fmt.Fprintf(w, "\n%d iterations without candidates, since the proposer failed\n", p.Failed)
	}
	fmt.Fprintln(w)
}

// printGains prints what accuracy was gained by phase, and what a point of it cost: hundredths
// of the mean. What a proposer's service took stands there where one was asked.
func printGains(w io.Writer, p ledger.Profile, rows []ledger.Part) {
	asked := p.Total.Spending.Cost.Proposal.Calls > 0
	fmt.Fprintf(w, "\naccuracy (%s)   before   after   points | a point: rollouts  seconds    sampled    trained     joules", p.Split)
	if asked {
		fmt.Fprint(w, "   proposer    dollars")
	}
	fmt.Fprintln(w)
	rows[len(rows)-1].Total = p.Phases // measuring bought nothing
	for _, r := range rows {
		gain, ok := r.Gain()
		if !ok {
			continue
		}
		points, k, s := 100*gain, r.Kinds(), r.Spending
		cost := []string{"-", "-", "-", "-", "-", "-", "-"}
		if points > 0 {
			cost[0], cost[1] = fmt.Sprintf("%.0f", float64(r.Rollouts)/points), fmt.Sprintf("%.2f", s.Wall/points)
			cost[2], cost[3] = fmt.Sprintf("%.0f", float64(k.Sampled)/points), fmt.Sprintf("%.0f", float64(k.Trained)/points)
			if taken := s.Energy.Total(); taken != nil {
				cost[4] = fmt.Sprintf("%.1f", *taken/points)
			}
			c := s.Cost.Proposal
			cost[5] = fmt.Sprintf("%.0f", float64(c.Input+c.Output)/points)
			if c.Unpriced == 0 {
				cost[6] = fmt.Sprintf("%.4f", c.Dollars/points)
			}
		}
		if !asked {
			cost = cost[:5]
		}
		fmt.Fprintf(w, "%-16s %7.3f %7.3f %+8.1f |", partName(r.Total), r.Before.Mean, r.After.Mean, points)
		for _, c := range cost {
			fmt.Fprintf(w, " %10s", c)
		}
		fmt.Fprintln(w)
	}
}

// per is a share of a cost for one of n; "-" of none.
func per(cost float64, n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", cost/float64(n))
}

func partName(t ledger.Total) string {
	switch t.Kind {
	case engine.StepRecord:
		return fmt.Sprintf("cycle %d weight", t.Cycle)
	case engine.SearchRecord:
		return fmt.Sprintf("cycle %d harness", t.Cycle)
	case "":
		return "all"
	}
	return string(t.Kind)
}

// comparison prints runs side by side, a row a call.
type comparison struct {
	w        io.Writer
	profiles []ledger.Profile
}

func (c comparison) row(name string, value func(p ledger.Profile) string) {
	fmt.Fprintf(c.w, "%-22s", name)
	for _, p := range c.profiles {
		fmt.Fprintf(c.w, " %16s", value(p))
	}
	fmt.Fprintln(c.w)
}

func (c comparison) count(name string, n func(p ledger.Profile) int) {
	c.row(name, func(p ledger.Profile) string { return fmt.Sprint(n(p)) })
}

// perPoint is a row of what a point of accuracy took: - without a gain, or where it is not
// known, NaN.
func (c comparison) perPoint(name string, of func(p ledger.Profile) float64) {
	c.row(name, func(p ledger.Profile) string {
		gain, ok := p.Gain()
		if !ok || gain <= 0 || math.IsNaN(of(p)) {
			return "-"
		}
		return fmt.Sprintf("%.1f", of(p)/(100*gain))
	})
}

// printComparison prints runs side by side.
func printComparison(w io.Writer, profiles []ledger.Profile) {
	c := comparison{w, profiles}
	c.row("", func(p ledger.Profile) string { return p.Name[max(0, len(p.Name)-16):] })
	c.count("rollouts", func(p ledger.Profile) int { return p.Total.Rollouts })
	c.count("prefill tokens", func(p ledger.Profile) int { return p.Total.Kinds().Prefill })
	c.count("cached tokens", func(p ledger.Profile) int { return p.Total.Kinds().Cached })
	c.count("sampled tokens", func(p ledger.Profile) int { return p.Total.Kinds().Sampled })
	c.count("trained tokens", func(p ledger.Profile) int { return p.Total.Kinds().Trained })
	c.row("seconds", func(p ledger.Profile) string { return fmt.Sprintf("%.1f", p.Total.Spending.Wall) })
	for i, s := range (ledger.Total{}).Stages() {
		c.row("  "+s.Name, func(p ledger.Profile) string { return fmt.Sprintf("%.1f", max(0, p.Total.Stages()[i].Seconds)) })
	}
	c.row("device works", func(p ledger.Profile) string { return fmt.Sprintf("%.1f", p.Total.Device()) })
	for i, cause := range (ledger.Total{}).Idle() {
		c.row("  idle: "+cause.Name, func(p ledger.Profile) string { return fmt.Sprintf("%.2f", max(0, p.Total.Idle()[i].Seconds)) })
	}
	c.row("joules", func(p ledger.Profile) string { return joules(p.Total.Spending.Energy.Total()) })
	c.count("proposer tokens", func(p ledger.Profile) int {
		proposal := p.Total.Spending.Cost.Proposal
		return proposal.Input + proposal.Output
	})
	c.row("proposer dollars", func(p ledger.Profile) string { return fmt.Sprintf("%.4f", p.Total.Spending.Cost.Proposal.Dollars) })
	c.row("ms a rollout", func(p ledger.Profile) string { return per(1000*p.Total.Spending.Wall, p.Total.Rollouts) })
	c.row("accuracy at the end", func(p ledger.Profile) string {
		if p.Last == nil {
			return "-"
		}
		return fmt.Sprintf("%.3f", p.Last.Mean)
	})
	c.points()
}

// points are the rows of what a point of accuracy took.
func (c comparison) points() {
	c.perPoint("rollouts a point", func(p ledger.Profile) float64 { return float64(p.Phases.Rollouts) })
	c.perPoint("seconds a point", func(p ledger.Profile) float64 { return p.Phases.Spending.Wall })
	c.perPoint("sampled a point", func(p ledger.Profile) float64 { return float64(p.Phases.Kinds().Sampled) })
	c.perPoint("trained a point", func(p ledger.Profile) float64 { return float64(p.Phases.Kinds().Trained) })
	c.perPoint("joules a point", func(p ledger.Profile) float64 {
		if taken := p.Phases.Spending.Energy.Total(); taken != nil {
			return *taken
		}
		return math.NaN()
	})
	c.perPoint("proposer a point", func(p ledger.Profile) float64 {
		if proposal := p.Phases.Spending.Cost.Proposal; proposal.Calls > 0 {
			return float64(proposal.Input + proposal.Output)
		}
		return math.NaN()
	})
	c.perPoint("cents a point", func(p ledger.Profile) float64 {
		if proposal := p.Phases.Spending.Cost.Proposal; proposal.Calls > 0 && proposal.Unpriced == 0 {
			return 100 * proposal.Dollars
		}
		return math.NaN()
	})
}

// profileJSON is what profile prints with --json.
type profileJSON struct {
	Run   string       `json:"run"`
	Split engine.Split `json:"split"` // of the gains
	Parts []partJSON   `json:"parts"`
	Total partJSON     `json:"total"`
}

type partJSON struct {
	Cycle    int               `json:"cycle"`
	Kind     engine.RecordKind `json:"kind"`
	Units    int               `json:"units"`
	Rollouts int               `json:"rollouts"`
	Spending engine.Spending   `json:"spending"`
	Device   float64           `json:"device"` // seconds in which the device worked
	Idle     []ledger.Stage    `json:"idle"`   // the other seconds, by cause
	Joules   *float64          `json:"joules"` // null = could not be read
	Gain     *float64          `json:"gain"`   // of accuracy, in [-1,1]; null = not measured
}

func profileLine(p ledger.Profile) profileJSON {
	line := func(t ledger.Total, gain float64, ok bool) partJSON {
		j := partJSON{Cycle: t.Cycle, Kind: t.Kind, Units: t.Units, Rollouts: t.Rollouts, Spending: t.Spending,
			Device: t.Device(), Idle: t.Idle(), Joules: t.Spending.Energy.Total()}
		if ok {
			j.Gain = &gain
		}
		return j
	}
	j := profileJSON{Run: p.Name, Split: p.Split}
	for _, part := range p.Parts {
		gain, ok := part.Gain()
		j.Parts = append(j.Parts, line(part.Total, gain, ok))
	}
	gain, ok := p.Gain()
	j.Total = line(p.Total, gain, ok)
	return j
}
