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
	"github.com/seed-7c27e6b8/whale/engine/schedule/nvml"
	"github.com/seed-7c27e6b8/whale/engine/schedule/sensor"
	"github.com/seed-7c27e6b8/whale/sandbox"
	"github.com/seed-7c27e6b8/whale/trainer"
	"github.com/seed-7c27e6b8/whale/trainer/oracle"
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
	doctorMachine()
	return errors.Join(doctorDevice(ctx), doctorGradients(ctx), doctorSandbox(ctx))
}

// doctorMachine says what can be read of memory, load, energy and cards. Nothing of it is
// needed for a run.
func doctorMachine() {
	host := sensor.Files{}.Host()
	bytes := func(r sensor.Reading) string {
		if v, ok := r.Get(); ok {
			return fmt.Sprintf("%.1f GB", v/1e9)
		}
		return r.Text("%.0f")
	}
	fmt.Printf("memory    %s free of %s\n", bytes(host.MemoryFree), bytes(host.MemoryTotal))
	fmt.Printf("          waiting for memory: %s; load %s; cores by cgroup: %s\n", host.Stalled.Text("%.2f"), host.Load.Text("%.1f"), host.Cores.Text("%.1f"))
	if rapl := sensor.OpenRAPL(sensor.Files{}); rapl.Missing() == "" {
		fmt.Printf("energy    RAPL counts %d processor packages\n", rapl.Packages())
	} else {
		fmt.Printf("energy    joules of processors are not known: %s\n", rapl.Missing())
	}
	driver, err := nvml.Open()
	if err != nil {
		fmt.Printf("cards     none: %v\n", err)
		return
	}
	cards, err := driver.Cards()
	for _, card := range cards {
		fmt.Printf("card %d    %s\n", card.Index, card.Line())
	}
	if err = errors.Join(err, driver.Close()); err != nil {
		fmt.Printf("cards     %v\n", err)
	}
}

// doctorDevice makes one training step and one completion with the embedded model.
func doctorDevice(ctx context.Context) error {
	device, err := openDevice("auto", 0)
	if err != nil {
		return err
	}
	defer device.Close()
	fmt.Printf("device    %s, %s\n", device.Kind(), device.ISA())
	if device.Kind() == "cpu" {
		fmt.Printf("          %s\n", cpuMode())
	}
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

// doctorGradients compares one training step of small models of every family with the same
// step in double precision, differentiated by another library.
func doctorGradients(ctx context.Context) error {
	device, err := openDevice("cpu", 0)
	if err != nil {
		return err
	}
	defer device.Close()
	began := time.Now()
	results, err := oracle.Check(ctx, device)
	if err != nil {
		return engine.Fail(engine.AtDevice, device.Kind(), err)
	}
	worst := results[0]
	for _, r := range results {
		if !r.OK() {
			err = errors.Join(err, engine.Fail(engine.AtDevice, device.Kind(),
				fmt.Errorf("gradient check of %s: gradient of %s differs by %.1e, the loss by %.1e", r.Model, r.Tensor, r.Worst, r.Drift)))
		}
		if !(r.Worst <= worst.Worst) {
			worst = r
		}
	}
	if err == nil {
		fmt.Printf("gradients those of %d small models are within %.1e of a double-precision oracle (%s of %s), %.0f ms\n",
			len(results), worst.Worst, worst.Tensor, worst.Model, float64(time.Since(began).Microseconds())/1000)
	}
	return err
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
	domain, _, err := openDomain(engine.Config{Domain: "lookup", Seed: 1})
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
