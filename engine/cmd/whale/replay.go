package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
)

type replayCommand struct {
	Folder  string `arg:"" type:"existingdir" help:"Run folder."`
	Rollout string `arg:"" help:"FILE:INDEX, as 'whale archive RUN rollouts' prints it."`
	Data    string `type:"path" placeholder:"DIR" help:"The domain's files, when they are elsewhere now."`
	Model   string `placeholder:"DIR" help:"The start model's folder, when it is elsewhere now."`
	Threads int    `default:"0" help:"Cores of the device; 0 = all. The result does not depend on it."`
	Show    bool   `help:"Print the transcript of the rollout that was run now."`
}

// Run runs one archived rollout again on the CPU and compares it bit for bit.
func (c *replayCommand) Run(ctx context.Context) (err error) {
	past, err := archive.Read(c.Folder)
	if err != nil {
		return err
	}
	want, err := c.find(past)
	if err != nil {
		return err
	}
	config := past.Manifest().Config
	if config.Device != "cpu" {
		fmt.Fprintf(os.Stderr, "whale: the run was on %s; only a run on the cpu is sure to come out the same\n", config.Device)
	}
	config.Device = "cpu"
	for _, f := range []struct {
		to   *string
		from string
	}{{&config.Data, c.Data}, {&config.Model, c.Model}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	s, err := openSite(ctx, &config, c.Threads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	got, err := c.again(ctx, s, config, past, want)
	if err != nil {
		return err
	}
	if c.Show {
		printTranscript(os.Stderr, got)
	}
	if err := engine.Same(want, got); err != nil {
		return engine.Fail(engine.AtPolicy, c.Rollout, err)
	}
	fmt.Printf("%s: the same, bit for bit: %d calls, %d tokens sampled, %s, %s, reward %g\n", c.Rollout, len(got.Calls()), got.Sampled(),
		got.Outcome, got.Verdict.Kind, got.Verdict.Reward)
	return nil
}

// find reads the rollout that FILE:INDEX names.
func (c *replayCommand) find(past *archive.Reader) (*engine.Trajectory, error) {
	file, number, _ := strings.Cut(c.Rollout, ":")
	index, err := strconv.Atoi(number)
	if err != nil {
		return nil, usageError{engine.Fail(engine.AtArchive, c.Rollout, errors.New("is not FILE:INDEX"))}
	}
	for _, r := range past.Records() {
		if r.File != file || file == "" {
			continue
		}
		ts, err := past.Trajectories(file)
		if err != nil {
			return nil, engine.Fail(engine.AtArchive, file, err)
		}
		if index < 0 || index >= len(ts) {
			return nil, usageError{engine.Fail(engine.AtArchive, c.Rollout, fmt.Errorf("the file has rollouts 0 to %d", len(ts)-1))}
		}
		if ts[index].Outcome == engine.Infra {
			return nil, engine.Fail(engine.Boundary(ts[index].Cause), c.Rollout, errors.New("was lost to the host; there is nothing to compare with"))
		}
		return ts[index], nil
	}
	return nil, usageError{engine.Fail(engine.AtArchive, file, errors.New("is no unit of this run"))}
}

// again makes the rollout once more, with its weights, harness, task and seed.
func (c *replayCommand) again(ctx context.Context, s *site, config engine.Config, past *archive.Reader, want *engine.Trajectory) (*engine.Trajectory, error) {
	task, ok := findTask(s.domain, want.Task)
	if !ok {
		return nil, engine.Fail(engine.AtTask, string(want.Task), errors.New("is not in the domain; the data differ from the run's"))
	}
	if err := engine.Recall(ctx, config, past, s.trainer.Learner(), s.trainer.Policy(), want.Weights); err != nil {
		return nil, err
	}
	h, err := past.Harness(want.Harness)
	if err != nil {
		return nil, engine.Fail(engine.AtArchive, string(want.Harness), err)
	}
	program, err := s.sandbox.Load(ctx, h)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	pool := engine.Pool{Domain: s.domain, Policy: s.trainer.Policy(), Sampling: config.Sampling, Retries: config.Retries, Admission: s.admission(config)}
	ts, err := pool.Rollouts(ctx, []engine.Job{{Program: program, Harness: h.ID, Task: task, Sample: want.Sample, Seed: want.Seed, Phase: want.Phase}})
	if err != nil {
		return nil, err
	}
	return ts[0], nil
}

func findTask(d *engine.Domain, id engine.TaskID) (engine.Task, bool) {
	for _, split := range []engine.Split{engine.Train, engine.Select, engine.Test} {
		for _, t := range d.Tasks(split) {
			if t.ID == id {
				return t, true
			}
		}
	}
	return engine.Task{}, false
}
