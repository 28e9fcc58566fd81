// Package lookup is the generated question domain: a closed world of invented people and
// towns, a search tool over one passage for each, and questions of one or two hops
// (spec/nano.md section 3.1). It needs no file and no network.
//
// What it may not know: models, harnesses (beyond handing on the source of h0), runs.
// What it does not cover: free names and free wording; a model that knows this world
// knows nothing else.
package lookup

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses"
)

// Name of the domain.
const Name = "lookup"

// NoResults is what the search tool says when no passage holds a word of the query.
const NoResults = "No results."

const (
	maxPassages = 5 // of one search

	twoHopShare = 0.4 // of the questions
	personShare = 0.7 // of the questions of either kind start at a person
)

// Options are the sizes of the splits; zero values mean the defaults.
type Options struct {
	Test   int // questions, default 80
	Select int // questions, default 64
	Train  int // questions, default and at most what the world has left at the same mix
}

// New builds the domain over the world of a seed. All splits ask about this one world
// and never share a question; each has 40 % two-hop questions and 70 % that start at a
// person, as far as questions last.
func New(seed uint64, o Options) (*engine.Domain, error) {
	if o.Test == 0 {
		o.Test = 80
	}
	if o.Select == 0 {
		o.Select = 64
	}
	source, skill, err := harnesses.Seed(Name)
	if err != nil {
		return nil, err
	}
	rng := bench.Rand(seed, "lookup world")
	w := newWorld(rng, size{people: 60, towns: 16, rivers: 8, regions: 5})
	pool := newPool(rng, w)
	live := &liveWorld{world: w, answers: map[engine.TaskID]string{}}
	d := &engine.Domain{
		Name:   Name,
		Tools:  []engine.ToolSpec{searchTool},
		Budget: engine.Budget{Tokens: 448, CallTokens: 28, Turns: 16, Tools: 16, LogBytes: 4096},
		World:  live,
		Seed:   source,
		Skill:  skill,
	}
	d.Test = live.tasks(seed, pool.take(o.Test))
	d.Select = live.tasks(seed, pool.take(o.Select))
	if len(d.Test) < o.Test || len(d.Select) < o.Select {
		return nil, engine.Fail(engine.AtTask, Name, fmt.Errorf("the world has %d questions in this mix, %d test and %d select wanted", len(d.Test)+len(d.Select), o.Test, o.Select))
	}
	rest := pool.mixed()
	if o.Train > 0 {
		rest = min(rest, o.Train)
	}
	d.Train = live.tasks(seed, pool.take(rest))
	return d, nil
}

var searchTool = engine.ToolSpec{
	Name:        "search",
	Description: "Finds the passages that fit a query best, one a line; \"" + NoResults + "\" when none fits.",
	Schema:      `{"type":"object","properties":{"query":{"type":"string"},"k":{"type":"string","description":"how many passages, 1 to 5"}},"required":["query"]}`,
}

// pool holds the questions that no split has taken yet: [hops-1][0 person, 1 town].
type pool struct{ left [2][2][]question }

