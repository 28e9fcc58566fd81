package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// ErrConfig: a setting is out of range or does not fit the others.
var ErrConfig = errors.New("bad setting")

// Config is everything that decides what a run does. The same Config, domain and model
// give the same run. The last group is about the machine and changes no result.
type Config struct {
	// What is run. The engine copies these names into the run's record; the command
	// resolves them.
	Domain   string `json:"domain"`
	Data     string `json:"data,omitempty"`     // folder with the domain's files; empty = embedded or generated
	Model    string `json:"model"`              // "nano" or a folder in Hugging Face layout
	Device   string `json:"device"`             // cpu or cuda, resolved; results are bit for bit on the CPU only
	Proposer string `json:"proposer,omitempty"` // builtin, or what else fills the candidates' slots
	// Tasks choose among the domain's, Services serve it.
	Tasks     TaskChoice `json:"tasks,omitzero"`
	Services  Services   `json:"services,omitzero"`
	Condition string     `json:"condition"` // whale, adaptive, weight-only, ...: see Conditions
	Seed      uint64     `json:"seed"`      // all randomness of the run
	// Update and Search choose the two phases: see Updates and Searches; empty = rsft and
	// meta-harness.
	Update string `json:"update,omitempty"`
	Search string `json:"search,omitempty"`

	// Schedule: how the budget of rollouts is spent.
	Cycles int `json:"cycles"` // weight phases of the condition whale; 3-4 reach the plateau on lookup (spec/nano.md 7)
	Steps  int `json:"steps"`  // E: update steps in a weight phase; 6 is where a phase's gain flattens (spec/nano.md 6)
	// Epochs is E as a part of the training tasks, which takes the place of Steps when it
	// is not 0; the paper's main schedule has 0.6.
	Epochs     float64 `json:"epochs,omitempty"`
	Iterations int     `json:"iterations"` // I: iterations in a harness phase; the first only evaluates the incoming harness
	Candidates int     `json:"candidates"` // M: harnesses proposed in each further iteration
	// Repairs is R: how many times candidates that were refused go back to the proposer in
	// the same iteration, with the reason.
	Repairs int `json:"repairs"`
	// Rollouts is the budget of training and search together, the same for every
	// condition; 0 = what Cycles of whale take. Test rollouts come on top.
	Rollouts int `json:"rollouts"`
	// StopAt ends the run early, after the first unit with this success rate: the share of
	// rewarded rollouts of a step, or of the incumbent on the select tasks; 0 = never.
	StopAt float64 `json:"stop_at,omitempty"`
	// Adaptive is the schedule of the condition adaptive.
	Adaptive Adaptive `json:"adaptive"`

	// Weight phase.
	Prompts   int       `json:"prompts"` // training tasks per step; 32 suits the nano model, the paper has 256
	Samples   int       `json:"samples"` // G: rollouts per training task
	Batch     int       `json:"batch"`   // sequences per optimizer step
	Optimizer Optimizer `json:"optimizer"`
	Compute   Compute   `json:"compute,omitzero"`
	// PolicyGradient is the setting of the update policy-gradient.
	PolicyGradient Surrogate `json:"policy_gradient"`

	// Harness phase.
	SelectTasks   int `json:"select_tasks"`   // tasks of the select split that are used; 0 = all
	SelectSamples int `json:"select_samples"` // rollouts per select task and harness; the paper has 1
	// AcceptP is the largest p of the paired comparison at which a better candidate
	// replaces the incumbent; 1 = any strict gain will do. A strict threshold blocks
	// levers that help only together, so the default is 1 and the next phase measures
	// the accepted harness again on fresh seeds.
	AcceptP float64 `json:"accept_p"`
	// Racing evaluates candidates on growing parts of the select tasks and drops those that
	// can't win any more: it is the chance, for each, that the full evaluation would have
	// put a dropped one first. 0 = all candidates on all tasks; .2 saves a quarter to
	// three quarters of the rollouts and costs a point of choosing the best at most
	// (bench/RESULTS.md). With it, a comparison's p holds at any time, so accept_p below 1
	// asks for more than without.
	Racing float64 `json:"racing,omitempty"`
	// Coverage is the share of rollouts that the host must not have lost for a candidate
	// to be accepted.
	Coverage float64 `json:"coverage"`

	// Test, after the run.
	TestTasks    int `json:"test_tasks"`    // tasks of the test split that are used; 0 = all
	TestSamples  int `json:"test_samples"`  // k of mean@k at the start, the best and the final point; the paper has 8
	CurveSamples int `json:"curve_samples"` // samples per test task at the points between, and per select task for choosing the best point

	Sampling Sampling `json:"sampling"`

	// Machine: no effect on results.
	InFlight       int `json:"in_flight"`        // rollouts at once; the policy batches what is in flight
	TokensInFlight int `json:"tokens_in_flight"` // assistant tokens that these may still write; 0 = no limit
	Retries        int `json:"retries"`          // further attempts at a rollout that the host lost
	SaveEvery      int `json:"save_every"`       // steps between saved weights; what a kill costs at most

	// Proposing is how a proposer other than builtin is reached and what it may spend. It
	// may change when a run goes on.
	Proposing Proposing `json:"proposing"`
}

