package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/harnesses"
	"github.com/seed-7c27e6b8/whale/sandbox"
)

type harnessCommands struct {
	New harnessNewCommand `cmd:"" help:"Copy a domain's seed harness and SKILL.md into a folder to start from."`
	Vet harnessVetCommand `cmd:"" help:"Check that a candidate loads; says line, reason and what to write instead."`
	Run harnessRunCommand `cmd:"" help:"Run one candidate on one task and print the transcript."`
}

type harnessNewCommand struct {
	Domain string `arg:"" help:"lookup, sums, chess, math, searchqa or own."`
	Out    string `arg:"" type:"path" help:"Folder to write harness.go and SKILL.md to; they must not exist yet."`
}

// Run writes the two files.
func (c *harnessNewCommand) Run(context.Context) error {
	source, skill, err := harnesses.Seed(c.Domain)
	if err != nil {
		return usageError{unknownDomain(c.Domain)}
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return engine.Fail(engine.AtHarness, c.Out, err)
	}
	files := map[string]string{"harness.go": source, "SKILL.md": skill}
	for name := range files { // before one of them is written
		if _, err := os.Lstat(filepath.Join(c.Out, name)); err == nil {
			return engine.Fail(engine.AtHarness, filepath.Join(c.Out, name), fs.ErrExist)
		}
	}
	for name, text := range files {
		file, err := os.OpenFile(filepath.Join(c.Out, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return engine.Fail(engine.AtHarness, c.Out, err)
		}
		_, err = io.WriteString(file, text)
		if err := errors.Join(err, file.Close()); err != nil {
			return engine.Fail(engine.AtHarness, name, err)
		}
	}
	return nil
}

type harnessVetCommand struct {
	Harness string `arg:"" type:"path" help:"The candidate: a file or a folder with harness.go."`
}

// Run loads the candidate in a sandbox.
func (c *harnessVetCommand) Run(ctx context.Context) (err error) {
	h, err := openHarness(c.Harness, nil)
	if err != nil {
		return err
	}
	box, err := sandbox.Open(ctx, sandbox.Config{Workers: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	program, err := box.Load(ctx, h)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s: loads\n", c.Harness, h.ID)
	return program.Close()
}

type harnessRunCommand struct {
	Harness string `arg:"" optional:"" type:"path" help:"The candidate: a file or a folder with harness.go; without it the seed."`
	Domain  string `required:"" help:"lookup, sums, chess, math, searchqa or own."`
	Data    string `type:"path" help:"Folder or file with the domain's data; lookup, sums and (without it) chess are generated."`
	Model   string `default:"nano" help:"nano or a model folder in Hugging Face layout."`
	Split   string `enum:"train,select,test" default:"select" help:"train, select or test."`
	Task    int    `default:"1" help:"Which task of the split, from 1."`
	Seed    uint64 `default:"1" help:"Randomness, and the world of a generated domain."`
}

// Run plays one rollout and prints it.
func (c *harnessRunCommand) Run(ctx context.Context) (err error) {
	config := engine.Defaults()
	config.Domain, config.Data, config.Model, config.Seed = c.Domain, c.Data, c.Model, c.Seed
	s, err := openSite(ctx, &config, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	tasks := s.domain.Tasks(engine.Split(c.Split))
	if c.Task < 1 || c.Task > len(tasks) {
		return usageError{fmt.Errorf("task %d: the %s split has 1 to %d", c.Task, c.Split, len(tasks))}
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
	pool := engine.Pool{Domain: s.domain, Policy: s.policy, Sampling: config.Sampling, Admission: s.admission(config)}
	task := tasks[c.Task-1]
	ts, err := pool.Rollouts(ctx, []engine.Job{{Program: program, Harness: h.ID, Task: task,
		Seed: engine.RolloutSeed(c.Seed, "try", task.ID, 0), Phase: "try"}})
	if err != nil {
		return err
	}
	printTranscript(os.Stdout, ts[0])
	return nil
}

func printTranscript(w io.Writer, t *engine.Trajectory) {
	var text bytes.Buffer
	archive.Transcript(&text, t)
	fmt.Fprintln(w, text.String())
}
