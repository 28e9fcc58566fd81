package benchtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/bench/chess"
	"github.com/seed-7c27e6b8/whale/bench/lookup"
	"github.com/seed-7c27e6b8/whale/bench/math"
	"github.com/seed-7c27e6b8/whale/bench/math/starlark"
	"github.com/seed-7c27e6b8/whale/bench/own"
	"github.com/seed-7c27e6b8/whale/bench/searchqa"
	"github.com/seed-7c27e6b8/whale/bench/sums"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/engine/schedule"
	chess0 "github.com/seed-7c27e6b8/whale/harnesses/chess"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	lookup0 "github.com/seed-7c27e6b8/whale/harnesses/lookup"
	math0 "github.com/seed-7c27e6b8/whale/harnesses/math"
	own0 "github.com/seed-7c27e6b8/whale/harnesses/own"
	searchqa0 "github.com/seed-7c27e6b8/whale/harnesses/searchqa"
	sums0 "github.com/seed-7c27e6b8/whale/harnesses/sums"
)

// arena is a domain with what an adversary may know about the form of its answers.
type arena struct {
	domain *engine.Domain
	h0     benchtest.Harness
	// write is how a model writes an answer.
	write func(answer string) string
	// options are the answers that a task may have.
	options func(task engine.Task) []string

	truth  map[engine.TaskID]string // found by trying, for the select and test splits
	chance float64                  // on test: the best constant answer or a blind draw
}

func tag(name string) func(string) string {
	return func(answer string) string { return "<" + name + ">" + answer + "</" + name + ">" }
}

func always(list []string) func(engine.Task) []string {
	return func(engine.Task) []string { return list }
}

