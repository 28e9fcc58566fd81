package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

const source = "package harness\n\nfunc Run(s *kit.Session) error { return nil }\n"

// script is a model that replies one after the other, the last again and again, and keeps
// what it was told.
type script struct {
	replies []Reply
	errs    map[int]error // by the number of the attempt, from 1
	told    []Input
	tries   int
	at      int
	opening Opening
}

func (s *script) Open(o Opening) Chat { s.opening, s.at = o, 0; return s }

func (s *script) Say(ctx context.Context, in Input) (Reply, error) {
	if s.tries++; s.errs[s.tries] != nil {
		return Reply{}, s.errs[s.tries]
	}
	if err := ctx.Err(); err != nil {
		return Reply{}, err
	}
	s.told = append(s.told, in)
	r := s.replies[min(s.at, len(s.replies)-1)]
	s.at++
	return r, nil
}

// stalled never replies.
type stalled struct{}

func (stalled) Open(Opening) Chat { return stalled{} }
func (stalled) Say(ctx context.Context, _ Input) (Reply, error) {
	<-ctx.Done()
	return Reply{}, ctx.Err()
}

func call(name string, args any) Call {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return Call{ID: "c1", Name: name, Args: string(text)}
}

func write(file, content string) Reply {
	return Reply{Calls: []Call{call("Write", map[string]string{"file_path": file, "content": content})}, Usage: Usage{Input: 100, Output: 10}, Model: "m"}
}

var done = Reply{Text: "done", Usage: Usage{Input: 100, Output: 10}, Model: "m"}

// run is a small run folder and the brief that goes with it.
func run(t *testing.T) engine.Brief {
	t.Helper()
	h := engine.NewHarness(source, engine.Meta{})
	folder := t.TempDir()
	for name, text := range map[string]string{
		"journal.jsonl": "a secret of the test split\n", "harnesses/" + string(h.ID) + "/harness.go": source, "weights/w1/model": "w",
		"accepted.json": "{}", "evolution.md": "# Search so far\n", "cycles/01/iteration-01/results.jsonl": "{\"reward\":0}\n{\"reward\":1}\n",
		"cycles/01/iteration-01/blob.bin": "\xff\xfe", "proposals/cycle-01-iteration-01-try-1/out/1/harness.go": "old\n",
	} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return engine.Brief{Domain: "lookup", Skill: "advice", Cycle: 1, Iteration: 2, Slots: 2, Folder: folder, Incumbent: h.ID,
		Entries: []engine.Entry{{Harness: h, Accepted: true}}}
}

func proposer(m Model) *Proposer {
	return &Proposer{Name: "fake", Model: m, Pause: func(context.Context, time.Duration) error { return nil }}
}

