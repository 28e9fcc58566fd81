package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox"
	"github.com/seed-7c27e6b8/whale/trainer"
)

type doctorCommand struct{}

// Run prints one line a part and fails if one that a run needs does not work.
func (doctorCommand) Run(ctx context.Context) error {
	fmt.Printf("machine   %s/%s, %d cores\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if path, err := exec.LookPath("go"); err == nil {
		fmt.Printf("go        %s\n", path)
	} else {
		fmt.Println("go        not found; candidates are interpreted, so a run does not need it")
	}
	return errors.Join(doctorDevice(ctx), doctorSandbox(ctx))
}

// doctorDevice makes one training step and one completion with the embedded model.
func doctorDevice(ctx context.Context) error {
	device, err := openDevice("cpu", 0)
	if err != nil {
		return err
	}
	defer device.Close()
	fmt.Printf("device    %s, %s (CPU mode: this build has no CUDA device)\n", device.Kind(), device.ISA())
	t, err := openModel("nano", "lookup", device, trainer.Options{})
	if err != nil {
		return err
	}
	defer t.Close()
	prompt, err := t.Policy().Encode([]engine.Turn{{Role: "user", Content: "2+3=?"}})
	if err != nil {
		return err
	}
	began := time.Now()
	c, err := t.Policy().Generate(ctx, engine.Request{Prompt: prompt, MaxTokens: 24, Sampling: engine.Sampling{Temperature: 1, TopP: 1}, Seed: 1})
	if err != nil {
		return err
	}
	ids := append(prompt, c.Sampled...)
	u, err := t.Learner().Update(ctx, []engine.Sequence{{IDs: ids, Sampled: []engine.Span{{From: len(prompt), To: len(ids)}}, LogProbs: c.LogProbs}})
	if err != nil {
		return err
	}
	fmt.Printf("model     nano generates and trains (%d tokens, %.0f ms), policy and learner differ by %.1e in log-probability\n",
		u.Tokens, float64(time.Since(began).Microseconds())/1000, u.Drift)
	if u.Drift > 1e-3 {
		return engine.Fail(engine.AtPolicy, "nano", fmt.Errorf("policy and learner disagree by %v", u.Drift))
	}
	return nil
}

// doctorSandbox runs the seed harness of lookup against a host that hangs up.
func doctorSandbox(ctx context.Context) (err error) {
	began := time.Now()
	box, err := sandbox.Open(ctx, sandbox.Config{Workers: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	opened := time.Since(began)
	domain, _, err := openDomain("lookup", "", 1)
	if err != nil {
		return err
	}
	began = time.Now()
	program, err := box.Load(ctx, engine.NewHarness(domain.Seed, engine.Meta{}))
	if err != nil {
		return err
	}
	defer program.Close()
	level, err := box.Level(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("sandbox   ready in %.2f s, a candidate loads in %.0f ms; %s\n", opened.Seconds(),
		float64(time.Since(began).Microseconds())/1000, strings.Join(level.Confinement, ", "))
	if level.Compile == "" {
		fmt.Println("          what the interpreter gets wrong is compiled")
	} else {
		fmt.Printf("          what the interpreter gets wrong is refused, not compiled: %s\n", level.Compile)
	}
	for _, f := range level.Fallbacks {
		fmt.Printf("          without %s\n", f)
	}
	return nil
}