// arenas are all domains, small, drawn or written anew.
func arenas(t *testing.T) map[string]*arena {
	t.Helper()
	must := func(d *engine.Domain, err error) *engine.Domain {
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	numbers := make([]string, 60)
	for i := range numbers {
		numbers[i] = fmt.Sprint(i)
	}
	world := must(lookup.New(7, lookup.Options{Test: 40, Select: 40}))
	list := map[string]*arena{
		"lookup": {domain: world, h0: lookup0.Run, write: tag("answer"), options: always(vocabulary(t, world))},
		"sums": {domain: must(sums.New(7, sums.Options{Test: 60, Select: 40, Train: 40})), h0: sums0.Run,
			write: tag("answer"), options: always(numbers)},
		"chess": {domain: must(chess.Generated(7, chess.Options{Test: 48, Select: 24, Train: 8})), h0: chess0.Run, write: tag("move")},
		"own":   written(t, "own", "reds greens blues pinks browns greys whites blacks golds teals"),
		"math":  written(t, "math", strings.Join(numbers[10:50], " ")),
		"searchqa": written(t, "searchqa",
			"Arvik Belmo Corda Dunem Elst Fasso Gorin Hult Ilmo Jarn Korda Lumi"),
	}
	list["chess"].options = func(task engine.Task) []string { return legal(t, list["chess"].domain, task) }
	for _, a := range list {
		a.find(t)
	}
	return list
}

// written makes the files of a domain: 180 questions, each with one of the answers.
func written(t *testing.T, name, answers string) *arena {
	t.Helper()
	dir := t.TempDir()
	list := strings.Fields(answers)
	files := map[string]*strings.Builder{}
	put := func(file string, row any) {
		data, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		if files[file] == nil {
			files[file] = &strings.Builder{}
		}
		files[file].Write(append(data, '\n'))
	}
	for i := range 180 {
		split := []string{"train", "test", "select"}[i%3]
		question := fmt.Sprintf("What goes with item %d?", i)
		answer := list[i*7919%1009%len(list)]
		half := map[string]string{"select": "train"}[split] // cut from train by the domain
		if half == "" {
			half = split
		}
		switch name {
		case "own":
			put("tasks.jsonl", map[string]any{"input": question, "answer": answer, "split": split})
		case "math":
			put("x_"+half+".jsonl", map[string]any{"question": question, "answer": answer})
		case "searchqa":
			put("nq_"+half+".jsonl", searchqa.Row{ID: fmt.Sprint(i), DataSource: "nq", Question: question, GoldenAnswers: []string{answer}})
			put("corpus.jsonl", map[string]any{"id": fmt.Sprint(i), "contents": fmt.Sprintf("\"Item %d\"\nIt goes with %s.", i, answer)})
		}
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := &arena{options: always(list), write: tag("answer")}
	var err error
	switch name {
	case "own":
		a.h0 = own0.Run
		a.domain, _, err = own.Open(dir, own.Options{})
	case "math":
		a.h0, a.write = math0.Run, func(answer string) string { return `\boxed{` + answer + `}` }
		a.domain, _, err = math.Open(dir, math.Options{Code: starlark.New()})
	case "searchqa":
		a.h0 = searchqa0.Run
		a.domain, _, err = searchqa.Open(dir, searchqa.Options{Cache: t.TempDir()})
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// use calls a tool in a fresh environment of a task.
func use(t *testing.T, d *engine.Domain, task engine.Task, name, args string) string {
	t.Helper()
	environment, err := d.World.Start(task)
	if err != nil {
		t.Fatal(err)
	}
	text, err := environment.Tool(t.Context(), engine.ToolCall{Name: name, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// vocabulary is every word of the passages about what the questions name.
func vocabulary(t *testing.T, d *engine.Domain) (words []string) {
	seen := map[string]bool{}
	for _, task := range append(append([]engine.Task{}, d.Train...), d.Select...) {
		for _, word := range strings.Fields(strings.Trim(task.Input, "?")) {
			if word[0] < 'A' || word[0] > 'Z' || seen["?"+word] {
				continue
			}
			seen["?"+word] = true
			for _, found := range strings.Fields(use(t, d, task, "search", kit.Args("query", word, "k", "2"))) {
				if found = strings.Trim(found, ".:"); !seen[found] {
					seen[found] = true
					words = append(words, found)
				}
			}
		}
	}
	return words
}

func legal(t *testing.T, d *engine.Domain, task engine.Task) (moves []string) {
	for _, line := range strings.Split(use(t, d, task, "moves", "{}"), "\n") {
		_, move, _ := strings.Cut(line, "[")
		move, _, _ = strings.Cut(move, "]")
		moves = append(moves, move)
	}
	return moves
}

// find tries every answer that a task may have and keeps the one that is rewarded.
func (a *arena) find(t *testing.T) {
	t.Helper()
	a.truth = map[engine.TaskID]string{}
	right := map[string]float64{}
	for _, split := range []engine.Split{engine.Select, engine.Test} {
		for _, task := range a.domain.Tasks(split) {
			options := a.options(task)
			for _, option := range options {
				result, err := benchtest.Play(a.domain, task, a.h0, func([]kit.Message) string { return a.write(option) })
				if err != nil {
					t.Fatal(err)
				}
				if result.Verdict.Reward == 1 {
					a.truth[task.ID] = option
					if split == engine.Test {
						right[option] += 1 / float64(len(a.domain.Test))
					}
				}
			}
			if a.truth[task.ID] == "" {
				t.Fatalf("%s: no option answers %q", a.domain.Name, task.Input)
			}
			if split == engine.Test {
				a.chance += 1 / float64(len(options)) / float64(len(a.domain.Test))
			}
		}
	}
	for _, share := range right {
		a.chance = max(a.chance, share)
	}
}

// score plays tasks through the engine's own sessions and pool, with a harness in native
// code and a function as the model.
func (a *arena) score(t *testing.T, tasks []engine.Task, run func(engine.Task) benchtest.Harness, model func(engine.Task) benchtest.Model) (engine.Score, []*engine.Trajectory) {
	t.Helper()
	var score []*engine.Trajectory
	for _, task := range tasks {
		harness := run(task)
		pool := engine.Pool{Domain: a.domain, Policy: &scribe{model: model(task)}, Sampling: engine.Defaults().Sampling,
			Admission: schedule.New(schedule.Limits{Rollouts: 1})}
		program := enginetest.Func(func(ctx context.Context, s engine.Start, host engine.Host) error {
			return native(ctx, s, host, harness)
		})
		ts, err := pool.Rollouts(t.Context(), []engine.Job{{Program: program, Harness: "h", Task: task}})
		if err != nil {
			t.Fatal(err)
		}
		score = append(score, ts...)
	}
	return engine.NewScore(tasks, score), score
}

// native runs a harness against the engine's session, as the sandbox would.
func native(ctx context.Context, s engine.Start, host engine.Host, run benchtest.Harness) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &engine.HarnessError{Panic: true, Text: fmt.Sprint(p)}
		}
	}()
	start := kit.Start{Task: kit.Task{Domain: s.Domain, Input: s.Input},
		Budget: kit.Budget{Tokens: s.Budget.Tokens, Turns: s.Budget.Turns, Tools: s.Budget.Tools}}
	for _, tool := range s.Tools {
		start.Tools = append(start.Tools, kit.ToolSpec(tool))
	}
	if err := run(kit.NewSession(start, through{ctx, host})); err != nil {
		return &engine.HarnessError{Text: err.Error()}
	}
	return nil
}

// through is the session as the kit sees it.
type through struct {
	ctx  context.Context
	host engine.Host
}

func (h through) Generate(messages []kit.Message, o kit.Options) ([]kit.Reply, error) {
	var in []engine.Message
	for _, m := range messages {
		in = append(in, engine.Message(m))
	}
	replies, err := h.host.Generate(h.ctx, in, engine.GenerateOptions(o))
	var out []kit.Reply
	for _, r := range replies {
		out = append(out, kit.Reply{Handle: r.Handle, Text: r.Text, Stop: string(r.Stop), Tokens: r.Tokens})
	}
	return out, toKit(err)
}

func (h through) Tool(name, args string) (string, error) {
	result, err := h.host.Tool(h.ctx, name, args)
	return result, toKit(err)
}

func (h through) Note(n kit.Note) error { return toKit(h.host.Note(h.ctx, engine.Note(n))) }

func toKit(err error) error {
	for from, to := range map[error]error{engine.ErrBudget: kit.ErrBudget, engine.ErrTool: kit.ErrTool, engine.ErrContext: kit.ErrContext} {
		if errors.Is(err, from) {
			return to
		}
	}
	return err
}

// scribe is a policy that writes what a function says; a text is one token.
type scribe struct {
	model benchtest.Model
	mu    sync.Mutex
	texts []kit.Message
}

func (s *scribe) intern(m kit.Message) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, m)
	return int32(len(s.texts) - 1)
}

func (s *scribe) Encode(turns []engine.Turn) (ids []int32, err error) {
	for _, turn := range turns {
		ids = append(ids, s.intern(kit.Message{Role: turn.Role, Content: turn.Content}))
	}
	return ids, nil
}

func (s *scribe) Generate(_ context.Context, r engine.Request) (engine.Completion, error) {
	var messages []kit.Message
	for _, id := range r.Prompt {
		messages = append(messages, s.texts[id])
	}
	text := s.model(messages)
	return engine.Completion{Text: text, Sampled: []int32{s.intern(kit.Message{Role: kit.Assistant, Content: text})},
		LogProbs: []float32{-1}, Stop: engine.StopEnd, Weights: "w"}, nil
}

func (s *scribe) Weights() engine.WeightsID { return "w" }
