package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

type evalCommand struct {
	choiceFlags
	computeFlags
	endpointFlags
	Domain      string  `required:"" help:"Tasks: lookup, sums, chess, math, searchqa or own."`
	Data        string  `type:"path" help:"Folder with data, or CSV file with chess puzzles; chess without it is generated."`
	Model       string  `default:"nano" placeholder:"nano|DIR" help:"nano or a model folder in Hugging Face layout, such as RUN/weights/ID."`
	Harness     string  `type:"path" help:"Candidate: a file or a folder with harness.go; without it the domain's seed harness."`
	Split       string  `enum:"train,select,test" default:"test" help:"train, select or test."`
	Tasks       int     `default:"0" help:"Only the first N tasks of the split; 0 = all."`
	Samples     int     `short:"k" default:"8" help:"Rollouts per task: k of mean@k."`
	Temperature float64 `default:"1" help:"Sampling temperature; 0 = greedy."`
	Device      string  `default:"auto" help:"auto (a card if there is one), cpu, cuda or simt (the CUDA kernels on the CPU, slow)."`
	Threads     int     `default:"0" help:"Cores of the device; 0 = all."`
	Seed        uint64  `default:"1" help:"Randomness, and the world of a generated domain."`
	Show        int     `default:"0" help:"Print the first N transcripts to stderr."`
	JSON        bool    `name:"json" help:"Print the score as JSON instead of a table."`
}

// evaluation is what eval prints with --json.
type evaluation struct {
	Domain  string           `json:"domain"`
	Split   engine.Split     `json:"split"`
	Weights engine.WeightsID `json:"weights_id"`
	Harness engine.HarnessID `json:"harness_id"`
	Score   engine.Score     `json:"score"`
	Cost    engine.Cost      `json:"cost"`
	Seconds float64          `json:"seconds"`
}

// Run scores one pair of weights and harness.
func (c *evalCommand) Run(ctx context.Context) (err error) {
	switch {
	case c.Samples < 1 || c.Tasks < 0 || c.Show < 0:
		return usageError{errors.New("eval: --samples is at least 1, --tasks and --show at least 0")}
	case !(c.Temperature >= 0) || math.IsInf(c.Temperature, 0):
		return usageError{fmt.Errorf("eval: --temperature is %v, at least 0", c.Temperature)}
	}
	config := engine.Defaults()
	config.Domain, config.Data, config.Model, config.Device, config.Seed = c.Domain, c.Data, c.Model, c.Device, c.Seed
	c.choose(&config)
	if err := errors.Join(c.computeFlags.apply(&config), c.check("")); err != nil {
		return err
	}
	s, err := openSite(ctx, &config, c.Threads, frozen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := c.attach(ctx, s, &config); err != nil {
		return err
	}
	h, err := openHarness(c.Harness, s.domain)
	if err != nil {
		return err
	}
	program, err := s.sandbox.Load(ctx, h)
	if err != nil {
		return err
	}
	defer program.Close()

	s.announce()
	config.Sampling.Temperature = c.Temperature
	tasks := s.domain.Tasks(engine.Split(c.Split))
	if c.Tasks > 0 {
		tasks = tasks[:min(c.Tasks, len(tasks))]
	}
	pool := engine.Pool{Domain: s.domain, Policy: s.policy, Sampling: config.Sampling,
		Retries: config.Retries, Admission: s.admission(config)}
	var jobs []engine.Job
	for _, task := range tasks {
		for k := range c.Samples {
			jobs = append(jobs, engine.Job{Program: program, Harness: h.ID, Task: task, Sample: k,
				Seed: engine.RolloutSeed(c.Seed, "eval/"+c.Split, task.ID, k), Phase: "eval/" + c.Split})
		}
	}
	began := time.Now()
	ts, err := pool.Rollouts(ctx, jobs)
	if err != nil {
		return err
	}
	e := evaluation{Domain: c.Domain, Split: engine.Split(c.Split), Weights: s.policy.Weights(),
		Harness: h.ID, Score: engine.NewScore(tasks, ts), Seconds: time.Since(began).Seconds()}
	for _, t := range ts {
		e.Cost = e.Cost.Add(t.Cost)
	}
	for _, t := range ts[:min(c.Show, len(ts))] {
		printTranscript(os.Stderr, t)
	}
	if e.Score.N == 0 && len(ts) > 0 { // no number at all is no score of zero
		return engine.Fail(engine.Boundary(ts[0].Cause), string(ts[0].Task),
			fmt.Errorf("all %d rollouts were lost to the host; the first: %s", len(ts), ts[0].Failure))
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(e)
	}
	e.print()
	return nil
}

func (e evaluation) print() {
	s := e.Score
	fmt.Printf("%s %s, weights %s, harness %s\n\n", e.Domain, e.Split, e.Weights, e.Harness)
	fmt.Printf("mean@%d    %.3f  [%.3f, %.3f]  %d tasks\n", s.K, s.Mean, s.Lo, s.Hi, s.N)
	var tags []string
	for tag := range s.ByTag {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	sum, tagged := 0.0, 0
	for _, tag := range tags {
		fmt.Printf("  %-24s %.3f  %d\n", tag, s.ByTag[tag].Mean, s.ByTag[tag].N)
		sum, tagged = sum+s.ByTag[tag].Mean, tagged+s.ByTag[tag].N
	}
	if len(tags) > 1 && tagged == s.N { // the tags part the tasks, as benchmarks do
		fmt.Printf("  %-24s %.3f\n", "average of these", sum/float64(len(tags)))
	}
	fmt.Printf("\ncoverage %.3f  unparsed %.3f  invalid %.3f\n", s.Coverage, s.Unparsed, s.Invalid)
	rollouts := float64(s.N * s.K)
	fmt.Printf("%.1f s, %.0f rollouts/s; per rollout %.1f tokens sampled, %.1f in prompts, of which %.1f cached\n",
		e.Seconds, rollouts/e.Seconds, float64(e.Cost.Sampled)/rollouts, float64(e.Cost.Prompt)/rollouts, float64(e.Cost.Cached)/rollouts)
}