func transcript(t *testing.T, b engine.Brief) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.Folder, desk.Proposals, "cycle-01-iteration-02-try-1", "transcript.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPropose(t *testing.T) {
	busy := &ServiceError{Status: 529, Err: errors.New("overloaded")}
	for name, c := range map[string]struct {
		replies []Reply
		errs    map[int]error
		change  func(*Proposer)
		want    []string // sources
		cause   error    // when there is none
		turns   int      // that the model was asked
	}{
		"writes both slots":    {[]Reply{write("out/1/harness.go", "one"), write("out/2/harness.go", "two"), done}, nil, nil, []string{"one", "two"}, nil, 3},
		"without metadata":     {[]Reply{write("./out/2/harness.go", "two"), done}, nil, nil, []string{"two"}, nil, 2},
		"outside its slots":    {[]Reply{write("harnesses/x/harness.go", "x"), write("out/3/harness.go", "x"), write("out/1/../../../x/harness.go", "x"), write("/etc/x", "x"), done}, nil, nil, nil, ErrNothing, 7},
		"nothing":              {[]Reply{done}, nil, nil, nil, ErrNothing, 3},
		"nothing, then it is":  {[]Reply{done, write("out/1/harness.go", "one"), done}, nil, nil, []string{"one"}, nil, 3},
		"loops":                {[]Reply{{Calls: []Call{call("Glob", map[string]string{"pattern": "*"})}}}, nil, nil, nil, ErrLoop, 6},
		"loops with variation": {variations(100), nil, func(p *Proposer) { p.Turns = 20 }, nil, ErrLoop, 20},
		"loops, but wrote":     {append([]Reply{write("out/1/harness.go", "one")}, variations(100)...), nil, func(p *Proposer) { p.Turns = 20 }, []string{"one"}, nil, 20},
		"over its tokens":      {variations(100), nil, func(p *Proposer) { p.Budget.Tokens = 1000 }, nil, engine.ErrSpent, 10},
		"over its dollars":     {variations(100), nil, func(p *Proposer) { p.Budget.Dollars, p.Price = .001, Price{Input: 1, Output: 1} }, nil, engine.ErrSpent, 10},
		"cut":                  {[]Reply{{Text: "so", Cut: true}, write("out/1/harness.go", "one"), done}, nil, nil, []string{"one"}, nil, 3},
		"busy at first":        {[]Reply{write("out/1/harness.go", "one"), done}, map[int]error{1: busy, 2: busy, 4: busy}, nil, []string{"one"}, nil, 2},
		"busy for good":        {[]Reply{done}, map[int]error{1: busy, 2: busy, 3: busy, 4: busy, 5: busy, 6: busy}, nil, nil, ErrService, 0},
		"refused":              {[]Reply{done}, map[int]error{1: &ServiceError{Status: 401, Err: errors.New("bad key sk-12345678")}}, func(p *Proposer) { p.Hide = []string{"sk-12345678"} }, nil, ErrService, 0},
		"no tool, no JSON": {[]Reply{{Calls: []Call{{ID: "a", Name: "Bash", Args: "{}"}, {ID: "b", Name: "Read", Args: "{"}}}, write("out/1/harness.go", "one"), done},
			nil, nil, []string{"one"}, nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := run(t)
			s := &script{replies: c.replies, errs: c.errs}
			p := proposer(s)
			if c.change != nil {
				c.change(p)
			}
			made, err := p.Propose(context.Background(), b)
			var got []string
			for _, h := range made {
				got = append(got, h.Source)
				if h.Meta.Proposer != "fake" || h.Meta.Parents[0] != b.Incumbent {
					t.Errorf("%+v", h.Meta)
				}
			}
			if !slices.Equal(got, c.want) || !errors.Is(err, c.cause) || (err == nil) != (c.cause == nil) {
				t.Errorf("%q, %v", got, err)
			}
			if len(s.told) != c.turns {
				t.Errorf("asked %d times", len(s.told))
			}
			if err != nil && (strings.Contains(err.Error(), "sk-") || strings.Contains(err.Error(), "\n")) {
				t.Error(err)
			}
			if text := transcript(t, b); strings.Contains(text, "sk-") || c.turns > 0 && !strings.Contains(text, `"usage"`) {
				t.Error(text)
			}
			if there, err := os.ReadFile(filepath.Join(b.Folder, "harnesses", string(b.Incumbent), "harness.go")); err != nil || string(there) != source {
				t.Errorf("%s, %v", there, err)
			}
		})
	}
}

// variations are replies that each look somewhere else and lead nowhere.
func variations(n int) []Reply {
	var out []Reply
	for i := range n {
		out = append(out, Reply{Calls: []Call{call("Glob", map[string]string{"pattern": fmt.Sprint("x", i)})}, Usage: Usage{Input: 90, Output: 10}})
	}
	return out
}

