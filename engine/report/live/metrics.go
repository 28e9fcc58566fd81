package live

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
)

// metrics writes the run's counters in the text format of Prometheus (version 0.0.4).
// Totals are those of committed units; what the unit at work has done stands beside them.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	folder, err := archive.Read(s.folder)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	s.mu.Lock()
	p, watched := s.progress, s.watched
	s.mu.Unlock()
	state := engine.Fold(folder.Records())
	var m exposition
	m.family("whale_rollouts_total", "counter", "Rollouts of committed units.")
	m.sample(float64(state.Spent.Weight), "kind", "weight")
	m.sample(float64(state.Spent.Harness), "kind", "harness")
	m.sample(float64(state.Spent.Test), "kind", "test")
	m.tokens(state.Total.Cost)
	m.seconds(state.Total)
	m.family("whale_update_steps_total", "counter", "Update steps of the weights.")
	m.sample(float64(state.Steps))
	m.family("whale_harnesses_total", "counter", "Harnesses that were scored on the select split.")
	m.sample(float64(len(state.Entries)))
	m.proposals(state.Total.Cost.Proposal)
	m.joules(state.Total.Energy)
	m.scores(state)
	if watched {
		m.progress(p)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write(m.Bytes()) // the client is gone if this fails
}

func (m *exposition) tokens(c engine.Cost) {
	m.family("whale_tokens_total", "counter", "Tokens of committed units; cached ones are part of the prompt.")
	m.sample(float64(c.Prompt), "kind", "prompt")
	m.sample(float64(c.Cached), "kind", "cached")
	m.sample(float64(c.Sampled), "kind", "sampled")
	m.sample(float64(c.Trained), "kind", "trained")
}

func (m *exposition) seconds(t engine.Spending) {
	m.family("whale_seconds_total", "counter", "Seconds of committed units; sandbox, tools and verify are sums over rollouts, which overlap.")
	for _, stage := range []struct {
		name  string
		value float64
	}{{"wall", t.Wall}, {"rollout", t.Rollouts}, {"train", t.Cost.TrainSeconds}, {"propose", t.Cost.ProposeSeconds},
		{"device", t.Cost.DeviceSeconds}, {"sandbox", t.Cost.SandboxSeconds}, {"tools", t.Cost.ToolSeconds}, {"verify", t.Cost.VerifySeconds}} {
		m.sample(stage.value, "stage", stage.name)
	}
}

// proposals are there once a service was asked.
func (m *exposition) proposals(c engine.ProposalCost) {
	if c.Calls == 0 {
		return
	}
	m.family("whale_proposer_calls_total", "counter", "Answers of the proposer's service.")
	m.sample(float64(c.Calls))
	m.family("whale_proposer_tokens_total", "counter", "Tokens at the proposer's service; cached ones are part of the input.")
	m.sample(float64(c.Input), "kind", "input")
	m.sample(float64(c.Cached), "kind", "cached")
	m.sample(float64(c.Output), "kind", "output")
	m.family("whale_proposer_dollars_total", "counter", "Money for proposals, as far as prices are known.")
	m.sample(c.Dollars)
}

// joules has no sample for what could not be read.
func (m *exposition) joules(e engine.Energy) {
	if e.Package.Seconds == 0 && e.Card.Seconds == 0 {
		return
	}
	m.family("whale_joules_total", "counter", "Energy that the machine took in committed units, all processes together.")
	if e.Package.Seconds > 0 {
		m.sample(e.Package.Joules, "part", "package")
	}
	if e.Card.Seconds > 0 {
		m.sample(e.Card.Joules, "part", "card")
	}
}

// scores are the latest of each split.
func (m *exposition) scores(state engine.State) {
	m.family("whale_score", "gauge", "Latest mean reward by split: of the harness in use on select, of the last point on test.")
	for _, e := range state.Entries {
		if e.Harness.ID == state.Harness {
			m.sample(e.Score.Mean, "split", "select")
		}
	}
	curve := state.Curve()
	for i := len(curve) - 1; i >= 0; i-- {
		if curve[i].Test != nil {
			m.sample(curve[i].Test.Mean, "split", "test")
			break
		}
	}
}

func (m *exposition) progress(p engine.Progress) {
	m.family("whale_stage", "gauge", "1 for the stage at work.")
	for _, stage := range []engine.Stage{engine.StageStart, engine.StageWeight, engine.StageHarness, engine.StageMeasure, engine.StageDone} {
		at := 0.0
		if stage == p.Stage {
			at = 1
		}
		m.sample(at, "stage", string(stage))
	}
	for _, g := range []struct {
		name, help string
		value      float64
	}{
		{"whale_cycle", "Cycle at work, from 1.", float64(p.Unit.Cycle)},
		{"whale_unit_rollouts_done", "Rollouts that the unit at work has done.", float64(p.Done)},
		{"whale_unit_rollouts", "Rollouts of the unit at work.", float64(p.Jobs)},
		{"whale_unit_accuracy", "Mean reward of the unit at work so far.", p.Mean},
		{"whale_sampled_tokens_per_second", "Sampling rate of the unit at work.", p.TokensPerSecond},
		{"whale_budget_rollouts", "Rollouts that training and search may spend.", float64(p.Budget)},
		{"whale_left_seconds", "Rough estimate to the end; 0 = not known.", p.Left.Seconds()},
	} {
		m.family(g.name, "gauge", g.help)
		m.sample(g.value)
	}
}

// exposition is a text of metrics. Names and help are ours, label values escaped.
type exposition struct {
	bytes.Buffer
	name string
}

func (m *exposition) family(name, kind, help string) {
	m.name = name
	fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// sample writes one value with at most one label.
func (m *exposition) sample(v float64, label ...string) {
	m.WriteString(m.name)
	if len(label) == 2 {
		fmt.Fprintf(m, `{%s="%s"}`, label[0], strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(label[1]))
	}
	m.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
}
