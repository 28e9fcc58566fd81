package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/engine/ledger"
)

// Fakes: a disk whose writes and renames can be counted and made to fail, over the small
// world of enginetest.

// errKilled is the panic of a process that dies.
var errKilled = errors.New("kill -9")

// unsynced is the real disk without waiting for it.
func unsynced() disk {
	d := realDisk()
	d.sync = func(*os.File) error { return nil }
	return d
}

// faulty calls fault before each write, rename and removal, with the number of calls before it. A
// write that fails leaves half of its bytes, as a torn write does.
func faulty(fault func(n int) error) disk {
	d, n := unsynced(), 0
	step := func() error { n++; return fault(n - 1) }
	write, rename, remove := d.write, d.rename, d.remove
	d.write = func(f *os.File, b []byte) error {
		if err := step(); err != nil {
			if half := write(f, b[:len(b)/2]); half != nil {
				return half
			}
			if err == errKilled {
				panic(errKilled)
			}
			return err
		}
		return write(f, b)
	}
	change := func(do func() error) error {
		if err := step(); err == errKilled {
			panic(errKilled)
		} else if err != nil {
			return err
		}
		return do()
	}
	d.rename = func(from, to string) error { return change(func() error { return rename(from, to) }) }
	d.remove = func(path string) error { return change(func() error { return remove(path) }) }
	return d
}

func smallConfig() engine.Config {
	c := enginetest.Config()
	c.Steps, c.Iterations, c.SelectTasks, c.TestTasks = 2, 2, 6, 4
	c.TestSamples, c.CurveSamples = 2, 1
	return c
}

// session runs in a folder until the end, an error, or a kill.
func session(ctx context.Context, dir string, d disk, c engine.Config, parts func(engine.Store) engine.Parts) (s *engine.Summary, err error) {
	a, err := open(dir, d)
	if err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil {
			if p != errKilled {
				panic(p)
			}
			err = errKilled
		}
		err = errors.Join(err, a.Close())
	}()
	return engine.Run(ctx, c, parts(a))
}

// contents is a run folder by path, without times.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if files[name], err = timeless(name, text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func timeless(name string, text []byte) (string, error) {
	counts := func(c engine.Cost) engine.Cost {
		return engine.Cost{Prompt: c.Prompt, Cached: c.Cached, Sampled: c.Sampled, Trained: c.Trained, Forward: c.Forward}
	}
	var values []any
	switch {
	case strings.HasSuffix(name, trajectorySuffix):
		ts, err := ReadTrajectories(bytes.NewReader(text))
		if err != nil {
			return "", err
		}
		for _, t := range ts {
			t.Cost = counts(t.Cost)
			for _, c := range t.Calls() {
				c.Seconds, c.Wall = 0, 0
			}
			values = append(values, t)
		}
	case name == "ledger.jsonl":
		lines, _, err := ledger.Parse(text)
		if err != nil {
			return "", err
		}
		for _, l := range lines {
			l.Spending = engine.Spending{Cost: counts(l.Spending.Cost)}
			values = append(values, l)
		}
	case name == "summary.json":
		var s engine.Summary
		if err := json.Unmarshal(text, &s); err != nil {
			return "", err
		}
		s.Seconds = engine.SummarySeconds{}
		values = append(values, s)
	default:
		return string(text), nil
	}
	out, err := json.Marshal(values)
	return string(out), err
}

