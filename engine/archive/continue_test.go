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

// What a folder's settings can look like that an older version or a hand wrote: each goes on
// with the same ids, or is refused in a line that names the setting.
func TestBegin_settingsByHand(t *testing.T) {
	config := smallConfig()
	config.Proposer, config.Proposing.Command = "command", "my-agent --headless"
	dir := t.TempDir()
	first, err := session(t.Context(), dir, unsynced(), config, enginetest.Parts)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "run.yaml")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		old, new string
		say      string // "" = goes on
	}{
		"as it was":               {"format: 1", "format: 1", ""},
		"a comment":               {"config:", "# mine\nconfig:", ""},
		"the older form":          {"  proposer: command\n", "  proposer: 'command:my-agent --headless'\n", ""},
		"the older form, another": {"  proposer: command\n", "  proposer: 'command:other'\n", ""}, // how it is reached may change
		"another proposer":        {"  proposer: command\n", "  proposer: codex\n", `proposer was "codex", now "command"`},
		"no proposer":             {"  proposer: command\n", "", `proposer was "builtin", now "command"`},
		"named defaults":          {"  seed: 1\n", "  seed: 1\n  update: rsft\n  search: meta-harness\n", ""},
		"another update":          {"  seed: 1\n", "  seed: 1\n  update: advantage\n", `update was "advantage", now "rsft"`},
		"a missing default":       {"  batch: 8\n", "", "batch was 64, now 8; run.yaml has no line `batch:`, which stands for its default"},
		"missing, and is default": {"  coverage: 0.9\n", "", ""},
		"a missing budget":        {"  cycles: 2\n", "", "cycles was 4, now 2; a budget can only grow; run.yaml has no line `cycles:`"},
		"no weights":              {"weights: ", "# ", "run.yaml does not say which start weights it began with"},
		"null":                    {"  batch: 8\n", "  batch: null\n", "batch was "},
	} {
		if !strings.Contains(string(whole), c.old) {
			t.Fatalf("%s: no %q in\n%s", name, c.old, whole)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(whole), c.old, c.new, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := session(t.Context(), dir, unsynced(), config, enginetest.Parts)
		switch {
		case c.say == "" && (err != nil || *s != *first):
			t.Errorf("%s: %v, %+v", name, err, s)
		case c.say != "" && (!errors.Is(err, ErrOther) || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: got %v, want %s", name, err, c.say)
		}
	}
}

// A file of settings holds them by themselves, or is the run.yaml of a run.
func TestSettings(t *testing.T) {
	dir := finished(t)
	run, err := os.ReadFile(filepath.Join(dir, "run.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	over := engine.Defaults()
	over.Seed = 9
	for name, c := range map[string]struct {
		text  string
		seed  uint64
		steps int
		say   string
	}{
		"some":     {"steps: 3\n", 9, 3, ""},
		"none":     {"", 9, engine.Defaults().Steps, ""},
		"comments": {"# none\n\n", 9, engine.Defaults().Steps, ""},
		"a run's":  {string(run), 1, smallConfig().Steps, ""},
		"unknown":  {"steps: 3\nstepps: 4\n", 0, 0, "line 2, `stepps: 4`: unknown field \"stepps\""},
		"too many": {"steps: 3\nseed: -1\n", 0, 0, "line 2, `seed: -1`: "},
		"open":     {"steps: [3\n", 0, 0, "line 1, `steps: [3`: "},
		"a list":   {"- 3\n", 0, 0, "line 1, `- 3`: "},
		"newer":    {"format: 7\n", 0, 0, "7, this program has 1"},
	} {
		got, err := Settings([]byte(c.text), over)
		switch {
		case c.say == "" && (err != nil || got.Seed != c.seed || got.Steps != c.steps):
			t.Errorf("%s: %v, %+v", name, err, got)
		case c.say != "" && (err == nil || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: got %v, want %s", name, err, c.say)
		}
	}
}

// FuzzSettings: whatever stands in a file of settings, its error is one line.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{"steps: 3", "format: 1\nconfig: {seed: 1}\n", "a: &a [*a]", "\t{[", "? x", "seed: !!float 1", "steps: 1\nsteps: 2"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := Settings(text, engine.Defaults()); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
		absent(text)
	})
}
