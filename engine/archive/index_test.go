package archive

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

// The list of a run is its trajectories, in order, with or without the files of lists.
func TestRollouts(t *testing.T) {
	dir := finished(t)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := func(*Rollout) bool { return true }
	got, err := r.Rollouts(all)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, rec := range r.Records() {
		if rec.File == "" {
			continue
		}
		ts, err := r.Trajectories(rec.File)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range ts {
			want := Rollout{File: rec.File, Index: i, Task: x.Task, Sample: x.Sample, Harness: x.Harness, Outcome: x.Outcome,
				Verdict: x.Verdict.Kind, Reward: x.Verdict.Reward, Turns: len(x.Calls()), Sampled: x.Cost.Sampled, Prompt: x.Cost.Prompt, Phase: x.Phase}
			if n >= len(got) || got[n] != want {
				t.Fatalf("rollout %d: got %+v, want %+v", n, got[n], want)
			}
			n++
		}
	}
	if n != len(got) || n < 50 {
		t.Fatalf("%d of %d", len(got), n)
	}
	some, err := r.Rollouts(func(x *Rollout) bool { return x.Sampled > 4 && x.Verdict == engine.Equal })
	if err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(slices.Clone(got), func(x Rollout) bool { return x.Sampled < 5 || x.Verdict != engine.Equal })
	if !reflect.DeepEqual(some, want) || len(some) == 0 || len(some) == len(got) {
		t.Errorf("%d, want %d", len(some), len(want))
	}
	lists, err := filepath.Glob(filepath.Join(dir, "trajectories", "*"+indexSuffix))
	if err != nil || len(lists) < 10 {
		t.Fatal(lists, err)
	}
	for _, l := range lists {
		if err := os.Remove(l); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := r.Rollouts(all); err != nil || !reflect.DeepEqual(old, got) {
		t.Errorf("without lists: %d, %v", len(old), err)
	}
	replaceAll(t, lists[0], "something else\n")
	if _, err := r.Rollouts(all); err == nil || !strings.Contains(err.Error(), indexSuffix+": its columns are others") {
		t.Errorf("got %v", err)
	}
}

// A list has what the trajectories have, rewards to the last bit.
func TestIndex_roundTrip(t *testing.T) {
	call, tool := engine.Event{Call: &engine.Call{}}, engine.Event{Tool: &engine.ToolUse{}}
	ts := []*engine.Trajectory{{Task: "t1", Harness: "h1", Sample: 3, Phase: "select/1", Outcome: engine.Scored,
		Events: []engine.Event{call, tool, {Log: "x"}, call, call}, Verdict: engine.Verdict{Kind: engine.Equal, Reward: 1. / 3},
		Cost: engine.Cost{Sampled: 11, Prompt: 222}}}
	want := Rollout{File: "f", Task: "t1", Sample: 3, Harness: "h1", Outcome: engine.Scored, Verdict: engine.Equal, Reward: 1. / 3,
		Turns: 3, Tools: 1, Sampled: 11, Prompt: 222, Phase: "select/1"}
	n := 0
	if err := parseIndex("f", string(encodeIndex(ts)), func(r *Rollout) {
		if n++; *r != want {
			t.Errorf("got %+v, want %+v", *r, want)
		}
	}); err != nil || n != 1 {
		t.Errorf("%d lines, %v", n, err)
	}
}

func replaceAll(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// accepted.json and evolution.md say what the journal says.
func TestOverview(t *testing.T) {
	dir := finished(t)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := os.ReadFile(filepath.Join(dir, "accepted.json"))
	if err != nil {
		t.Fatal(err)
	}
	state := engine.Fold(r.Records())
	if !strings.Contains(string(accepted), `"harness": "`+string(state.Harness)+`"`) {
		t.Errorf("in use is %s: %s", state.Harness, accepted)
	}
	text, err := os.ReadFile(filepath.Join(dir, "evolution.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, rec := range r.Records() {
		if rec.Search == nil {
			continue
		}
		rows += len(rec.Search.Evaluated) + len(rec.Search.Rejected)
		for _, e := range rec.Search.Evaluated {
			if row := fmt.Sprintf("| %d.%d | %s | ", rec.Cycle, rec.Index, e.Harness.ID); !strings.Contains(string(text), row) {
				t.Errorf("no row %q", row)
			}
		}
	}
	if got := strings.Count(string(text), "\n| 1."); got != rows || rows < 4 {
		t.Errorf("%d rows of %d:\n%s", got, rows, text)
	}
	odd := evolution([]engine.IterationNote{{Cycle: 1, Index: 2, Search: engine.Search{Failed: "a | b\nc"}}})
	if !strings.Contains(string(odd), `| 1.2 | | proposer failed: a \| b c |`) {
		t.Errorf("%s", odd)
	}
}

// Every iteration has a report to read, with a row per evaluated harness whose endings add
// up to its rollouts, and the refused with their reason.
func TestIterationReport(t *testing.T) {
	dir := finished(t)
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	refused, seen := 0, 0
	for _, rec := range r.Records() {
		if rec.Search == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "cycles", cycleDir(rec.Cycle), iterationDir(rec.Index), "report.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range rec.Search.Evaluated {
			_, row, ok := strings.Cut(string(text), "| "+string(e.Harness.ID)+" |")
			cells := strings.Split(row, "|")
			if !ok || len(cells) < 11 {
				t.Fatalf("no row of %s in\n%s", e.Harness.ID, text)
			}
			sum := 0
			for _, cell := range cells[5:9] {
				n, err := strconv.Atoi(strings.TrimSpace(cell))
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
			if sum != e.Score.N*e.Score.K {
				t.Errorf("%d endings of %d tasks in\n%s", sum, e.Score.N, text)
			}
			seen++
		}
		for _, x := range rec.Search.Rejected {
			if refused++; !strings.Contains(string(text), "Refused "+string(x.Harness.ID)+": ") {
				t.Errorf("%s is not refused in\n%s", x.Harness.ID, text)
			}
		}
	}
	if refused == 0 || seen < 3 {
		t.Errorf("the test is about nothing: %d refused, %d evaluated", refused, seen)
	}
}

func FuzzParseIndex(f *testing.F) {
	f.Add(string(encodeIndex([]*engine.Trajectory{{Task: "t\t1\n", Phase: "train/1"}, {Verdict: engine.Verdict{Reward: .25}}})))
	f.Add(indexHead + "0\ta\t0\th\tscored\tequal\tNaN\t1\t1\t1\t1\tx")
	f.Fuzz(func(t *testing.T, text string) {
		var n int
		err := parseIndex("file", text, func(r *Rollout) {
			if r.Index != n || r.File != "file" {
				t.Fatalf("%d: %+v", n, r)
			}
			n++
		})
		if lines := strings.Count(text, "\n") - 1; err == nil && n != lines {
			t.Fatalf("%d of %d lines", n, lines)
		}
	})
}

// generated is a run folder with lists of n rollouts and nothing else to read.
func generated(b *testing.B, n, per int) *Reader {
	dir := b.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "trajectories"), 0o755); err != nil {
		b.Fatal(err)
	}
	r := &Reader{dir: dir}
	for from := 0; from < n; from += per {
		var ts []*engine.Trajectory
		for i := range per {
			x := from + i
			ts = append(ts, &engine.Trajectory{Task: engine.TaskID(fmt.Sprintf("t%016x", x/8*2654435761)), Harness: engine.HarnessID(fmt.Sprintf("h%016x", from)),
				Sample: x % 8, Outcome: []engine.Outcome{engine.Scored, engine.Invalid}[x%7/6], Phase: fmt.Sprintf("train/%d", from),
				Verdict: engine.Verdict{Kind: engine.Equal, Reward: float64(x % 2)}, Cost: engine.Cost{Sampled: x * 7919 % 500, Prompt: 300}})
		}
		file := fmt.Sprintf("cycle-%05d-weight-001", from/per)
		if err := os.WriteFile(filepath.Join(dir, "trajectories", file+indexSuffix), encodeIndex(ts), 0o644); err != nil {
			b.Fatal(err)
		}
		r.records = append(r.records, engine.Record{Kind: engine.StepRecord, File: file})
	}
	return r
}

// List, filter and sort 100,000 rollouts; MB is what the process holds at the end.
func BenchmarkRollouts100k(b *testing.B) {
	r := generated(b, 100_000, 250)
	b.ReportAllocs()
	for b.Loop() {
		found, err := r.Rollouts(func(x *Rollout) bool { return x.Outcome == engine.Scored })
		if err != nil || len(found) < 80_000 {
			b.Fatal(len(found), err)
		}
		slices.SortStableFunc(found, func(a, b Rollout) int { return cmp.Compare(b.Sampled, a.Sampled) })
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/1e6, "MB")
}
