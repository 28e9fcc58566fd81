package archive

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
)

// stumbler fails at every second iteration, as a function of the brief, so that a resumed
// run meets the same failures.
type stumbler struct{ enginetest.Proposer }

func (s *stumbler) Propose(ctx context.Context, b engine.Brief) ([]engine.Harness, error) {
	if b.Iteration%2 == 0 {
		return nil, errors.New("out of tokens")
	}
	return s.Proposer.Propose(ctx, b)
}

// The conditions whose next unit depends on what came out, a proposer that fails now and
// then, and a finished run that goes on: killed anywhere and resumed, all of them end as
// if nobody had disturbed them.
func TestResume_everyCondition(t *testing.T) {
	for name, c := range map[string]struct {
		condition string
		more      int // cycles that come later
		change    func(*engine.Config)
	}{
		"adaptive":      {"adaptive", 0, func(c *engine.Config) { c.Rollouts = 330 }},
		"weights first": {"stagewise-weights-first", 1, nil},
		"harness first": {"stagewise-harness-first", 0, nil},
		"whale goes on": {"whale", 1, nil},
		"racing":        {"harness-only", 0, func(c *engine.Config) { c.Racing, c.SelectTasks, c.Rollouts = .3, 20, 170 }},
		"stops early":   {"weight-only", 0, func(c *engine.Config) { c.StopAt, c.Rollouts = .4, 400 }},
	} {
		t.Run(name, func(t *testing.T) {
			config := smallConfig()
			config.Condition, config.Iterations, config.SelectTasks, config.CurveSamples = c.condition, 3, 4, 0
			config.Adaptive = engine.Adaptive{WindowSteps: 1, Least: 2, Patience: 1, Most: 4}
			if c.change != nil {
				c.change(&config)
			}
			more := config
			more.Cycles += c.more
			parts := func(s engine.Store) engine.Parts {
				p := enginetest.Parts(s)
				p.Proposer = &stumbler{}
				return p
			}
			// A life runs to the end of the budget, then with the larger one.
			life := func(dir string, d disk) error {
				if r, err := Read(dir); err != nil || r.Manifest().Config.Cycles == config.Cycles {
					if _, err := session(t.Context(), dir, d, config, parts); err != nil {
						return err
					}
				}
				if c.more == 0 {
					return nil
				}
				_, err := session(t.Context(), dir, d, more, parts)
				return err
			}
			plain, points := t.TempDir(), 0
			if err := life(plain, faulty(func(int) error { points++; return nil })); err != nil {
				t.Fatal(err)
			}
			want := contents(t, plain)
			for at := 1; at < points; at += points/8 + 1 {
				dir := filepath.Join(t.TempDir(), "run")
				die := faulty(func(n int) error {
					if n == at {
						return errKilled
					}
					return nil
				})
				if err := life(dir, die); !errors.Is(err, errKilled) {
					t.Fatalf("point %d: survived with %v", at, err)
				}
				if err := life(dir, unsynced()); err != nil {
					t.Fatalf("point %d: %v", at, err)
				}
				compare(t, contents(t, dir), want)
				if t.Failed() {
					t.Fatalf("after a kill at point %d of %d", at, points)
				}
			}
		})
	}
}

// A budget only grows; run.yaml has the one that counts.
func TestBegin_budget(t *testing.T) {
	dir := finished(t)
	more := smallConfig()
	more.Cycles++
	if _, err := session(t.Context(), dir, unsynced(), more, enginetest.Parts); err != nil {
		t.Fatal(err)
	}
	r, err := Read(dir)
	if err != nil || r.Manifest().Config.Cycles != more.Cycles {
		t.Fatalf("%+v, %v", r.Manifest().Config, err)
	}
	if last := r.Records()[len(r.Records())-1]; last.Kind != engine.MeasureRecord || engine.Fold(r.Records()).Points[5].Cycle != 3 {
		t.Errorf("%+v", last)
	}
	if _, err := session(t.Context(), dir, unsynced(), smallConfig(), enginetest.Parts); !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), "cycles was 3, now 2") {
		t.Errorf("got %v", err)
	}
}

// A run folder of a version that did not know a setting goes on with its default.
func TestBegin_olderSettings(t *testing.T) {
	dir := t.TempDir()
	config := enginetest.Config()
	config.Adaptive, config.Repairs = engine.Defaults().Adaptive, engine.Defaults().Repairs
	config.Cycles = 1
	run := func(c engine.Config) error {
		a, err := Open(dir)
		if err != nil {
			return err
		}
		_, err = engine.Run(t.Context(), c, enginetest.Parts(a))
		return errors.Join(err, a.Close())
	}
	if err := run(config); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "run.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	dropped, inside := 0, false
	for _, line := range strings.Split(string(text), "\n") {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		switch name := strings.TrimSpace(line); {
		case strings.HasPrefix(name, "adaptive:"), strings.HasPrefix(name, "proposing:"), strings.HasPrefix(name, "repairs:"):
			inside, dropped = true, dropped+1
			continue
		case inside && indent > 2:
			continue
		}
		inside = false
		kept = append(kept, line)
	}
	if dropped != 3 {
		t.Fatalf("dropped %d settings of\n%s", dropped, text)
	}
	if err := os.WriteFile(path, []byte(strings.Join(kept, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	config.Cycles = 2
	if err := run(config); err != nil {
		t.Error(err)
	}
	config.Repairs++
	if err := run(config); !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), "repairs was 2, now 3") {
		t.Error(err)
	}
}
