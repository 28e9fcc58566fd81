package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit/kittest"
	"github.com/seed-7c27e6b8/whale/sandbox"
)

type benchCommand struct {
	computeFlags
	endpointFlags
	Harnesses string `arg:"" optional:"" type:"path" help:"A candidate's file, or a folder: every .go file in it and below is a candidate. Without it copies of the seed."`
	Domain    string `default:"lookup" help:"lookup, sums, chess, math, searchqa or own."`
	Data      string `type:"path" help:"Files of the domain, where it needs some."`
	Model     string `default:"script" help:"script (fixed replies), nano or a model folder."`
	Copies    int    `default:"100" help:"How many different copies of the seed, without a path."`
	Rollouts  int    `default:"20" help:"Rollouts of each candidate."`
	Engine    string `enum:"auto,interpret,compile" default:"auto" help:"auto, interpret or compile."`
	Workers   int    `help:"Worker processes; 0 = one per core."`
	Parallel  int    `default:"8" help:"Candidates at work at the same time."`
	Seed      uint64 `default:"1" help:"Randomness, and the world of a generated domain."`
	JSON      bool   `name:"json" help:"One JSON object instead of text."`
}

// benchResult is what came out; stages are mean milliseconds.
type benchResult struct {
	Candidates          int     `json:"candidates"`
	Refused             int     `json:"refused"`
	Compiled            int     `json:"compiled"`
	Rollouts            int     `json:"rollouts"`
	Failed              int     `json:"failed"` // rollouts that ended as anything but well or out of budget
	Seconds             float64 `json:"seconds"`
	CandidatesPerSecond float64 `json:"candidates_per_second"`
	RolloutsPerSecond   float64 `json:"rollouts_per_second"`
	PerCandidate        struct {
		Vet     float64 `json:"vet_ms"`
		Compile float64 `json:"compile_ms"`
		Load    float64 `json:"load_ms"`
	} `json:"per_candidate"`
	PerRollout struct {
		Fork  float64 `json:"fork_ms"`
		Guest float64 `json:"guest_ms"`
		Calls float64 `json:"host_calls_ms"`
		Model float64 `json:"model_ms"`
		Hop   float64 `json:"hop_ms"` // the rest: between the processes, and waiting for them
	} `json:"per_rollout"`
}

// Run loads and runs every candidate.
func (c *benchCommand) Run(ctx context.Context) (err error) {
	if c.Copies < 1 || c.Rollouts < 0 || c.Parallel < 1 || c.Workers < 0 {
		return usageError{errors.New("copies and parallel are at least 1, rollouts and workers at least 0")}
	}
	if err := c.check(""); err != nil {
		return err
	}
	if len(c.Endpoint) > 0 && c.Model == "script" {
		return usageError{errors.New("--endpoint needs --model nano or a model folder, for its tokenizer; the script generates nothing")}
	}
	b := measurement{command: c}
	hosts, closeHosts, err := c.hosts(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeHosts()) }()
	b.hosts = hosts
	candidates, err := c.candidates(hosts.domain)
	if err != nil {
		return err
	}
	if b.box, err = sandbox.Open(ctx, sandbox.Config{Workers: c.Workers, Engine: c.Engine}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.box.Close()) }()
	if err := b.all(ctx, candidates); err != nil {
		return err
	}
	return b.result.print(c.JSON)
}

// candidates reads the sources, or makes copies of the seed that differ in a comment.
func (c *benchCommand) candidates(domain *engine.Domain) (out []engine.Harness, err error) {
	if c.Harnesses == "" {
		for n := range c.Copies {
			out = append(out, engine.NewHarness(fmt.Sprintf("%s\n// copy %d\n", domain.Seed, n), engine.Meta{Proposer: "bench"}))
		}
		return out, nil
	}
	err = filepath.WalkDir(c.Harnesses, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		h, err := openHarness(path, nil)
		out = append(out, h)
		return err
	})
	if err == nil && len(out) == 0 {
		err = errors.New("no .go file")
	}
	if err != nil {
		return nil, usageError{engine.Fail(engine.AtHarness, c.Harnesses, err)}
	}
	return out, nil
}

// benchHosts makes the other side of rollouts.
type benchHosts struct {
	domain *engine.Domain
	site   *site // nil for the script
	tasks  []engine.Task
	script kittest.Script
	seed   uint64
	config engine.Config
}

