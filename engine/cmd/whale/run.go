package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/report"
)

// runFlags are the settings that have a flag; a flag that is not given leaves the value
// of --config or the default. All other settings of engine.Config can stand in --config.
type runFlags struct {
	Domain     *string  `placeholder:"NAME" help:"Tasks: lookup, sums, chess, math, searchqa or own."`
	Data       *string  `type:"path" placeholder:"DIR" help:"Folder or file with the domain's data; lookup, sums and (without it) chess are generated."`
	Condition  *string  `placeholder:"NAME" help:"whale (default), adaptive, prompt-only, weight-only, harness-only, stagewise-weights-first or stagewise-harness-first; all spend the same rollouts."`
	Model      *string  `placeholder:"nano|DIR" help:"nano (default) or a model folder in Hugging Face layout."`
	Device     *string  `placeholder:"NAME" help:"auto (default: a card if there is one), cpu, cuda or simt (the CUDA kernels on the CPU, slow)."`
	Seed       *uint64  `placeholder:"N" help:"All randomness of the run (default 1)."`
	Cycles     *int     `placeholder:"N" help:"Weight phases of the condition whale."`
	Steps      *int     `placeholder:"N" help:"Update steps in a weight phase."`
	Epochs     *float64 `placeholder:"X" help:"The same in epochs of the training tasks; takes the place of --steps."`
	Iterations *int     `placeholder:"N" help:"Iterations in a harness phase; the first evaluates the incoming harness."`
	Candidates *int     `placeholder:"N" help:"Harnesses proposed in an iteration."`
	Racing     *float64 `placeholder:"X" help:"Drop candidates early, each with this chance at most that it would have won (.2 suits); 0 = off."`
	Rollouts   *int     `placeholder:"N" help:"Budget of training and search rollouts; 0 = what --cycles take."`
	StopAt     *float64 `placeholder:"X" help:"End early at this success rate, above 0 to 1."`
	Rate       *float64 `placeholder:"X" help:"Learning rate."`
}

type runCommand struct {
	runFlags
	choiceFlags
	proposerFlags
	computeFlags
	endpointFlags
	learnFlags
	pageFlags
	estimateFlags
	Harness string `type:"path" placeholder:"FILE" help:"Begin with this harness, a file or a folder with harness.go, instead of the domain's seed."`
	Config  string `type:"existingfile" help:"YAML file with settings, or the run.yaml of a run to begin with what it has."`
	Out     string `type:"path" placeholder:"DIR" help:"Run folder (default runs/DOMAIN-CONDITION-SEED)."`
	Threads int    `default:"0" help:"Cores of the device; 0 = all. Results do not depend on it."`
	JSON    bool   `name:"json" help:"Print the summary as JSON instead of a table."`
}

// Run makes or resumes a run and writes its report.
func (c *runCommand) Run(ctx context.Context) error {
	config, err := c.settings()
	if err != nil {
		return err
	}
	if c.Out == "" {
		c.Out = filepath.Join("runs", fmt.Sprintf("%s-%s-%d", config.Domain, config.Condition, config.Seed))
	}
	if err := c.check(config.Proposer); err != nil {
		return err
	}
	proposer, err := openProposer(config, c.wait())
	if err != nil {
		return err
	}
	if config.Rollouts == 0 {
		if _, ok := engine.Conditions[config.Condition]; !ok {
			return usageError{fmt.Errorf("condition %s: unknown; there are %s", config.Condition, engine.ConditionNames())}
		}
	}
	if err := c.trainable(config); err != nil {
		return err
	}
	s, err := openSite(ctx, &config, c.Threads)
	if err != nil {
		return err
	}
	defer s.close()
	if err := c.attach(ctx, s, &config); err != nil {
		return err
	}
	if c.Harness != "" {
		h, err := openHarness(c.Harness, s.domain)
		if err != nil {
			return err
		}
		s.domain.Seed = h.Source
	}
	if err := errors.Join(config.Validate(s.domain), c.free()); err != nil { // before there is a folder
		return c.explained(err)
	}
	store, err := archive.Open(c.Out)
	if err != nil {
		return c.explained(err)
	}
	defer store.Close()

	summary, err := c.alternate(ctx, config, s, store, proposer)
	if err != nil {
		return c.explained(err)
	}
	if c.JSON {
		encoder := json.NewEncoder(os.Stdout)
		if err := encoder.Encode(summary); err != nil {
			return err
		}
	}
	return c.report(s, store, config, summary)
}

// explained is an error of a run with what to do about it, as far as that is known.
func (c *runCommand) explained(err error) error {
	var stuck *engine.ProposerError
	if errors.Is(err, archive.ErrOther) {
		err = fmt.Errorf("%w; %s needs the settings of its run.yaml, another run needs another --out", err, c.Out)
	}
	switch {
	case errors.Is(err, engine.ErrConfig):
		return usageError{err}
	case errors.Is(err, archive.ErrSettings):
		return fmt.Errorf("%w; mend it, or take another --out", err)
	case errors.Is(err, archive.ErrFormat):
		return fmt.Errorf("%w; go on with the whale that wrote it, or take another --out", err)
	case errors.Is(err, archive.ErrNoRun):
		return fmt.Errorf("%w; take another --out", err)
	case errors.As(err, &stuck):
		source := filepath.Join(c.Out, "harnesses", string(stuck.Harness), "harness.go")
		return fmt.Errorf("%w (%s); once the proposer works the same command goes on, also with other --proposer-... settings", err, source)
	}
	return err
}

