package archive

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/engine/ledger"
)

func finished(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := session(t.Context(), dir, unsynced(), smallConfig(), enginetest.Parts); err != nil {
		t.Fatal(err)
	}
	return dir
}

func replace(t *testing.T, path, old, new string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("%s has no %q", path, old)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(new), 1), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestOpen_inUse(t *testing.T) {
	dir := finished(t)
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("a second process got %v", err)
	}
	if _, err := Read(dir); err != nil {
		t.Errorf("a reader got %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// What can't be opened is refused in one line that names the folder, and left alone.
func TestOpen_refused(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   error
		say    string
	}{
		"newer version":   {func(t *testing.T, d string) { replace(t, d+"/run.yaml", "format: 1", "format: 2\nnew: {a: 1}") }, ErrFormat, "2, this program has 1"},
		"no version":      {func(t *testing.T, d string) { replace(t, d+"/run.yaml", "format: 1", "") }, ErrSettings, "no format: the line `format: 1` is missing"},
		"not yaml":        {func(t *testing.T, d string) { replace(t, d+"/run.yaml", "format: 1", "\t{[") }, ErrSettings, "run.yaml line 1, `{[`: "},
		"unknown key":     {func(t *testing.T, d string) { replace(t, d+"/run.yaml", "config:", "colour: red\nconfig:") }, ErrSettings, "run.yaml line 2, `colour: red`: unknown field \"colour\""},
		"unknown setting": {func(t *testing.T, d string) { replace(t, d+"/run.yaml", "  seed: 1", "  seed: 1\n  sead: 2") }, ErrSettings, "`sead: 2`: unknown field \"sead\""},
		"wrong kind":      {func(t *testing.T, d string) { replace(t, d+"/run.yaml", "seed: 1", "seed: one") }, ErrSettings, "`seed: one`: wants a whole number from 0 up"},
		"no mapping":      {func(t *testing.T, d string) { replace(t, d+"/run.yaml", "  optimizer:", "  optimizer: 3\n  adaptive:") }, ErrSettings, "run.yaml line "},
		"twice":           {func(t *testing.T, d string) { replace(t, d+"/run.yaml", "  seed: 1", "  seed: 1\n  seed: 1") }, ErrSettings, "`seed: 1`: mapping key \"seed\" already defined"},
		"empty":           {func(t *testing.T, d string) { os.Truncate(d+"/run.yaml", 0) }, ErrSettings, "no format"},
		"damaged record":  {func(t *testing.T, d string) { replace(t, d+"/journal.jsonl", `{"seq":1,`, `{"seq":1;`) }, nil, "journal line 2"},
		"missing record":  {func(t *testing.T, d string) { replace(t, d+"/journal.jsonl", `{"seq":1,`, `{"seq":3,`) }, nil, "journal line 2"},
		"half a record":   {func(t *testing.T, d string) { replace(t, d+"/journal.jsonl", `"step":{`, `"stop":{`) }, nil, "journal line 2"},
		"short ledger":    {func(t *testing.T, d string) { os.Truncate(d+"/ledger.jsonl", 0) }, nil, "ledger has 0 lines"},
		"damaged ledger":  {func(t *testing.T, d string) { replace(t, d+"/ledger.jsonl", `{"seq":1,`, `{"seq":7,`) }, nil, "ledger line 2"},
		"not a run": {func(t *testing.T, d string) {
			if err := errors.Join(os.RemoveAll(d), os.Mkdir(d, 0o755), os.WriteFile(d+"/thesis.txt", []byte("x"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}, ErrNoRun, "thesis.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := finished(t)
			c.damage(t, dir)
			before, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for who, open := range map[string]func() error{
				"Open": func() error { _, err := Open(dir); return err },
				"Read": func() error { _, err := Read(dir); return err },
			} {
				err := open()
				if err == nil || who == "Read" && name == "not a run" {
					if err == nil {
						t.Errorf("%s took it", who)
					}
					continue
				}
				if c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) ||
					!strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %q", who, err)
				}
			}
			after, err := os.ReadDir(dir)
			if err != nil || len(after) != len(before) {
				t.Errorf("%d files, then %d, %v", len(before), len(after), err)
			}
		})
	}
}

// A run whose journal was lost is not begun again over its rollouts.
func TestOpen_lostJournal(t *testing.T) {
	dir := finished(t)
	if err := os.Remove(filepath.Join(dir, "journal.jsonl")); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	if _, err := Open(dir); !errors.Is(err, ErrNoRun) || !strings.Contains(err.Error(), "journal.jsonl has no record") || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
	compare(t, contents(t, dir), before)
}

// A torn last line is not a record, and the next commit does not glue onto it.
func TestOpen_tornLine(t *testing.T) {
	dir := finished(t)
	whole := contents(t, dir)
	for _, name := range []string{"journal.jsonl", "ledger.jsonl"} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(`{"seq":99,"ki`); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a.Records(), r.Records()) {
		t.Error("reader and writer disagree")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	compare(t, contents(t, dir), whole)
}

// Weights that nothing points to are gone, what a point of the curve needs is there.
func TestWeights_pruned(t *testing.T) {
	dir := finished(t)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	state := engine.Fold(r.Records())
	want := map[string]bool{state.Saved: true}
	for _, p := range state.Points {
		want[p.Saved] = true
	}
	there, err := os.ReadDir(filepath.Join(dir, "weights"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range there {
		if !want[e.Name()] {
			t.Errorf("%s is kept for nothing", e.Name())
		}
		delete(want, e.Name())
	}
	if len(want) != 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestHarness_changedSource(t *testing.T) {
	dir := finished(t)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	id := r.Manifest().Harness
	if h, err := r.Harness(id); err != nil || h.Source != "hint=0 turns=1" || h.Meta.Proposer != "seed" {
		t.Fatalf("%+v, %v", h, err)
	}
	replace(t, filepath.Join(dir, "harnesses", string(id), "harness.go"), "hint=0", "hint=9")
	if _, err := r.Harness(id); err == nil {
		t.Error("took a source that its name does not match")
	}
}

func TestTrajectories_roundTripAndCut(t *testing.T) {
	dir := finished(t)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var ts []*engine.Trajectory
	for _, rec := range r.Records() {
		if rec.File == "" {
			continue
		}
		more, err := r.Trajectories(rec.File)
		if err != nil || len(more) != rec.Spent {
			t.Fatalf("%s: %d rollouts of %d, %v", rec.File, len(more), rec.Spent, err)
		}
		ts = append(ts, more...)
	}
	for len(ts) < 2*perFrame+10 {
		ts = append(ts, ts...)
	}
	ts = ts[:2*perFrame+10]
	content, err := encodeTrajectories(ts)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadTrajectories(bytes.NewReader(content))
	if err != nil || !reflect.DeepEqual(back, ts) {
		t.Fatalf("%d rollouts came back of %d, %v", len(back), len(ts), err)
	}
	for cut, least := range map[int]int{len(content) - 1: 2 * perFrame, len(content) - 40: 2 * perFrame, len(content) * 2 / 3: perFrame} {
		part, err := ReadTrajectories(bytes.NewReader(content[:cut]))
		if !errors.Is(err, ErrCut) || len(part) < least || !reflect.DeepEqual(part, ts[:len(part)]) {
			t.Errorf("cut at %d of %d: %d rollouts, at least %d, %v", cut, len(content), len(part), least, err)
		}
	}
	if none, err := encodeTrajectories(nil); err != nil {
		t.Fatal(err)
	} else if back, err := ReadTrajectories(bytes.NewReader(none)); err != nil || len(back) != 0 {
		t.Errorf("no rollouts: %d, %v", len(back), err)
	}
}

// The ledger's sums are the engine's own counters, whatever way they are grouped.
func TestLedger_sums(t *testing.T) {
	dir := finished(t)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	summary, err := r.Summary()
	if err != nil {
		t.Fatal(err)
	}
	var counted engine.Cost
	for _, rec := range r.Records() {
		if rec.File == "" {
			continue
		}
		ts, err := r.Trajectories(rec.File)
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range ts {
			for _, c := range tr.Calls() {
				counted.Prompt += len(c.Prompt)
				counted.Cached += c.Cached
				counted.Sampled += len(c.Sampled)
			}
		}
	}
	total := ledger.Sum(r.Ledger())
	got := engine.SummaryTokens{Prompt: total.Spending.Cost.Prompt, Cached: total.Spending.Cost.Cached,
		Sampled: total.Spending.Cost.Sampled, Trained: total.Spending.Cost.Trained}
	if got != summary.Tokens || counted.Prompt != got.Prompt || counted.Cached != got.Cached || counted.Sampled != got.Sampled || got.Trained == 0 {
		t.Errorf("ledger %+v, summary %+v, trajectories %+v", got, summary.Tokens, counted)
	}
	if all := summary.Rollouts; total.Rollouts != all.Weight+all.Harness+all.Test {
		t.Errorf("ledger has %d rollouts, summary %+v", total.Rollouts, all)
	}
	for name, groups := range map[string][]ledger.Total{"phases": ledger.Phases(r.Ledger()), "cycles": ledger.Cycles(r.Ledger())} {
		var sum ledger.Total
		for _, g := range groups {
			sum.Units += g.Units
			sum.Rollouts += g.Rollouts
			sum.Spending.Cost.Sampled += g.Spending.Cost.Sampled
			sum.Spending.Cost.Trained += g.Spending.Cost.Trained
		}
		if sum.Units != total.Units || sum.Rollouts != total.Rollouts || sum.Spending.Cost.Sampled != got.Sampled || sum.Spending.Cost.Trained != got.Trained {
			t.Errorf("%s: %+v, want %+v", name, sum, total)
		}
	}
	if n := len(ledger.Phases(r.Ledger())); n != 5 { // start, weight, search, weight, measure
		t.Errorf("%d phases", n)
	}
}

// Nothing outside of the world knows a reference answer: the canary is in no file.
func TestCanary(t *testing.T) {
	for name, text := range contents(t, finished(t)) {
		if strings.Contains(text, enginetest.Canary) {
			t.Errorf("a reference answer is in %s", name)
		}
	}
}

func FuzzReadTrajectories(f *testing.F) {
	content, err := encodeTrajectories([]*engine.Trajectory{{Task: "t", Events: []engine.Event{{Log: "x"}}}, {Sample: 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add(content[:len(content)-3])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		ts, err := ReadTrajectories(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := encodeTrajectories(ts)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ReadTrajectories(bytes.NewReader(again)); err != nil || len(back) != len(ts) {
			t.Fatalf("%d rollouts became %d, %v", len(ts), len(back), err)
		}
	})
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"seq":0,"kind":"start","weights":"w","saved":"w","harness":"h","spent":0}` + "\n"))
	f.Add([]byte(`{"seq":0,"kind":"start"}` + "\n" + `{"seq":1,"kind":"search","search":{"evaluated":[{}]},"last":true}` + "\n" + `{"seq":2,"kind":"measure","measure":{"point":99}}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		records, ends, err := parseJournal(b)
		if err != nil {
			return
		}
		if len(ends) != len(records) || last(ends) > int64(len(b)) {
			t.Fatalf("%d records, ends %v of %d bytes", len(records), ends, len(b))
		}
		state := engine.Fold(records) // whatever parses can be replayed
		state.Curve()
	})
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte("format: 1\nconfig: {seed: 1}\n"))
	f.Add([]byte("format: [1]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parseManifest(b); (m == nil) == (err == nil) {
			t.Fatalf("%v, %v", m, err)
		} else if err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("more than a line: %q", err)
		}
	})
}

// What keeping a step of 256 rollouts costs, without waiting for the disk.
func BenchmarkPutTrajectories(b *testing.B) {
	a, err := open(filepath.Join(b.TempDir(), "run"), unsynced())
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	ids := make([]int32, 110) // a long lookup context (spec/nano.md 7)
	for i := range ids {
		ids[i] = int32(i * 7 % 767)
	}
	var ts []*engine.Trajectory
	for i := range 256 {
		t := &engine.Trajectory{Task: "t", Sample: i, Seed: uint64(i) << 40, Outcome: engine.Scored}
		for turn := range 3 {
			ids[turn] = int32(i)
			t.Events = append(t.Events, engine.Event{Call: &engine.Call{Handle: turn + 1, Prompt: ids[:50+30*turn],
				Sampled: ids[:6], LogProbs: []float32{-.1, -.23, -1.5, -.003, -2, -float32(i) / 77}, Text: "<search>Gervan</search>", Stop: engine.StopEnd}})
		}
		ts = append(ts, t)
	}
	for b.Loop() {
		if err := a.PutTrajectories("x", ts); err != nil {
			b.Fatal(err)
		}
	}
}