// Proposing says how a proposer works that is a program or a model behind a service. The
// engine keeps it with the run and does not read it. Keys are not in it: they stay in the
// environment.
type Proposing struct {
	Command string  `json:"command,omitempty"` // of the proposer command: program and arguments
	Model   string  `json:"model,omitempty"`   // name of the model; empty = the proposer's own choice
	URL     string  `json:"url,omitempty"`     // base URL of a compatible service; empty = the official one
	Key     string  `json:"key,omitempty"`     // name of the environment variable with the key; empty = the usual one
	Minutes float64 `json:"minutes,omitempty"` // wall time of one call; 0 = 20
	Turns   int     `json:"turns,omitempty"`   // replies of the model in one call; 0 = 60
	// Tokens (input, cached and output together) and Dollars are budgets of the whole run;
	// 0 = no limit.
	Tokens  int     `json:"tokens,omitempty"`
	Dollars float64 `json:"dollars,omitempty"`
	// Price is input,output[,cache read[,cache write]] in dollars per million tokens; empty
	// = of the table of known models, and where that has none no money is counted.
	Price string `json:"price,omitempty"`
}

// Adaptive says when a phase has stopped to help (WHALE, adaptive schedule).
type Adaptive struct {
	// WindowSteps is the number of steps whose rewards are averaged; 0 = Window. A weight
	// phase ends when no average has been better for as many steps as one spans.
	WindowSteps int     `json:"window_steps"`
	Window      float64 `json:"window"` // the same in epochs; the paper has 0.2

	// A harness phase ends after Patience proposing iterations without a new incumbent,
	// but not before Least of them and after Most in any case.
	Least    int `json:"least"`
	Patience int `json:"patience"`
	Most     int `json:"most"`
}

// Optimizer is AdamW's setting (spec/rsft.md 3). It belongs to the learner and stands
// here so that a run's record has it; the engine does not read it.
type Optimizer struct {
	Rate  float64 `json:"rate"` // constant; 5e-4 fits the nano model, the paper's 1e-7 a model of billions
	Beta1 float64 `json:"beta1"`
	Beta2 float64 `json:"beta2"`
	Eps   float64 `json:"eps"`
	Decay float64 `json:"decay"` // decoupled, on all parameters
	Clip  float64 `json:"clip"`  // of the global gradient norm
}

// Defaults are the settings for the embedded nano model (spec/nano.md 7).
func Defaults() Config {
	return Config{
		Model: "nano", Device: "cpu", Proposer: "builtin", Condition: "whale", Seed: 1,
		// 3 proposing iterations a phase: with 2, half of the searches found only one of
		// the two levers that two-hop questions need together (spec/nano.md 9.6).
		Cycles: 4, Steps: 6, Iterations: 4, Candidates: 3, Repairs: 2,
		// Half of Steps, the stretch in which a phase's gain still shows on the nano model.
		Adaptive: Adaptive{WindowSteps: 3, Window: .2, Least: 5, Patience: 2, Most: 15},
		Prompts:  32, Samples: 8, Batch: 64,
		Optimizer:      Optimizer{Rate: 5e-4, Beta1: .9, Beta2: .999, Eps: 1e-8, Decay: .01, Clip: 1},
		PolicyGradient: Surrogate{Clip: .2, Beta: .02},
		SelectTasks:    64, SelectSamples: 1, AcceptP: 1, Coverage: .9,
		TestSamples: 8, CurveSamples: 2,
		Sampling: Sampling{Temperature: 1, TopP: 1},
		InFlight: 64, Retries: 2, SaveEvery: 1,
	}
}