func (c *runCommand) alternate(ctx context.Context, config engine.Config, s *site, store *archive.Archive, proposer engine.Proposer) (*engine.Summary, error) {
	page, err := c.open(ctx, c.Out, s.domain, s.trainer)
	if err != nil {
		return nil, err
	}
	terminal := report.NewTerminal(os.Stderr)
	observers := watchers{&opening{Terminal: terminal, notices: append(s.notices, "memory of the model: "+s.trainer.Memory().String())}}
	if page != nil {
		observers = append(observers, page)
	}
	parts, err := c.foresee(ctx, config, s.parts(config, store, proposer, observers), store, terminal.Note)
	if err != nil {
		return nil, errors.Join(err, terminal.Close())
	}
	summary, err := engine.Run(ctx, config, parts)
	if err == nil && summary.Estimate != nil {
		terminal.Note(hindsight(summary))
	}
	counters := s.trainer.Counters()
	if err == nil && counters.FLOPRate() > 0 {
		terminal.Note(fmt.Sprintf("device: %.0f GFLOP/s in training and generation, %.1f s + %.1f s",
			counters.FLOPRate()/1e9, counters.TrainSeconds, counters.GenerateSeconds))
	}
	return summary, errors.Join(err, terminal.Close())
}

// opening is a terminal that says what the domain read before the first progress, which
// comes when the run's folder and settings are accepted.
type opening struct {
	*report.Terminal
	notices []string
}

// Observe is called one at a time.
func (o *opening) Observe(p engine.Progress) {
	for _, line := range o.notices {
		o.Note(line)
	}
	o.notices = nil
	o.Terminal.Observe(p)
}

// report writes the page and the table.
func (c *runCommand) report(s *site, store *archive.Archive, config engine.Config, summary *engine.Summary) error {
	r, err := readReport(store, s, config, *summary, c.Out)
	if err != nil {
		return err
	}
	page := filepath.Join(c.Out, "report.html")
	if err := writePage(page, r); err != nil {
		return err
	}
	if c.JSON {
		return nil
	}
	return report.WriteTable(os.Stdout, r, nearby(page))
}

// nearby is a path as someone who stands in this folder writes it; flags made it absolute.
func nearby(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(short) {
		return short
	}
	return path
}

// settings merges defaults, the config file and flags, in this order.
func (c *runCommand) settings() (engine.Config, error) {
	config := engine.Defaults()
	config.Device = "auto" // openSite resolves it
	if c.Config != "" {
		text, err := os.ReadFile(c.Config)
		if err != nil {
			return config, err
		}
		if config, err = archive.Settings(text, config); err != nil {
			return config, usageError{fmt.Errorf("%s: %w", c.Config, err)}
		}
	}
	f := &c.runFlags
	set(&config.Domain, f.Domain)
	set(&config.Data, f.Data)
	set(&config.Condition, f.Condition)
	set(&config.Model, f.Model)
	set(&config.Device, f.Device)
	set(&config.Seed, f.Seed)
	set(&config.Cycles, f.Cycles)
	set(&config.Steps, f.Steps)
	set(&config.Epochs, f.Epochs)
	set(&config.StopAt, f.StopAt)
	set(&config.Iterations, f.Iterations)
	set(&config.Candidates, f.Candidates)
	set(&config.Racing, f.Racing)
	set(&config.Rollouts, f.Rollouts)
	set(&config.Optimizer.Rate, f.Rate)
	c.proposerFlags.apply(&config)
	c.choose(&config)
	c.learnFlags.apply(&config)
	if err := c.computeFlags.apply(&config); err != nil {
		return config, err
	}
	if rate := config.Optimizer.Rate; !(rate >= 0) || math.IsInf(rate, 0) {
		return config, usageError{fmt.Errorf("run: the learning rate is %v, at least 0", rate)}
	}
	if config.Domain == "" {
		return config, usageError{errors.New("run: --domain is missing; there are lookup, sums, chess, math, searchqa, own")}
	}
	return config, nil
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// commandLine is what makes a run again, as far as flags can say it.
func commandLine(c engine.Config) string {
	d := engine.Defaults()
	parts := []string{"whale run --domain", c.Domain}
	for _, f := range []struct {
		name       string
		value, was any
	}{
		{"data", c.Data, d.Data}, {"condition", c.Condition, d.Condition}, {"model", c.Model, d.Model},
		{"seed", c.Seed, d.Seed}, {"precision", c.Compute.Precision, d.Compute.Precision},
		{"cycles", c.Cycles, d.Cycles}, {"steps", c.Steps, d.Steps}, {"epochs", c.Epochs, d.Epochs}, {"stop-at", c.StopAt, d.StopAt},
		{"iterations", c.Iterations, d.Iterations},
		{"candidates", c.Candidates, d.Candidates}, {"racing", c.Racing, d.Racing}, {"rollouts", c.Rollouts, d.Rollouts}, {"rate", c.Optimizer.Rate, d.Optimizer.Rate},
	} {
		if f.value != f.was {
			parts = append(parts, fmt.Sprintf("--%s %v", f.name, f.value))
		}
	}
	if c.Compute.Int8 {
		parts = append(parts, "--int8")
	}
	return strings.Join(append(parts, proposerLine(c)...), " ")
}