func TestPropose_limits(t *testing.T) {
	p := proposer(stalled{})
	p.Patience, p.Setting, p.Address = time.Millisecond, "--wait", "http://there/v1"
	_, err := p.Propose(context.Background(), run(t))
	if want := "proposer fake at http://there/v1: the service failed: 6 attempts: no usable answer: no whole answer in 1ms; --wait sets how long is waited (see "; !errors.Is(err, ErrService) || !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("stalled: %v, want %s", err, want)
	}
	p.Limit, p.Pause = 50*time.Millisecond, func(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }
	if _, err := p.Propose(context.Background(), run(t)); !errors.Is(err, ErrTime) || !strings.Contains(err.Error(), "no whole answer in 1ms; --wait") {
		t.Errorf("stalled until time was up: %v", err)
	}
	p.Limit, p.Patience = time.Millisecond, time.Hour
	if _, err := p.Propose(context.Background(), run(t)); !errors.Is(err, ErrTime) {
		t.Errorf("out of time: %v", err)
	}
	p = proposer(&script{replies: []Reply{done}, errs: map[int]error{1: &ServiceError{Err: errors.New("connection refused")}}})
	p.Limit, p.Pause = 50*time.Millisecond, func(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }
	if _, err := p.Propose(context.Background(), run(t)); !errors.Is(err, ErrTime) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("out of time between attempts: %v", err)
	}
	p = proposer(stalled{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Propose(ctx, run(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if _, err := p.Propose(context.Background(), engine.Brief{}); !errors.Is(err, ErrNothing) {
		t.Errorf("no folder: %v", err)
	}
}

// What was spent is known to the next process, and booked in this one.
func TestPropose_budget(t *testing.T) {
	b := run(t)
	for i, want := range []error{nil, nil, engine.ErrSpent, engine.ErrSpent} {
		p := proposer(&script{replies: []Reply{write("out/1/harness.go", fmt.Sprint("x", i)), done}})
		p.Budget.Tokens, p.Price = 400, Price{Input: 1, Output: 10, Read: .1, Write: 1}
		_, err := p.Propose(context.Background(), b)
		if !errors.Is(err, want) {
			t.Errorf("%d: %v", i, err)
		}
		spent := p.Spent()
		spent.Seconds = 0
		if full := (engine.ProposalCost{Calls: 2, Input: 200, Output: 20, Dollars: .0004}); want == nil && spent != full || want != nil && spent.Calls != 0 {
			t.Errorf("%d: spent %+v", i, spent)
		}
	}
	p := proposer(&script{replies: []Reply{write("out/1/harness.go", "x"), done}})
	if _, err := p.Propose(context.Background(), run(t)); err != nil || p.Spent().Unpriced != 2 || p.Spent().Dollars != 0 {
		t.Errorf("%+v, %v", p.Spent(), err)
	}
}

// Waits double, never more than a minute, and follow what the service asks for.
func TestPropose_backoff(t *testing.T) {
	errs := map[int]error{1: &ServiceError{Err: errors.New("dropped")}, 2: &ServiceError{Status: 429, After: 7 * time.Second, Err: errors.New("slow down")},
		3: &ServiceError{Status: 500, Err: errors.New("oops")}, 4: &ServiceError{Status: 503, After: time.Hour, Err: errors.New("later")}}
	p := proposer(&script{replies: []Reply{write("out/1/harness.go", "x"), done}, errs: errs})
	var waits []time.Duration
	p.Pause = func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }
	if _, err := p.Propose(context.Background(), run(t)); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{time.Second, 7 * time.Second, 4 * time.Second, time.Minute}; !slices.Equal(waits, want) {
		t.Errorf("waited %v", waits)
	}
}

// The opening has the tools; the first message is the prompt of the desk.
func TestPropose_opening(t *testing.T) {
	s := &script{replies: []Reply{write("out/1/harness.go", "x"), done}}
	p := proposer(s)
	p.Budget.Tokens = 5000
	if _, err := p.Propose(context.Background(), run(t)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range s.opening.Tools {
		properties, required := tool.Schema()
		names = append(names, tool.Name)
		if len(properties) != len(tool.Arguments) || len(required) == 0 {
			t.Errorf("%+v", tool)
		}
	}
	if strings.Join(names, " ") != "Read Glob Grep Write Edit" || s.opening.MaxTokens != 5000 || !strings.Contains(s.told[0].Text, "advice") {
		t.Errorf("%+v, %q", s.opening, s.told[0].Text)
	}
}

func TestPrice(t *testing.T) {
	for model, want := range map[string]float64{"claude-opus-4-5": 5, "claude-opus-4-5-20251101": 5, "claude-opus-5": 5, "claude-opus-5-5": 0, "gpt-5": 1.25,
		"gpt-5-2025-08-07": 1.25, "gpt-5-mini": .25, "gpt-5-nano": 0, "nano": 0, "gpt-5.4-mini": .75} {
		if p, ok := PriceOf(model); p.Input != want || ok != (want > 0) {
			t.Errorf("%s: %+v, %v", model, p, ok)
		}
	}
	for text, want := range map[string]Price{"3,15": {3, 15, 3, 3}, " 3, 15, .3": {3, 15, .3, 3}, "3,15,.3,3.75": {3, 15, .3, 3.75}, "0,0": {}} {
		if p, err := ParsePrice(text); err != nil || p != want {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "3", "3,x", "3,-1", "1,2,3,4,5", "NaN,1", "3,Inf"} {
		if _, err := ParsePrice(text); err == nil {
			t.Errorf("%q is a price", text)
		}
	}
	p := Price{Input: 3, Output: 15, Read: .3, Write: 3.75}
	c := p.cost(Usage{Input: 1e6, Read: 2e6, Written: 3e6, Output: 4e6}, 2)
	if d := c.Dollars - (3 + .6 + 11.25 + 60); d > 1e-9 || d < -1e-9 || c.Input != 6e6 || c.Cached != 2e6 || c.Seconds != 2 {
		t.Errorf("%+v", c)
	}
}