// counts names the first number that is too small.
func (c Config) counts(d *Domain) error {
	for _, p := range []struct {
		name         string
		value, least int
	}{
		{"cycles", c.Cycles, 1}, {"steps", c.Steps, 1}, {"candidates", c.Candidates, 1}, {"prompts", c.Prompts, 1},
		{"samples", c.Samples, 1}, {"batch", c.Batch, 1}, {"select_samples", c.SelectSamples, 1},
		{"test_samples", c.TestSamples, 1}, {"in_flight", c.InFlight, 1}, {"save_every", c.SaveEvery, 1},
		{"tokens of the domain's budget", d.Budget.Tokens, 1}, {"turns of the domain's budget", d.Budget.Turns, 1},
		{"select_tasks", c.SelectTasks, 0}, {"test_tasks", c.TestTasks, 0}, {"curve_samples", c.CurveSamples, 0},
		{"rollouts", c.Rollouts, 0}, {"retries", c.Retries, 0}, {"repairs", c.Repairs, 0},
		{"proposing.tokens", c.Proposing.Tokens, 0}, {"proposing.turns", c.Proposing.Turns, 0},
		{"adaptive.window_steps", c.Adaptive.WindowSteps, 0}, {"adaptive.least", c.Adaptive.Least, 1},
		{"adaptive.patience", c.Adaptive.Patience, 1}, {"adaptive.most", c.Adaptive.Most, c.Adaptive.Least},
		{"tokens_in_flight", c.TokensInFlight, 0},
	} {
		if p.value < p.least {
			return fmt.Errorf("%w: %s is %d, at least %d", ErrConfig, p.name, p.value, p.least)
		}
	}
	return nil
}

// Validate names the first setting that can't work, also against the domain's sizes. The
// error is an ErrConfig.
func (c Config) Validate(d *Domain) error {
	if err := cmp.Or(c.counts(d), c.Tasks.validate()); err != nil {
		return err
	}
	plan, ok := Conditions[c.Condition]
	_, update := Updates[c.Update]
	_, search := Searches[c.Search]
	switch {
	case !update:
		return fmt.Errorf("%w: unknown update %q; there are %s", ErrConfig, c.Update, names(Updates))
	case !search:
		return fmt.Errorf("%w: unknown search %q; there are %s", ErrConfig, c.Search, names(Searches))
	case !ok:
		return fmt.Errorf("%w: unknown condition %q; there are %s", ErrConfig, c.Condition, ConditionNames())
	case c.Iterations < 2:
		return fmt.Errorf("%w: iterations is %d, at least 2: the first only evaluates the incoming harness", ErrConfig, c.Iterations)
	case plan.has(WeightKind) && len(d.Train) < c.Prompts:
		return fmt.Errorf("%w: prompts is %d, but the domain has %d training tasks", ErrConfig, c.Prompts, len(d.Train))
	case plan.has(HarnessKind) && len(d.Select) == 0:
		return fmt.Errorf("%w: the domain has no select tasks", ErrConfig)
	case !(c.Epochs >= 0) || math.IsInf(c.Epochs, 0):
		return fmt.Errorf("%w: epochs is %v, above 0, or 0 for steps", ErrConfig, c.Epochs)
	case !(c.Proposing.Dollars >= 0) || !(c.Proposing.Minutes >= 0):
		return fmt.Errorf("%w: proposing.dollars is %v and proposing.minutes %v, at least 0", ErrConfig, c.Proposing.Dollars, c.Proposing.Minutes)
	case !(c.StopAt >= 0 && c.StopAt <= 1):
		return fmt.Errorf("%w: stop_at is %v, from 0 (never) to 1", ErrConfig, c.StopAt)
	case plan.Pace == PaceAdaptive && c.Adaptive.WindowSteps == 0 && !(c.Adaptive.Window > 0):
		return fmt.Errorf("%w: adaptive.window is %v epochs, above 0", ErrConfig, c.Adaptive.Window)
	case plan.Pace == PaceStages && c.Cycles < 2:
		return fmt.Errorf("%w: cycles is %d, at least 2 for %s: the cycles say how stages share the budget", ErrConfig, c.Cycles, c.Condition)
	case !(c.PolicyGradient.Clip >= 0) || !(c.PolicyGradient.Beta >= 0) || math.IsInf(c.PolicyGradient.Beta, 0):
		return fmt.Errorf("%w: policy_gradient has clip %v and beta %v, both at least 0", ErrConfig, c.PolicyGradient.Clip, c.PolicyGradient.Beta)
	case c.AcceptP <= 0 || c.AcceptP > 1:
		return fmt.Errorf("%w: accept_p is %v, above 0 and at most 1", ErrConfig, c.AcceptP)
	case !(c.Racing >= 0 && c.Racing < 1):
		return fmt.Errorf("%w: racing is %v, from 0 (off) to below 1", ErrConfig, c.Racing)
	case c.Coverage < 0 || c.Coverage > 1:
		return fmt.Errorf("%w: coverage is %v, from 0 to 1", ErrConfig, c.Coverage)
	case c.Sampling.Temperature <= 0 || c.Sampling.TopP <= 0 || c.Sampling.TopP > 1 || c.Sampling.TopK < 0:
		return fmt.Errorf("%w: sampling wants temperature > 0, top_p in (0,1], top_k >= 0", ErrConfig)
	}
	if err := c.Compute.check(); err != nil {
		return err
	}
	if _, ok := c.next(State{}, d); !ok {
		return fmt.Errorf("%w: rollouts is %d, not enough for one step of %s", ErrConfig, c.Rollouts, c.Condition)
	}
	return nil
}

