package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/engine/schedule"
)

// Fakes: the small world of enginetest, harnesses as Go functions, and worlds that fail.

func newPool(brain *enginetest.Brain, inFlight int) *engine.Pool {
	return &engine.Pool{Domain: enginetest.Domain(20), Policy: brain, Retries: 2,
		Sampling:  engine.Sampling{Temperature: 1, TopP: 1},
		Admission: schedule.New(schedule.Limits{Rollouts: inFlight})}
}

func jobs(p engine.Program, d *engine.Domain, samples int) []engine.Job {
	var jobs []engine.Job
	for _, t := range d.Train {
		for i := range samples {
			jobs = append(jobs, engine.Job{Program: p, Harness: "h", Task: t, Sample: i,
				Seed: engine.RolloutSeed(1, "test", t.ID, i), Phase: "test"})
		}
	}
	return jobs
}

func program(t *testing.T, source string) engine.Program {
	t.Helper()
	p, err := enginetest.Sandbox{}.Load(t.Context(), engine.NewHarness(source, engine.Meta{}))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// timeless is a trajectory as JSON without its times.
func timeless(t *testing.T, ts []*engine.Trajectory) string {
	t.Helper()
	var out bytes.Buffer
	for _, tr := range ts {
		one := *tr
		one.Cost = engine.Cost{Prompt: tr.Cost.Prompt, Cached: tr.Cost.Cached, Sampled: tr.Cost.Sampled}
		one.Events = nil
		for _, e := range tr.Events {
			if e.Call != nil {
				c := *e.Call
				c.Seconds, c.Wall = 0, 0
				e.Call = &c
			}
			one.Events = append(one.Events, e)
		}
		if err := json.NewEncoder(&out).Encode(one); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestRollouts_sameAtAnyConcurrency(t *testing.T) {
	var want string
	for _, inFlight := range []int{1, 3, 64} {
		pool := newPool(enginetest.NewBrain(), inFlight)
		list := jobs(program(t, "hint=2 turns=3"), pool.Domain, 4)
		ts, err := pool.Rollouts(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		for i, tr := range ts {
			if tr.Task != list[i].Task.ID || tr.Sample != list[i].Sample {
				t.Fatalf("trajectory %d is %s/%d, job was %s/%d", i, tr.Task, tr.Sample, list[i].Task.ID, list[i].Sample)
			}
		}
		got := timeless(t, ts)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("with %d in flight the rollouts differ", inFlight)
		}
	}
	if !strings.Contains(want, `"kind":"equal"`) || !strings.Contains(want, `"kind":"unparsed"`) {
		t.Error("the world is too dull for this test")
	}
}

// How each way to end is recorded.
func TestRollouts_outcomes(t *testing.T) {
	ask := func(ctx context.Context, s engine.Start, h engine.Host) error {
		_, err := h.Generate(ctx, []engine.Message{{Role: "user", Content: s.Input + " hint 9"}}, engine.GenerateOptions{})
		return err
	}
	then := func(err error) engine.Program {
		return enginetest.Func(func(ctx context.Context, s engine.Start, h engine.Host) error {
			return errors.Join(ask(ctx, s, h), err)
		})
	}
	// A harness in a sandbox can't hand back the engine's own errors, only their text.
	overrun := func(panics bool) engine.Program {
		return enginetest.Func(func(ctx context.Context, s engine.Start, h engine.Host) error {
			for {
				if err := ask(ctx, s, h); err != nil {
					return &engine.HarnessError{Panic: panics, Text: err.Error()}
				}
			}
		})
	}
	// A tool that is not there is the harness's mistake, a tool that breaks is not, and
	// the harness can't hide it.
	tool := func(name string, hide bool) engine.Program {
		return enginetest.Func(func(ctx context.Context, s engine.Start, h engine.Host) error {
			if err := ask(ctx, s, h); err != nil {
				return err
			}
			if _, err := h.Tool(ctx, name, "{}"); err != nil && !hide {
				return &engine.HarnessError{Text: err.Error()}
			}
			return nil
		})
	}
	for name, c := range map[string]struct {
		program engine.Program
		want    engine.Outcome
		cause   engine.Boundary
		kind    engine.VerdictKind
	}{
		"done":              {then(nil), engine.Scored, "", engine.Equal},
		"nothing written":   {enginetest.Func(func(context.Context, engine.Start, engine.Host) error { return nil }), engine.Scored, "", engine.Unparsed},
		"budget":            {overrun(false), engine.Scored, engine.AtHarness, engine.Equal},
		"panic over budget": {overrun(true), engine.Invalid, engine.AtHarness, engine.Unparsed},
		"harness error":     {then(&engine.HarnessError{Text: "no idea"}), engine.Invalid, engine.AtHarness, engine.Unparsed},
		"memory":            {then(&engine.LimitError{Kind: engine.LimitMemory}), engine.Invalid, engine.AtSandbox, engine.Unparsed},
		"time":              {then(&engine.LimitError{Kind: engine.LimitTime}), engine.Invalid, engine.AtSandbox, engine.Unparsed},
		"worker died":       {then(errors.New("exit status 2")), engine.Infra, engine.AtSandbox, engine.Unparsed},
		"no such tool":      {tool("fly", false), engine.Invalid, engine.AtHarness, engine.Unparsed},
		"lives without it":  {tool("fly", true), engine.Scored, "", engine.Equal},
		"broken tool":       {tool("break", false), engine.Infra, engine.AtTask, engine.Unparsed},
		"hides the fault":   {tool("break", true), engine.Infra, engine.AtTask, engine.Unparsed},
		"host panic":        {enginetest.Func(func(context.Context, engine.Start, engine.Host) error { panic("bug") }), engine.Infra, engine.AtSandbox, engine.Unparsed},
	} {
		t.Run(name, func(t *testing.T) {
			brain := enginetest.NewBrain()
			brain.Skill = 1 // always right, where that is possible
			pool := newPool(brain, 4)
			d := pool.Domain
			list := append(jobs(c.program, d, 1)[1:2], jobs(then(nil), d, 1)[2]) // so that not all is lost
			ts, err := pool.Rollouts(t.Context(), list)
			if err != nil {
				t.Fatal(err)
			}
			got := ts[0]
			if got.Outcome != c.want || got.Cause != string(c.cause) || got.Verdict.Kind != c.kind {
				t.Errorf("outcome %s, cause %q, verdict %s (%s)", got.Outcome, got.Cause, got.Verdict.Kind, got.Failure)
			}
			if got.Outcome != engine.Scored && got.Verdict.Reward != 0 {
				t.Errorf("reward %v", got.Verdict.Reward)
			}
			if (got.Failure == "") != (c.cause == "") || strings.Contains(got.Failure, "\n\n") {
				t.Errorf("failure %q", got.Failure)
			}
		})
	}
}

// badWorld fails where it is told to.
type badWorld struct {
	enginetest.World
	start, verify error
	panics        bool
	reward        float64
}

func (w badWorld) Start(t engine.Task) (engine.Environment, error) {
	if w.start != nil && t.ID == "task1" {
		return nil, w.start
	}
	return w.World.Start(t)
}

func (w badWorld) Verify(t engine.Task, tr *engine.Trajectory) (engine.Verdict, error) {
	if t.ID != "task1" {
		return w.World.Verify(t, tr)
	}
	if w.panics {
		panic("index out of range")
	}
	return engine.Verdict{Kind: engine.Equal, Reward: w.reward}, w.verify
}

func TestRollouts_worldFaults(t *testing.T) {
	for name, c := range map[string]struct {
		world engine.World
		at    engine.Boundary
	}{
		"start":          {badWorld{start: errors.New("no such file")}, engine.AtTask},
		"start as tool":  {badWorld{start: fmt.Errorf("%w: x", engine.ErrTool)}, engine.AtTask},
		"verify":         {badWorld{verify: errors.New("judge is down")}, engine.AtVerifier},
		"verify panics":  {badWorld{panics: true}, engine.AtVerifier},
		"reward too big": {badWorld{reward: 1.5}, engine.AtVerifier},
	} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(enginetest.NewBrain(), 4)
			pool.Domain.World = c.world
			ts, err := pool.Rollouts(t.Context(), jobs(program(t, "hint=1 turns=1"), pool.Domain, 1))
			if err != nil {
				t.Fatal(err)
			}
			if attempts := ts[1].Cost.Sampled / max(1, ts[1].Sampled()); c.at == engine.AtVerifier && attempts != 3 {
				t.Errorf("%d attempts were paid for, want 3", attempts)
			}
			if ts[1].Outcome != engine.Infra || ts[1].Cause != string(c.at) || ts[1].Verdict.Reward != 0 {
				t.Errorf("outcome %s, cause %q, reward %v", ts[1].Outcome, ts[1].Cause, ts[1].Verdict.Reward)
			}
			for i, tr := range ts {
				if i != 1 && tr.Outcome != engine.Scored {
					t.Errorf("the fault reached task %d: %s", i, tr.Failure)
				}
			}
		})
	}
}