func compare(t *testing.T, got, want map[string]string) {
	t.Helper()
	names := slices.Sorted(maps.Keys(want))
	for name := range got {
		if _, ok := want[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if got[name] != want[name] {
			t.Errorf("%s differs:\n got %.300q\nwant %.300q", name, got[name], want[name])
		}
	}
}

// The story of the package: a process dies at some write, rename or removal, the next one goes on,
// and in the end the folder is the one of a run that nobody disturbed. Every single
// one of a run is a place to die, and writes die half done.
func TestResume_killedAnywhere(t *testing.T) {
	for _, c := range []struct {
		name   string
		every  int // weights are saved
		stride int // kill at every so many points
	}{{"save every step", 1, 1}, {"save every 5 steps", 5, 7}} {
		t.Run(c.name, func(t *testing.T) {
			config := smallConfig()
			config.SaveEvery = c.every
			plain := t.TempDir()
			points := 0
			count := faulty(func(int) error { points++; return nil })
			snapshots := map[int]map[string]string{}
			watched := func(s engine.Store) engine.Parts {
				p := enginetest.Parts(s)
				p.Observer = observer(func() { snapshots[len(s.Records())] = withoutWeights(contents(t, plain)) })
				return p
			}
			if _, err := session(t.Context(), plain, count, config, watched); err != nil {
				t.Fatal(err)
			}
			want := contents(t, plain)
			if len(want) < 30 || points < 80 {
				t.Fatalf("only %d files and %d points", len(want), points)
			}
			for at := 0; at < points; at += c.stride {
				dir := filepath.Join(t.TempDir(), "run")
				die := faulty(func(n int) error {
					if n == at {
						return errKilled
					}
					return nil
				})
				if _, err := session(t.Context(), dir, die, config, enginetest.Parts); !errors.Is(err, errKilled) {
					t.Fatalf("point %d: survived with %v", at, err)
				}
				if c.every == 1 {
					compare(t, rewound(t, dir), snapshots[len(recordsOf(t, dir))])
				}
				if _, err := session(t.Context(), dir, unsynced(), config, enginetest.Parts); err != nil {
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

// observer is called at each commit.
type observer func()

func (o observer) Observe(p engine.Progress) {
	if p.Finished != nil {
		o()
	}
}

func recordsOf(t *testing.T, dir string) []engine.Record {
	t.Helper()
	r, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r.records
}

// rewound is the folder as the next process finds it before it does anything; nil when
// nothing was committed. Weights are left out: they are pruned after a commit.
func rewound(t *testing.T, dir string) map[string]string {
	t.Helper()
	a, err := open(dir, unsynced())
	if err != nil {
		t.Fatal(err)
	}
	n := len(a.Records())
	if err := errors.Join(a.Rewind(n), a.Close()); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		return nil
	}
	return withoutWeights(contents(t, dir))
}

func withoutWeights(files map[string]string) map[string]string {
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, "weights/") || name == "summary.json" })
	return files
}

// A commit that fails leaves the archive as it was, and the next one succeeds.
func TestCommit_again(t *testing.T) {
	for at := range 2 { // the ledger's line, the journal's line
		dir := filepath.Join(t.TempDir(), "run")
		n := 0
		a, err := open(dir, faulty(func(int) error {
			if n++; n == 3+at { // after run.yaml's write and rename
				return syscall.ENOSPC
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Begin(engine.Manifest{}); err != nil {
			t.Fatal(err)
		}
		rec := engine.Record{Kind: engine.StartRecord, Weights: "w", Saved: "w", Harness: "h"}
		if err := a.Commit(rec); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("got %v", err)
		}
		if err := a.Commit(rec); err != nil {
			t.Fatal(err)
		}
		if err := a.Commit(rec); err == nil {
			t.Error("record 0 is committed twice")
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		for name, lines := range map[string]int{"journal.jsonl": 1, "ledger.jsonl": 1} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || bytes.Count(text, []byte("\n")) != lines || text[0] != '{' || strings.Count(string(text), `"seq"`) != 1 {
				t.Errorf("fault %d: %s is %q, %v", at, name, text, err)
			}
		}
	}
}

// A cancelled context (Ctrl-C) leaves a folder to go on from, wherever it strikes, and
// dying again and again is no different from dying once.
func TestResume_cancelledAgainAndAgain(t *testing.T) {
	config := smallConfig()
	plain, dir := t.TempDir(), filepath.Join(t.TempDir(), "run")
	if _, err := session(t.Context(), plain, unsynced(), config, enginetest.Parts); err != nil {
		t.Fatal(err)
	}
	stops := 0
	for calls := int64(5); ; calls += 15 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := session(ctx, dir, unsynced(), config, func(s engine.Store) engine.Parts {
			p := enginetest.Parts(s)
			var n atomic.Int64
			p.Policy.(*enginetest.Brain).Fault = func(engine.Request, int) error {
				if n.Add(1) == calls {
					cancel()
				}
				return nil
			}
			return p
		})
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		stops++
	}
	if stops < 4 {
		t.Errorf("stopped %d times only", stops)
	}
	compare(t, contents(t, dir), contents(t, plain))
}

// A full disk is one clear line, nothing already written is lost, and with space again
// the run goes on to the same end.
func TestFullDisk(t *testing.T) {
	config := smallConfig()
	plain := t.TempDir()
	points := 0
	if _, err := session(t.Context(), plain, faulty(func(int) error { points++; return nil }), config, enginetest.Parts); err != nil {
		t.Fatal(err)
	}
	want := contents(t, plain)
	for at := 0; at < points; at += 7 {
		dir := filepath.Join(t.TempDir(), "run")
		full := faulty(func(n int) error {
			if n >= at {
				return &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
			}
			return nil
		})
		_, err := session(t.Context(), dir, full, config, enginetest.Parts)
		var f *engine.Failure
		if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &f) || f.Boundary != engine.AtArchive || strings.Contains(err.Error(), "\n") {
			t.Fatalf("point %d: %v", at, err)
		}
		var committed int
		if r, err := Read(dir); err == nil {
			committed = len(r.Records())
		} else if !errors.Is(err, ErrNoRun) {
			t.Fatalf("point %d: the folder does not read: %v", at, err)
		}
		a, err := open(dir, unsynced())
		if err != nil {
			t.Fatalf("point %d: %v", at, err)
		}
		if len(a.Records()) != committed {
			t.Fatalf("point %d: %d records, then %d", at, committed, len(a.Records()))
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := session(t.Context(), dir, unsynced(), config, enginetest.Parts); err != nil {
			t.Fatalf("point %d: %v", at, err)
		}
		compare(t, contents(t, dir), want)
	}
}

// A finished run that is run again does nothing and says the same.
func TestResume_finished(t *testing.T) {
	dir := t.TempDir()
	first, err := session(t.Context(), dir, unsynced(), smallConfig(), enginetest.Parts)
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	second, err := session(t.Context(), dir, unsynced(), smallConfig(), func(s engine.Store) engine.Parts {
		p := enginetest.Parts(s)
		p.Policy.(*enginetest.Brain).Fault = func(engine.Request, int) error { calls.Add(1); return nil }
		return p
	})
	if err != nil {
		t.Fatal(err)
	}
	if *first != *second || calls.Load() != 0 {
		t.Errorf("%d calls, %+v, then %+v", calls.Load(), first, second)
	}
}

// Going on with anything else than what the run began with is refused in one line.
func TestResume_otherRun(t *testing.T) {
	dir := t.TempDir()
	if _, err := session(t.Context(), dir, unsynced(), smallConfig(), enginetest.Parts); err != nil {
		t.Fatal(err)
	}
	same := smallConfig()
	same.InFlight, same.SaveEvery, same.Retries = 2, 3, 0 // of the machine only
	if _, err := session(t.Context(), dir, unsynced(), same, enginetest.Parts); err != nil {
		t.Errorf("other machine settings: %v", err)
	}
	for name, c := range map[string]struct {
		config func(*engine.Config)
		parts  func(*engine.Parts)
		say    string
	}{
		"seed":    {config: func(c *engine.Config) { c.Seed = 2 }, say: "seed was 1, now 2"},
		"rate":    {config: func(c *engine.Config) { c.Optimizer.Rate = 1 }, say: "optimizer"},
		"model":   {parts: func(p *engine.Parts) { p.Policy.(*enginetest.Brain).Skill = .7 }, say: "start weights"},
		"harness": {parts: func(p *engine.Parts) { p.Domain.Seed = "hint=1 turns=1" }, say: "seed harness"},
		"tasks":   {parts: func(p *engine.Parts) { p.Domain.Test = p.Domain.Test[1:] }, say: "test tasks"},
	} {
		t.Run(name, func(t *testing.T) {
			config := smallConfig()
			if c.config != nil {
				c.config(&config)
			}
			before := contents(t, dir)
			_, err := session(t.Context(), dir, unsynced(), config, func(s engine.Store) engine.Parts {
				p := enginetest.Parts(s)
				if c.parts != nil {
					c.parts(&p)
				}
				return p
			})
			if !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v", err)
			}
			compare(t, contents(t, dir), before)
		})
	}
}