func (c *benchCommand) hosts(ctx context.Context) (*benchHosts, func() error, error) {
	h := &benchHosts{seed: c.Seed}
	nothing := func() error { return nil }
	if c.Model != "script" {
		config := engine.Defaults()
		config.Domain, config.Data, config.Model, config.Seed = c.Domain, c.Data, c.Model, c.Seed
		if err := c.computeFlags.apply(&config); err != nil {
			return nil, nothing, err
		}
		s, err := openSite(ctx, &config, 0, frozen)
		if err != nil {
			return nil, nothing, err
		}
		if err := c.attach(ctx, s, &config); err != nil {
			return nil, nothing, errors.Join(err, s.close())
		}
		s.announce()
		h.site, h.domain, h.tasks, h.config = s, s.domain, s.domain.Tasks(engine.Split("select")), config
		if len(h.tasks) == 0 {
			return nil, nothing, errors.Join(engine.Fail(engine.AtTask, c.Domain, errors.New("no tasks")), s.close())
		}
		return h, s.close, nil
	}
	domain, _, err := openDomain(engine.Config{Domain: c.Domain, Data: c.Data, Seed: c.Seed})
	if err != nil {
		return nil, nothing, err
	}
	scripts := kittest.Scripts(c.Domain)
	if len(scripts) == 0 {
		return nil, nothing, usageError{engine.Fail(engine.AtTask, c.Domain, errors.New("has no script; name a model"))}
	}
	h.domain, h.script = domain, scripts[0]
	return h, nothing, nil
}

// start gives the host of one rollout and what it begins with.
func (h *benchHosts) start(n int) (engine.Start, engine.Host, error) {
	start := engine.Start{Domain: h.domain.Name, Tools: h.domain.Tools, Budget: h.domain.Budget}
	if h.site == nil {
		start.Input = h.script.Input
		return start, &scriptHost{script: h.script}, nil
	}
	task := h.tasks[n%len(h.tasks)]
	env, err := h.domain.World.Start(task)
	start.Input = task.Input
	return start, engine.NewSession(engine.SessionSetup{Policy: h.site.policy, Env: env, Tools: h.domain.Tools, Sampling: h.config.Sampling,
		Seed: engine.RolloutSeed(h.seed, "bench", task.ID, n), Task: task.ID, Budget: h.domain.Budget}), err
}

// scriptHost answers with a script's replies and results, whatever is asked.
type scriptHost struct {
	script       kittest.Script
	turns, tools int
}

// Generate implements engine.Host.
func (s *scriptHost) Generate(context.Context, []engine.Message, engine.GenerateOptions) ([]engine.Reply, error) {
	if s.turns == len(s.script.Replies) {
		return nil, engine.ErrBudget
	}
	text := s.script.Replies[s.turns]
	s.turns++
	return []engine.Reply{{Handle: s.turns, Text: text, Stop: engine.StopEnd, Tokens: len(text)/4 + 1}}, nil
}

// Tool implements engine.Host.
func (s *scriptHost) Tool(context.Context, string, string) (string, error) {
	if s.tools == len(s.script.Tools) {
		return "", engine.ErrBudget
	}
	s.tools++
	return s.script.Tools[s.tools-1].Result, nil
}

// Note implements engine.Host.
func (s *scriptHost) Note(context.Context, engine.Note) error { return nil }

// timedHost measures what the host itself takes.
type timedHost struct {
	engine.Host
	model, calls time.Duration
}

// Generate implements engine.Host.
func (t *timedHost) Generate(ctx context.Context, m []engine.Message, o engine.GenerateOptions) ([]engine.Reply, error) {
	began := time.Now()
	defer func() { t.model += time.Since(began) }()
	return t.Host.Generate(ctx, m, o)
}

// Tool implements engine.Host.
func (t *timedHost) Tool(ctx context.Context, name, args string) (string, error) {
	began := time.Now()
	defer func() { t.calls += time.Since(began) }()
	return t.Host.Tool(ctx, name, args)
}

// measurement is one run of the benchmark.
type measurement struct {
	command *benchCommand
	hosts   *benchHosts
	box     *sandbox.Sandbox

	mu     sync.Mutex
	result benchResult
}