// A fault that passes leaves the rollout as it would have been, but is paid for; one
// that stays is recorded after the retries.
func TestRollouts_retries(t *testing.T) {
	clean := newPool(enginetest.NewBrain(), 4)
	list := jobs(program(t, "hint=1 turns=1"), clean.Domain, 2)
	want, err := clean.Rollouts(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	for _, failures := range []int{1, 2, 3} {
		brain := enginetest.NewBrain()
		var attempts atomic.Int64
		brain.Fault = func(r engine.Request, attempt int) error {
			attempts.Add(1)
			if r.Seed%3 == 0 && attempt < failures {
				return errors.New("bus error")
			}
			return nil
		}
		got, err := newPool(brain, 4).Rollouts(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		lost := 0
		for i, tr := range got {
			if tr.Outcome == engine.Infra {
				lost++
				continue
			}
			a, b := *tr, *want[i]
			a.Cost, b.Cost = engine.Cost{}, engine.Cost{}
			if x, y := timeless(t, []*engine.Trajectory{&a}), timeless(t, []*engine.Trajectory{&b}); x != y {
				t.Errorf("%d failures: rollout %d differs after a retry", failures, i)
			}
			if tr.Cost.Sampled < want[i].Cost.Sampled {
				t.Errorf("rollout %d is cheaper than without a fault", i)
			}
		}
		if (lost > 0) != (failures > 2) {
			t.Errorf("%d failures in a row: %d rollouts lost with 2 retries", failures, lost)
		}
	}
}

func TestRollouts_cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	brain := enginetest.NewBrain()
	var n atomic.Int64
	brain.Fault = func(engine.Request, int) error {
		if n.Add(1) == 7 {
			cancel()
		}
		return nil
	}
	pool := newPool(brain, 2)
	ts, err := pool.Rollouts(ctx, jobs(program(t, "hint=1 turns=2"), pool.Domain, 4))
	if !errors.Is(err, context.Canceled) || ts != nil {
		t.Errorf("got %d trajectories and %v", len(ts), err)
	}
}

// What the engine itself adds to a rollout: the model is a number.
func BenchmarkRollouts(b *testing.B) {
	pool := newPool(enginetest.NewBrain(), 64)
	p, err := enginetest.Sandbox{}.Load(b.Context(), engine.NewHarness("hint=2 turns=3", engine.Meta{}))
	if err != nil {
		b.Fatal(err)
	}
	list := jobs(p, pool.Domain, 8)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pool.Rollouts(b.Context(), list); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(list)), "µs/rollout")
}
