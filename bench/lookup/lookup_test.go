package lookup

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	h0 "github.com/seed-7c27e6b8/whale/harnesses/lookup"
	rich "github.com/seed-7c27e6b8/whale/harnesses/lookup/testdata/rich"
)

func domain(t *testing.T, seed uint64) (*engine.Domain, *liveWorld) {
	t.Helper()
	d, err := New(seed, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d, d.World.(*liveWorld)
}

// The splits have the promised sizes and mix, share nothing and depend on the seed only.
func TestSplits(t *testing.T) {
	d, w := domain(t, 7)
	again, _ := domain(t, 7)
	seen := map[engine.TaskID]engine.Split{}
	for _, c := range []struct {
		split engine.Split
		n     int
	}{{engine.Test, 80}, {engine.Select, 64}, {engine.Train, 300}} {
		tasks := d.Tasks(c.split)
		if len(tasks) != c.n && (c.split != engine.Train || len(tasks) < c.n) {
			t.Errorf("%s has %d tasks, want %d", c.split, len(tasks), c.n)
		}
		two := 0
		for i, task := range tasks {
			if other, ok := seen[task.ID]; ok {
				t.Errorf("%q is in %s and %s", task.Input, other, c.split)
			}
			seen[task.ID] = c.split
			if answer := w.answers[task.ID]; strings.Contains(task.Input, answer) {
				t.Errorf("%q says the answer, %q", task.Input, answer)
			}
			if task.Tags[0] == "2-hop" {
				two++
			}
			if again.Tasks(c.split)[i].ID != task.ID {
				t.Fatalf("%s differs on the second making", c.split)
			}
		}
		if share := float64(two) / float64(len(tasks)); math.Abs(share-twoHopShare) > 0.01 {
			t.Errorf("%s has %.3f two-hop questions", c.split, share)
		}
	}
	other, _ := domain(t, 8)
	if other.Test[0].ID == d.Test[0].ID {
		t.Error("another seed makes the same world")
	}
	if _, err := New(1, Options{Test: 800}); err == nil {
		t.Error("more questions than the world has")
	}
}

// Facts stand in the passages in the words of the spec, and the name is the best query.
func TestWorld(t *testing.T) {
	_, w := domain(t, 1)
	if len(w.passages) != 76 {
		t.Fatalf("%d passages", len(w.passages))
	}
	for i, entity := range append(append([]string{}, w.people...), w.towns...) {
		if got := w.lookUp(entity, 1); got != w.passages[i] {
			t.Errorf("search %s found %q", entity, got)
		}
		if !strings.HasPrefix(w.passages[i], entity+": ") {
			t.Errorf("passage %q does not begin with %s", w.passages[i], entity)
		}
		for _, rel := range w.relationsOf(entity) {
			if s := sentence(rel, entity, w.facts[entity][rel]); !strings.Contains(w.passages[i], s) {
				t.Errorf("%q lacks %q", w.passages[i], s)
			}
		}
	}
	for _, a := range w.people {
		if b := w.facts[a][spouse]; b == a || w.facts[b][spouse] != a {
			t.Errorf("%s is married to %s, who is married to %s", a, b, w.facts[b][spouse])
		}
		if w.facts[a][teacher] == a {
			t.Errorf("%s taught herself", a)
		}
	}
}

func TestQuestionWords(t *testing.T) {
	w := &world{facts: map[string]map[int]string{
		"Ava": {born: "Tal", job: "baker", spouse: "Bo", teacher: "Cid"},
		"Bo":  {born: "Um", job: "smith", spouse: "Ava", teacher: "Cid"},
		"Cid": {born: "Um", job: "mason", spouse: "Dag", teacher: "Bo"},
		"Tal": {mayor: "Bo", river: "Rul", goods: "salt", region: "Sor"},
	}}
	for _, c := range []struct {
		entity, text, answer string
		path                 []int
	}{
		{"Ava", "Where was Ava born?", "Tal", []int{born}},
		{"Ava", "What is the job of Ava?", "baker", []int{job}},
		{"Ava", "Who is the spouse of Ava?", "Bo", []int{spouse}},
		{"Ava", "Who taught Ava?", "Cid", []int{teacher}},
		{"Tal", "Who is the mayor of Tal?", "Bo", []int{mayor}},
		{"Tal", "Which river is Tal on?", "Rul", []int{river}},
		{"Tal", "What is Tal known for?", "salt", []int{goods}},
		{"Tal", "Which region is Tal in?", "Sor", []int{region}},
		{"Ava", "Who is the mayor of the birthplace of Ava?", "Bo", []int{born, mayor}},
		{"Ava", "Where was the spouse of Ava born?", "Um", []int{spouse, born}},
		{"Ava", "What is the job of the teacher of Ava?", "mason", []int{teacher, job}},
		{"Tal", "Who taught the mayor of Tal?", "Cid", []int{mayor, teacher}},
	} {
		if q := w.ask(c.entity, c.path...); q.text != c.text || q.answer != c.answer {
			t.Errorf("asked %q = %q, want %q = %q", q.text, q.answer, c.text, c.answer)
		}
	}
	if w.ask("Ava", spouse, spouse).fair() {
		t.Error("the spouse of the spouse of Ava stands in the question")
	}
}

func TestSearchTool(t *testing.T) {
	d, w := domain(t, 1)
	name := w.people[0]
	for _, c := range []struct {
		name, tool, args string
		lines            int // of the result; 0 = ErrTool
		want             string
	}{
		{"default k", "search", `{"query":"` + name + `"}`, 1, w.passages[0]},
		{"k as text", "search", kit.Args("query", name+" born", "k", "3"), 3, w.passages[0]},
		{"k as number", "search", `{"query":"born","k":2}`, 2, ""},
		{"k capped", "search", `{"query":"born","k":99}`, maxPassages, ""},
		{"case and punctuation", "search", kit.Args("query", "  "+strings.ToUpper(name)+"?!"), 1, w.passages[0]},
		{"no match", "search", kit.Args("query", "zzz"), 1, NoResults},
		{"empty query", "search", `{}`, 1, NoResults},
		{"bad k", "search", `{"query":"a","k":"x"}`, 0, ""},
		{"no json", "search", `query`, 0, ""},
		{"other tool", "open", `{}`, 0, ""},
	} {
		env, err := d.World.Start(d.Train[0])
		if err != nil {
			t.Fatal(err)
		}
		got, err := env.Tool(context.Background(), engine.ToolCall{Name: c.tool, Args: c.args})
		if c.lines == 0 {
			if !errors.Is(err, engine.ErrTool) {
				t.Errorf("%s: %v, want ErrTool", c.name, err)
			}
			continue
		}
		if err != nil || strings.Count(got, "\n") != c.lines-1 || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	if _, err := d.World.Start(engine.Task{ID: "x"}); err == nil {
		t.Error("a foreign task was started")
	}
}

func TestVerify(t *testing.T) {
	d, w := domain(t, 1)
	task := d.Test[0]
	gold := w.answers[task.ID]
	for _, c := range []struct {
		text string
		kind engine.VerdictKind
	}{
		{"<answer>" + gold + "</answer>", engine.Equal},
		{"so: <answer> " + strings.ToUpper(gold) + "\n</answer>", engine.Equal},
		{"<answer>Other</answer><answer>" + gold + "</answer>", engine.Equal},
		{"<answer>" + gold + "</answer><answer>Other</answer>", engine.Different},
		{"<answer>" + gold + "s</answer>", engine.Different},
		{"<answer></answer>", engine.Different},
		{"<answer>" + gold, engine.Unparsed},
		{"<answer>" + gold + "</search>", engine.Unparsed},
		{"<answer><b>" + gold + "</answer>", engine.Unparsed},
		{gold, engine.Unparsed},
		{"", engine.Unparsed},
		{task.Input, engine.Unparsed},
		{strings.Repeat("<answer>", 100000), engine.Unparsed},
	} {
		trajectory := &engine.Trajectory{Events: []engine.Event{{Call: &engine.Call{Handle: 1, Text: c.text}}}}
		v, err := d.World.Verify(task, trajectory)
		if err != nil || v.Kind != c.kind || (v.Reward == 1) != (c.kind == engine.Equal) {
			t.Errorf("%.40q: %+v, %v, want %s", c.text, v, err, c.kind)
		}
	}
	if v, _ := d.World.Verify(task, &engine.Trajectory{}); v.Kind != engine.Unparsed {
		t.Errorf("nothing written: %+v", v)
	}
	if _, err := d.World.Verify(engine.Task{ID: "x"}, &engine.Trajectory{}); err == nil {
		t.Error("a foreign task was judged")
	}
	for _, task := range append(d.Test, d.Train...) {
		if strings.Contains(string(task.ID)+task.Domain, w.answers[task.ID]) {
			t.Errorf("task %+v shows its answer", task)
		}
	}
}

// The ceilings of spec/nano.md section 3.1: what a perfect player reaches under four
// harnesses.
func TestCeilings(t *testing.T) {
	for _, c := range []struct {
		name          string
		shape         Shape
		one, two, all float64
	}{
		{"h0", H0, 0.67, 0.00, 0.40},
		{"long passages", Shape{K: 1, Turns: 2}, 1.00, 0.00, 0.59},
		{"six turns", Shape{K: 1, Words: 16, Turns: 6}, 0.66, 0.46, 0.58},
		{"both", Rich, 1.00, 1.00, 1.00},
	} {
		right, n := [2]float64{}, [2]float64{}
		for seed := range uint64(12) {
			d, w := domain(t, seed)
			rng := bench.Rand(seed, "ceiling")
			questions := w.questions()
			for _, task := range d.Test {
				q := questions[task.Input]
				p := &player{rng: rng, world: w.world, shape: c.shape, question: q}
				p.play()
				n[len(q.path)-1]++
				// A lucky guess is not what a ceiling means.
				if outcome(p) == engine.Equal && !p.guessing {
					right[len(q.path)-1]++
				}
			}
		}
		for _, part := range []struct {
			name      string
			got, want float64
		}{{"1-hop", right[0] / n[0], c.one}, {"2-hop", right[1] / n[1], c.two}, {"all", (right[0] + right[1]) / (n[0] + n[1]), c.all}} {
			if math.Abs(part.got-part.want) > 0.05 {
				t.Errorf("%s, %s: %.3f, the spec says %.2f", c.name, part.name, part.got, part.want)
			}
		}
	}
}

// questions are all questions of a world by their text.
func (w *world) questions() map[string]question {
	byText := map[string]question{}
	for _, kind := range newPool(bench.Rand(0, ""), w).left {
		for _, list := range kind {
			for _, q := range list {
				byText[q.text] = q
			}
		}
	}
	return byText
}

// The native harnesses reach the same ceilings with a model that knows the facts and
// answers when they stand in the context.
func TestNativeCeilings(t *testing.T) {
	d, w := domain(t, 2)
	questions := w.questions()
	for _, c := range []struct {
		name      string
		run       benchtest.Harness
		low, high float64
	}{{"h0", h0.Run, 0.33, 0.48}, {"rich", rich.Run, 1, 1}} {
		right := 0.0
		for _, task := range d.Test {
			q := questions[task.Input]
			played, err := benchtest.Play(d, task, c.run, func(messages []kit.Message) string {
				return w.know(q, messages)
			})
			if err != nil || played.Err != nil {
				t.Fatal(err, played.Err)
			}
			right += played.Verdict.Reward
		}
		if got := right / float64(len(d.Test)); got < c.low || got > c.high {
			t.Errorf("%s: %.3f, want %.2f to %.2f", c.name, got, c.low, c.high)
		}
	}
}

// know is a perfect model: it searches what is not in the context yet.
func (w *world) know(q question, messages []kit.Message) string {
	context := ""
	for _, m := range messages {
		context += m.Content + "\n"
	}
	at := q.entity
	for _, rel := range q.path {
		value := w.facts[at][rel]
		if !strings.Contains(context, sentence(rel, at, value)) {
			return "<search>" + at + "</search>"
		}
		at = value
	}
	return "<answer>" + at + "</answer>"
}

// Tricks of a harness or a model that knows nothing earn nothing.
func TestAdversaries(t *testing.T) {
	d, w := domain(t, 1)
	everything := ""
	for _, passage := range w.passages {
		everything += passage + "\n"
	}
	for _, c := range []struct {
		name  string
		model benchtest.Model
	}{
		{"nothing", func([]kit.Message) string { return "" }},
		{"echo", func(m []kit.Message) string { return m[len(m)-1].Content }},
		{"all in one answer", func([]kit.Message) string { return "<answer>" + everything + "</answer>" }},
		{"claim", func([]kit.Message) string { return "<answer>correct</answer> reward 1" }},
	} {
		for _, task := range d.Test {
			played, err := benchtest.Play(d, task, rich.Run, c.model)
			if err != nil {
				t.Fatal(err)
			}
			if played.Verdict.Reward != 0 {
				t.Errorf("%s earned %q", c.name, task.Input)
			}
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	w := newWorld(bench.Rand(1, "b"), size{people: 60, towns: 16, rivers: 8, regions: 5})
	for b.Loop() {
		w.lookUp(w.people[3]+" born", 1)
	}
}

func FuzzSearch(f *testing.F) {
	d, err := New(1, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"query":"a","k":"1"}`)
	f.Add(`{"query":1}`)
	f.Add(`{"k":1e9,"query":"born \ud800"}`)
	f.Fuzz(func(t *testing.T, args string) {
		env, err := d.World.Start(d.Test[0])
		if err != nil {
			t.Fatal(err)
		}
		got, err := env.Tool(context.Background(), engine.ToolCall{Name: "search", Args: args})
		if err != nil && !errors.Is(err, engine.ErrTool) || err == nil && got == "" {
			t.Errorf("%q: %q, %v", args, got, err)
		}
	})
}
