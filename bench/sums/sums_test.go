package sums

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	h0 "github.com/seed-7c27e6b8/whale/harnesses/sums"
)

func domain(t *testing.T, o Options) *engine.Domain {
	t.Helper()
	d, err := New(3, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// evaluate reads a question again and computes it, step by step.
func evaluate(t *testing.T, text string) (steps []string, value int) {
	t.Helper()
	text = strings.NewReplacer("What is ", "", "Compute ", "", "=?", "", "?", "", ".", "").Replace(text)
	text = strings.NewReplacer("+", " +", "-", " -").Replace(text)
	for i, term := range strings.Fields(text) {
		n, err := strconv.Atoi(term)
		if err != nil {
			t.Fatalf("term %q: %v", term, err)
		}
		if i == 0 {
			if n < 1 || n > 20 {
				t.Fatalf("%q begins with %d", text, n)
			}
			value = n
			continue
		}
		if n > 9 || n < -9 || value+n < 0 || term == "+0" {
			t.Fatalf("%q has the step %s at %d", text, term, value)
		}
		steps = append(steps, strconv.Itoa(value)+term+"="+strconv.Itoa(value+n))
		value += n
	}
	return steps, value
}

func TestSplits(t *testing.T) {
	d, again := domain(t, Options{}), domain(t, Options{})
	seen := map[string]bool{}
	for _, c := range []struct {
		split engine.Split
		n     int
	}{{engine.Test, 100}, {engine.Select, 64}, {engine.Train, 1600}} {
		tasks := d.Tasks(c.split)
		if len(tasks) != c.n {
			t.Errorf("%s has %d tasks, want %d", c.split, len(tasks), c.n)
		}
		kinds := map[string]int{}
		for i, task := range tasks {
			if seen[task.Input] {
				t.Errorf("%q comes twice", task.Input)
			}
			seen[task.Input] = true
			if again.Tasks(c.split)[i].ID != task.ID {
				t.Fatalf("%s differs on the second making", c.split)
			}
			steps, _ := evaluate(t, task.Input)
			if want := map[int]string{1: "1 step", 2: "2 steps"}[len(steps)]; task.Tags[0] != want {
				t.Errorf("%q is tagged %v", task.Input, task.Tags)
			}
			kinds[task.Tags[0]]++
		}
		if kinds["1 step"] != c.n/2 {
			t.Errorf("%s has %v", c.split, kinds)
		}
	}
	if many := domain(t, Options{Train: 15000}); len(many.Train) != 15000 {
		t.Errorf("%d training tasks", len(many.Train))
	}
	if _, err := New(1, Options{Train: 100000}); err == nil {
		t.Error("more tasks than there are sums")
	}
}

// A model that computes is right under h0 in every split.
func TestPerfectPlayer(t *testing.T) {
	d := domain(t, Options{})
	for _, task := range append(d.Test, d.Select...) {
		steps, value := evaluate(t, task.Input)
		reply := strings.Join(steps, "\n") + "\n<answer>" + strconv.Itoa(value) + "</answer>"
		played, err := benchtest.Play(d, task, h0.Run, func([]kit.Message) string { return reply })
		if err != nil || played.Err != nil || played.Verdict.Reward != 1 {
			t.Errorf("%q: %+v, %v, %v", task.Input, played.Verdict, err, played.Err)
		}
	}
}

func TestVerify(t *testing.T) {
	d := domain(t, Options{})
	task := d.Test[0]
	_, value := evaluate(t, task.Input)
	gold, other := strconv.Itoa(value), strconv.Itoa(value+1)
	for _, c := range []struct {
		text string
		kind engine.VerdictKind
	}{
		{"<answer> " + gold + " </answer>", engine.Equal},
		{"<answer>" + other + "</answer>", engine.Different},
		{"<answer>" + gold + "</answer><answer>" + other + "</answer>", engine.Different},
		{"<answer>" + gold + " " + other + "</answer>", engine.Different},
		{gold, engine.Unparsed},
		{task.Input, engine.Unparsed},
		{"", engine.Unparsed},
	} {
		trajectory := &engine.Trajectory{Events: []engine.Event{{Call: &engine.Call{Handle: 1, Text: c.text}}}}
		if v, err := d.World.Verify(task, trajectory); err != nil || v.Kind != c.kind {
			t.Errorf("%q: %+v, %v, want %s", c.text, v, err, c.kind)
		}
	}
	// The submitted reply counts, not the last one.
	two := &engine.Trajectory{Submitted: 1, Events: []engine.Event{
		{Call: &engine.Call{Handle: 1, Text: "<answer>" + gold + "</answer>"}},
		{Call: &engine.Call{Handle: 2, Text: "<answer>" + other + "</answer>"}},
	}}
	if v, _ := d.World.Verify(task, two); v.Kind != engine.Equal {
		t.Errorf("submitted: %+v", v)
	}
	if _, err := d.World.Verify(engine.Task{ID: "x"}, two); err == nil {
		t.Error("a foreign task was judged")
	}
	env, err := d.World.Start(task)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.Tool(context.Background(), engine.ToolCall{Name: "search"}); !errors.Is(err, engine.ErrTool) {
		t.Errorf("tool: %v", err)
	}
}

// Clean demonstrations are what the perfect player writes; each fault shows at its rate.
func TestDemos(t *testing.T) {
	const n = 3000
	rates := func(f Faults) (right, unparsed, short float64) {
		demos := NewDemos(4, f)
		for range n {
			m := demos.Next(0).Messages
			question, reply := m[len(m)-2], m[len(m)-1]
			if question.Role != kit.User || reply.Role != kit.Assistant || !reply.Trained || question.Trained {
				t.Fatalf("messages %+v", m)
			}
			steps, value := evaluate(t, question.Content)
			want := strings.Join(steps, "\n") + "\n<answer>" + strconv.Itoa(value) + "</answer>"
			if f == (Faults{}) && reply.Content != want {
				t.Fatalf("%q -> %q, want %q", question.Content, reply.Content, want)
			}
			got, ok := bench.Answer(reply.Content)
			if got == strconv.Itoa(value) {
				right++
			}
			if !ok {
				unparsed++
			}
			if strings.Count(reply.Content, "\n") < len(steps) {
				short++
			}
		}
		return right / n, unparsed / n, short / n
	}
	if right, _, _ := rates(Faults{}); right != 1 {
		t.Errorf("clean: %.3f right", right)
	}
	if _, unparsed, _ := rates(Faults{Malformed: 0.05}); unparsed < 0.03 || unparsed > 0.07 {
		t.Errorf("malformed: %.3f", unparsed)
	}
	if _, _, short := rates(Faults{Stop: 0.4}); short < 0.17 || short > 0.23 {
		t.Errorf("stopped early: %.3f, half of .4 wanted", short)
	}
	// One step .35, two .35^2: about .24 without the other faults (results of 0 are spared).
	if right, _, _ := rates(Faults{Minus: 0.65}); right < 0.2 || right > 0.32 {
		t.Errorf("minus one: %.3f right", right)
	}
}