// newPool lists every fair question of a world in random order.
func newPool(rng *rand.Rand, w *world) *pool {
	p := &pool{}
	for _, entity := range append(append([]string{}, w.people...), w.towns...) {
		start := 0
		if w.isTown(entity) {
			start = 1
		}
		for _, rel := range w.relationsOf(entity) {
			p.left[0][start] = append(p.left[0][start], w.ask(entity, rel))
		}
		for _, first := range w.bridgesOf(entity) {
			for _, second := range w.relationsOf(w.facts[entity][first]) {
				if q := w.ask(entity, first, second); q.fair() {
					p.left[1][start] = append(p.left[1][start], q)
				}
			}
		}
	}
	for hops := range p.left {
		for start := range p.left[hops] {
			list := p.left[hops][start]
			rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
	}
	return p
}

// mixed is how many questions can still be taken at the mix of hops.
func (p *pool) mixed() int {
	one := len(p.left[0][0]) + len(p.left[0][1])
	two := len(p.left[1][0]) + len(p.left[1][1])
	return int(min(float64(one)/(1-twoHopShare), float64(two)/twoHopShare))
}

// take removes n questions at the mix of hops and starts; where one start runs out the
// other fills up. The hops alternate evenly, so that any prefix has about the same mix.
func (p *pool) take(n int) []question {
	two := int(float64(n)*twoHopShare + 0.5)
	kinds := [2][]question{p.takeHops(0, n-two), p.takeHops(1, two)}
	var list []question
	for len(kinds[0])+len(kinds[1]) > 0 {
		kind := 0
		if len(kinds[1])*n > two*(len(kinds[0])+len(kinds[1])) || len(kinds[0]) == 0 {
			kind = 1
		}
		list = append(list, kinds[kind][0])
		kinds[kind] = kinds[kind][1:]
	}
	return list
}

func (p *pool) takeHops(hops, n int) []question {
	left := &p.left[hops]
	people := int(float64(n)*personShare + 0.5)
	towns := min(n-people, len(left[1]))
	people = min(n-towns, len(left[0]))
	var list []question
	for people+towns > 0 {
		start := 0
		if float64(towns) > (1-personShare)*float64(people+towns) || people == 0 {
			start = 1
		}
		list = append(list, left[start][0])
		left[start] = left[start][1:]
		if start == 0 {
			people--
		} else {
			towns--
		}
	}
	return list
}

// liveWorld is the engine.World: facts, search and the reference answers.
type liveWorld struct {
	*world
	answers map[engine.TaskID]string // written by New only
}

func (w *liveWorld) tasks(seed uint64, questions []question) []engine.Task {
	var list []engine.Task
	for _, q := range questions {
		id := bench.TaskID(Name, strconv.FormatUint(seed, 10), q.text)
		w.answers[id] = q.answer
		list = append(list, engine.Task{ID: id, Domain: Name, Input: q.text, Tags: []string{q.hops()}})
	}
	return list
}

// Start opens the search tool for one rollout.
func (w *liveWorld) Start(task engine.Task) (engine.Environment, error) {
	if _, ok := w.answers[task.ID]; !ok {
		return nil, engine.Fail(engine.AtTask, string(task.ID), fmt.Errorf("not a task of %s", Name))
	}
	return environment{w.world}, nil
}

// Verify compares the answer in the model's text with the fact, case-folded.
func (w *liveWorld) Verify(task engine.Task, t *engine.Trajectory) (engine.Verdict, error) {
	want, ok := w.answers[task.ID]
	if !ok {
		return engine.Verdict{}, engine.Fail(engine.AtVerifier, string(task.ID), fmt.Errorf("not a task of %s", Name))
	}
	return bench.Judge(t, want), nil
}

// environment serves searches; it has no state.
type environment struct{ *world }

// Tool runs `search`; its arguments are {"query": text, "k": number or its digits}.
func (e environment) Tool(_ context.Context, call engine.ToolCall) (string, error) {
	if call.Name != searchTool.Name {
		return "", fmt.Errorf("%w: no tool %q, there is search", engine.ErrTool, call.Name)
	}
	var args struct {
		Query string          `json:"query"`
		K     json.RawMessage `json:"k"`
	}
	if err := json.Unmarshal([]byte(call.Args), &args); err != nil {
		return "", fmt.Errorf("%w: arguments of search: %v", engine.ErrTool, err)
	}
	k := 1
	if len(args.K) > 0 {
		n, err := strconv.Atoi(strings.Trim(string(args.K), `"`))
		if err != nil || n < 1 {
			return "", fmt.Errorf("%w: search: k is %s, a number from 1 to %d is wanted", engine.ErrTool, args.K, maxPassages)
		}
		k = min(n, maxPassages)
	}
	return e.lookUp(args.Query, k), nil
}

// Record is empty: only what the model answers counts.
func (environment) Record() string { return "" }

// lookUp is the text of a search result.
func (w *world) lookUp(query string, k int) string {
	found := w.index.search(query, k)
	if len(found) == 0 {
		return NoResults
	}
	var lines []string
	for _, i := range found {
		lines = append(lines, w.passages[i])
	}
	return strings.Join(lines, "\n")
}