// Difference is an ErrConfig: a setting is not what a run began with.
type Difference struct {
	Setting  string // its name in YAML
	Was, Now string
	Rule     string // how it may change, if at all
}

func (d *Difference) Error() string {
	text := fmt.Sprintf("%v: %s was %s, now %s", ErrConfig, d.Setting, d.Was, d.Now)
	if d.Rule != "" {
		text += "; " + d.Rule
	}
	return text
}

// Unwrap gives errors.Is the cause.
func (d *Difference) Unwrap() error { return ErrConfig }

// Same returns the first difference between two settings that changes results, a
// *Difference. A budget that has grown (cycles, rollouts, stop_at) is none: the run goes on
// with it. One that is smaller is a difference.
func (c Config) Same(o Config) error {
	a, b := c.identity(), o.identity()
	for _, pair := range [][2]map[string]json.RawMessage{{a, b}, {b, a}} {
		for key := range pair[0] { // zero values may be left out
			if _, ok := pair[1][key]; !ok {
				pair[1][key] = json.RawMessage("unset")
			}
		}
	}
	for _, key := range sortedKeys(b) {
		if string(a[key]) != string(b[key]) {
			return &Difference{Setting: key, Was: string(a[key]), Now: string(b[key])}
		}
	}
	const grows = "a budget can only grow"
	switch {
	case o.Cycles < c.Cycles:
		return &Difference{"cycles", fmt.Sprint(c.Cycles), fmt.Sprint(o.Cycles), grows}
	case o.Rollouts < c.Rollouts:
		return &Difference{"rollouts", fmt.Sprint(c.Rollouts), fmt.Sprint(o.Rollouts), grows}
	case o.StopAt != c.StopAt && o.StopAt != 0 && (c.StopAt == 0 || o.StopAt < c.StopAt):
		return &Difference{"stop_at", fmt.Sprint(c.StopAt), fmt.Sprint(o.StopAt), "it can only rise or go"}
	}
	return nil
}

// Renewed is a config as this version writes it: the proposer 'command:PROGRAM ARG...' of
// older ones is command with its program in Proposing.
func (c Config) Renewed() Config {
	if line, ok := strings.CutPrefix(c.Proposer, "command:"); ok {
		c.Proposer = "command"
		if c.Proposing.Command == "" {
			c.Proposing.Command = strings.TrimSpace(line)
		}
	}
	return c
}

// WithBudget is the config with another one's budget, the proposer's too.
func (c Config) WithBudget(o Config) Config {
	c.Cycles, c.Rollouts, c.StopAt, c.Proposing = o.Cycles, o.Rollouts, o.StopAt, o.Proposing
	return c
}

// identity is the config by field, without the budget and what only concerns the machine.
func (c Config) identity() map[string]json.RawMessage {
	c = c.WithBudget(Config{})
	c.InFlight, c.TokensInFlight, c.Retries, c.SaveEvery, c.Data = 0, 0, 0, 0, ""
	c.Services.Retriever, c.Services.Judge, c.Services.Policy = "", "", ""
	c = c.Renewed()
	c.Proposing = Proposing{}
	c.Update, c.Search, c.Proposer = cmp.Or(c.Update, "rsft"), cmp.Or(c.Search, "meta-harness"), cmp.Or(c.Proposer, "builtin")
	if !methods[c.Update].gradient {
		c.PolicyGradient = Surrogate{} // nobody reads it
	}
	text, err := json.Marshal(c)
	fields := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		panic("engine: a Config is always valid JSON: " + err.Error()) // a mistake of ours
	}
	return fields
}