// all works through the candidates, some at a time, and turns sums into means.
func (b *measurement) all(ctx context.Context, candidates []engine.Harness) error {
	if err := b.start(ctx); err != nil {
		return err
	}
	work := make(chan engine.Harness)
	failed := make(chan error, b.command.Parallel)
	began := time.Now()
	var wait sync.WaitGroup
	for range b.command.Parallel {
		wait.Go(func() {
			for h := range work {
				if err := b.candidate(ctx, h); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	var err error
	for n := 0; n < len(candidates) && err == nil; n++ {
		select {
		case work <- candidates[n]:
		case err = <-failed:
		}
	}
	close(work)
	wait.Wait()
	select {
	case also := <-failed:
		err = errors.Join(err, also)
	default:
	}
	r := &b.result
	r.Candidates, r.Seconds = len(candidates), time.Since(began).Seconds()
	r.CandidatesPerSecond, r.RolloutsPerSecond = float64(r.Candidates)/r.Seconds, float64(r.Rollouts)/r.Seconds
	if loaded := float64(r.Candidates - r.Refused); loaded > 0 {
		r.PerCandidate.Vet /= loaded
		r.PerCandidate.Compile /= loaded
		r.PerCandidate.Load /= loaded
	}
	if n := float64(r.Rollouts); n > 0 {
		for _, v := range []*float64{&r.PerRollout.Fork, &r.PerRollout.Guest, &r.PerRollout.Calls, &r.PerRollout.Model, &r.PerRollout.Hop} {
			*v /= n
		}
	}
	return err
}

// start loads the seed in every worker: what it takes to start them is no candidate's cost.
func (b *measurement) start(ctx context.Context) error {
	workers := b.command.Workers
	if workers == 0 {
		workers = runtime.NumCPU()
	}
	failed := make([]error, workers)
	var wait sync.WaitGroup
	for n := range workers {
		wait.Go(func() {
			p, err := b.box.Load(ctx, engine.NewHarness(fmt.Sprintf("%s\n// worker %d\n", b.hosts.domain.Seed, n), engine.Meta{Proposer: "bench"}))
			if err == nil {
				err = p.Close()
			}
			failed[n] = err
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

// candidate loads one and runs it. A candidate that is refused or fails is counted.
func (b *measurement) candidate(ctx context.Context, h engine.Harness) error {
	p, err := b.box.Load(ctx, h)
	var refusal *engine.LoadError
	b.mu.Lock()
	if errors.As(err, &refusal) {
		b.result.Refused++
		err, p = nil, nil
	}
	if err == nil && p != nil {
		cost := sandbox.CostOf(p)
		b.result.PerCandidate.Vet += cost.Vet.Seconds() * 1e3
		b.result.PerCandidate.Compile += cost.Compile.Seconds() * 1e3
		b.result.PerCandidate.Load += cost.Image.Seconds() * 1e3
		if cost.Compile > 0 {
			b.result.Compiled++
		}
	}
	b.mu.Unlock()
	if err != nil || p == nil {
		return err
	}
	for n := 0; n < b.command.Rollouts && err == nil; n++ {
		err = b.rollout(ctx, p, n)
	}
	return errors.Join(err, p.Close())
}

// rollout runs a candidate once. Only a fault of the host is an error.
func (b *measurement) rollout(ctx context.Context, p engine.Program, n int) error {
	start, host, err := b.hosts.start(n)
	if err != nil {
		return err
	}
	timed := &timedHost{Host: host}
	began := time.Now()
	use, err := p.Run(ctx, start, timed)
	wall := time.Since(began)
	outcome := engine.Classify(err)
	if outcome == engine.Infra {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.result.Rollouts++
	if outcome != engine.Scored {
		b.result.Failed++
	}
	s := &b.result.PerRollout
	fork, guest, model, calls := use.Fork*1e3, use.Seconds*1e3, timed.model.Seconds()*1e3, timed.calls.Seconds()*1e3
	s.Fork += fork
	s.Guest += guest
	s.Model += model
	s.Calls += calls
	s.Hop += wall.Seconds()*1e3 - fork - guest - model - calls
	return nil
}

func (r *benchResult) print(asJSON bool) error {
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	fmt.Printf("%d candidates (%d refused, %d compiled), %d rollouts (%d failed) in %.2f s on %d cores\n",
		r.Candidates, r.Refused, r.Compiled, r.Rollouts, r.Failed, r.Seconds, runtime.NumCPU())
	fmt.Printf("%.1f candidates/s, %.0f rollouts/s\n", r.CandidatesPerSecond, r.RolloutsPerSecond)
	fmt.Printf("candidate  vet %.2f ms, compile %.2f ms, load %.2f ms\n", r.PerCandidate.Vet, r.PerCandidate.Compile, r.PerCandidate.Load)
	fmt.Printf("rollout    fork %.3f ms, guest %.3f ms, host calls %.3f ms, model %.3f ms, hop %.3f ms\n",
		r.PerRollout.Fork, r.PerRollout.Guest, r.PerRollout.Calls, r.PerRollout.Model, r.PerRollout.Hop)
	return nil
}
