package chess

import (
	"reflect"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/engine"
	h0 "github.com/seed-7c27e6b8/whale/harnesses/chess"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// mateReader is the skill that the demonstrations teach: copy the first row that mates.
func mateReader(messages []kit.Message) string {
	for _, line := range strings.Split(messages[len(messages)-1].Content, "\n") {
		if strings.HasSuffix(line, "#") {
			uci, _, _ := strings.Cut(strings.TrimPrefix(line, "- ["), "]")
			return "<move>" + uci + "</move>"
		}
	}
	return "none"
}

// The generated domain needs no file, repeats itself for a seed, and the skill solves it
// under the seed harness with the prompt of the demonstrations.
func TestGenerated(t *testing.T) {
	o := Options{Test: 20, Select: 10, Train: 30}
	d, err := Generated(1, o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Generated(1, o)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(d.Test, again.Test) || !reflect.DeepEqual(d.Train, again.Train) {
		t.Error("the same seed makes other puzzles")
	}
	if len(d.Test) != 20 || len(d.Select) != 10 || len(d.Train) != 30 {
		t.Errorf("%d test, %d select, %d train", len(d.Test), len(d.Select), len(d.Train))
	}
	seen := map[engine.TaskID]bool{}
	for _, task := range append(append(d.Test, d.Select...), d.Train...) {
		if seen[task.ID] {
			t.Errorf("%s comes twice", task.ID)
		}
		seen[task.ID] = true
		var prompt []kit.Message
		played, err := benchtest.Play(d, task, h0.Run, func(m []kit.Message) string {
			prompt = m
			return mateReader(m)
		})
		if err != nil || played.Err != nil || played.Verdict.Reward != 1 {
			t.Fatalf("%s: %+v, %v, %v", task.Input, played.Verdict, err, played.Err)
		}
		pos, err := parse(task.Input)
		if err != nil {
			t.Fatal(err)
		}
		want := []kit.Message{{Role: kit.User, Content: Task + "\n" + listing(legalRows(pos))}}
		if !reflect.DeepEqual(prompt, want) {
			t.Fatalf("the harness asks %v, the demonstrations %v", prompt, want)
		}
	}
	for _, trick := range []string{"", "solved", "<move></move>", "<move>" + strings.Repeat("a1a2 ", 100) + "</move>"} {
		played, err := benchtest.Play(d, d.Test[0], h0.Run, func([]kit.Message) string { return trick })
		if err != nil || played.Verdict.Reward != 0 {
			t.Errorf("%q: %+v, %v", trick, played.Verdict, err)
		}
	}
}

// The listings grow with progress, and every demonstration is what the skill writes.
func TestDemos(t *testing.T) {
	for _, c := range []struct {
		progress    float64
		least, most int // rows
	}{{0, 3, 6}, {0.3, 4, 13}, {0.6, 6, 31}, {0.7, 2, 218}, {1, 2, 218}} {
		demos, twin := NewDemos(2), NewDemos(2)
		total := 0
		for range 40 {
			episode := demos.Next(c.progress)
			if !reflect.DeepEqual(episode, twin.Next(c.progress)) {
				t.Fatal("the same seed makes other episodes")
			}
			m := episode.Messages
			if len(m) != 2 || m[0].Role != kit.User || m[0].Trained || m[1].Role != kit.Assistant || !m[1].Trained {
				t.Fatalf("%+v", m)
			}
			rows := strings.Count(m[0].Content, "\n")
			total += rows
			if rows < 2 || rows > c.most {
				t.Errorf("at %.1f a listing of %d rows, want %d to %d", c.progress, rows, c.least, c.most)
			}
			if got := mateReader([]kit.Message{{Content: m[0].Content}}); got != m[1].Content {
				t.Errorf("%q -> %q, want %q", m[0].Content, m[1].Content, got)
			}
			if c.progress < 0.7 && strings.Count(m[0].Content, "#") != 1 {
				t.Errorf("%q has several mates", m[0].Content)
			}
		}
		if total < 40*c.least {
			t.Errorf("at %.1f only %d rows in 40 listings", c.progress, total)
		}
	}
}

// Positions come from the seed alone, whatever the progress.
func TestDemoPositions(t *testing.T) {
	a, b := NewDemos(5), NewDemos(5)
	for i := range 5 {
		a.Next(0)
		b.Next(float64(i) / 4)
	}
	if !reflect.DeepEqual(a.pool, b.pool) {
		t.Error("progress changed the positions")
	}
}

func BenchmarkRandomMate(b *testing.B) {
	rng := bench.Rand(1, "b")
	for b.Loop() {
		randomMate(rng)
	}
}

func BenchmarkListing(b *testing.B) {
	pos, err := parse("r1bqkb1r/pppp1ppp/2n2n2/4p2Q/2B1P3/8/PPPP1PPP/RNB1K1NR w KQkq - 4 4")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		listing(legalRows(pos))
	}
}

func BenchmarkVerify(b *testing.B) {
	w := world{}
	tasks := w.tasks([]*puzzle{{id: "p"}})
	trajectory := &engine.Trajectory{Record: "solved h5f7"}
	for b.Loop() {
		if _, err := w.Verify(tasks[0], trajectory); err != nil {
			b.Fatal(err)
		}
	}
}
