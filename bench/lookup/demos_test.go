package lookup

import (
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	h0 "github.com/seed-7c27e6b8/whale/harnesses/lookup"
	rich "github.com/seed-7c27e6b8/whale/harnesses/lookup/testdata/rich"
)

// asKit turns an episode into what a harness sends.
func asKit(messages []bench.Message) []kit.Message {
	var list []kit.Message
	for _, m := range messages {
		list = append(list, kit.Message{Role: m.Role, Content: m.Content})
	}
	return list
}

// A demonstration under the shape of a harness is, byte for byte, what that harness
// makes of the same replies; clean or sloppy, to the end.
func TestDemosMatchHarnesses(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape Shape
		run   benchtest.Harness
	}{{"h0", H0, h0.Run}, {"rich", Rich, rich.Run}} {
		for _, faults := range []Faults{{}, SloppyFaults} {
			demos := NewDemos(3, faults).Under(c.shape)
			for range 400 {
				episode := demos.Next(0)
				var replies []string
				for _, m := range episode.Messages {
					if m.Trained != (m.Role == kit.Assistant) {
						t.Fatalf("message %+v", m)
					}
					if m.Trained {
						replies = append(replies, m.Content)
					}
				}
				task := engine.Task{ID: "demo", Domain: Name, Input: episode.Messages[0].Content}
				w := &liveWorld{world: demos.world, answers: map[engine.TaskID]string{"demo": ""}}
				d := &engine.Domain{World: w, Budget: engine.Budget{Turns: 16, Tools: 16}}
				next := 0
				played, err := benchtest.Play(d, task, c.run, func([]kit.Message) string {
					next++
					return replies[next-1]
				})
				if err != nil || played.Err != nil {
					t.Fatal(err, played.Err)
				}
				want := asKit(episode.Messages)
				for i := range played.Messages {
					played.Messages[i].Handle = 0
				}
				if len(played.Messages) != len(want) {
					t.Fatalf("%s: %d messages, the demonstration has %d: %v", c.name, len(played.Messages), len(want), want)
				}
				for i := range want {
					if played.Messages[i] != want[i] {
						t.Fatalf("%s: message %d is %+v, in the demonstration %+v", c.name, i, played.Messages[i], want[i])
					}
				}
			}
		}
	}
}

// outcome judges an episode by its last reply.
func outcome(p *player) engine.VerdictKind {
	last := p.messages[len(p.messages)-1].Content
	trajectory := &engine.Trajectory{Events: []engine.Event{{Call: &engine.Call{Text: last}}}}
	return bench.Judge(trajectory, p.question.answer).Kind
}

// A clean player is right whenever it saw all hops, and never malformed.
func TestCleanDemosAreRight(t *testing.T) {
	rng := bench.Rand(5, "test")
	right, seen := 0, 0
	for range 60 {
		w := newWorld(rng, size{people: 40, towns: 12, rivers: 8, regions: 5})
		for range 40 {
			p := &player{rng: rng, world: w, shape: randomShape(rng), question: w.draw(rng)}
			p.play()
			kind := outcome(p)
			if kind == engine.Equal {
				right++
			}
			at, visible := p.question.entity, true
			for _, rel := range p.question.path {
				value := w.facts[at][rel]
				visible = visible && p.sees(sentence(rel, at, value))
				at = value
			}
			last := p.messages[len(p.messages)-1].Content
			if !visible {
				continue
			}
			seen++
			// The last turn may be spent before the answer came into sight.
			if strings.HasPrefix(last, "<answer>") && kind != engine.Equal {
				t.Fatalf("%q: saw the answer %s and wrote %q", p.question.text, p.question.answer, last)
			}
		}
	}
	if seen < 1000 || right < 1000 {
		t.Errorf("of 2400 demonstrations %d saw the answer and %d were right", seen, right)
	}
}

// Each fault shows at about its rate.
func TestSloppyDemos(t *testing.T) {
	count := func(f Faults, hit func(*player) bool) float64 {
		rng := bench.Rand(9, "test")
		w := newWorld(rng, size{people: 60, towns: 12, rivers: 8, regions: 5})
		n := 0
		for range 2000 {
			p := &player{rng: rng, world: w, shape: Shape{K: 1, Turns: 6}, question: w.draw(rng), faults: f}
			p.play()
			if hit(p) {
				n++
			}
		}
		return float64(n) / 2000
	}
	last := func(p *player) string { return p.messages[len(p.messages)-1].Content }
	for _, c := range []struct {
		name     string
		faults   Faults
		hit      func(*player) bool
		low, top float64
	}{
		{"clean", Faults{}, func(p *player) bool { return outcome(p) == engine.Equal }, 1, 1},
		// 1-hop has 2 turns, 2-hop 3: .6*(1-.9^2) + .4*(1-.9^3) = .22
		{"malformed", Faults{Malformed: 0.1}, func(p *player) bool {
			_, ok := bench.Answer(last(p))
			return !ok
		}, 0.19, 0.26},
		{"unread", Faults{Unread: 0.15}, func(p *player) bool { return len(p.read) == 0 }, 0.12, 0.18},
		{"bridge", Faults{Bridge: 0.45}, func(p *player) bool { return outcome(p) == engine.Different }, 0.14, 0.22},
		{"wrong", Faults{Wrong: 0.12}, func(p *player) bool { return outcome(p) == engine.Different }, 0.08, 0.14},
		{"all", SloppyFaults, func(p *player) bool { return outcome(p) == engine.Equal }, 0.3, 0.5},
	} {
		if got := count(c.faults, c.hit); got < c.low || got > c.top {
			t.Errorf("%s: %.3f of the episodes, want %.2f to %.2f", c.name, got, c.low, c.top)
		}
	}
}

func TestDrills(t *testing.T) {
	drills := NewDrills(1)
	kinds := [2]int{}
	for range 500 {
		m := drills.Next(0).Messages
		context, reply := m[0].Content, m[1].Content
		if !strings.Contains(reply, "<search>") {
			kinds[0]++
			if context != reply || strings.Count(reply, " ") < 1 || strings.Count(reply, " ") > 5 {
				t.Fatalf("%q -> %q", context, reply)
			}
			continue
		}
		kinds[1]++
		for _, pair := range strings.Split(strings.TrimSuffix(reply, "</answer>"), "</answer>") {
			entity, value, ok := strings.Cut(strings.TrimPrefix(pair, "<search>"), "</search><answer>")
			if !ok || !strings.Contains(context, entity) || !strings.Contains(context, " "+value+".") {
				t.Fatalf("%q -> %q: pair %q", context, reply, pair)
			}
		}
		if strings.Count(context, ".") != strings.Count(reply, "</answer>") {
			t.Fatalf("%q -> %q", context, reply)
		}
	}
	if kinds[0] < 200 || kinds[1] < 200 {
		t.Errorf("kinds %v", kinds)
	}
}

func BenchmarkDemo(b *testing.B) {
	d := NewDemos(1, SloppyFaults)
	for b.Loop() {
		d.Next(0)
	}
}
