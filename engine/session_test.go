package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// echoPolicy renders turns as readable ids (one per byte, sampled ids as they are) and
// answers with texts from a script, by call.
type echoPolicy struct {
	mu     sync.Mutex
	script []string
	seeds  []uint64
	asked  []Request
	fail   error
	bad    func(*Completion)
}

func (p *echoPolicy) Encode(turns []Turn) ([]int32, error) {
	var ids []int32
	for _, t := range turns {
		ids = append(ids, -int32(t.Role[0]))
		if t.Sampled != nil {
			ids = append(ids, t.Sampled...)
			continue
		}
		for _, b := range []byte(t.Content) {
			ids = append(ids, int32(b))
		}
	}
	return ids, nil
}

func (p *echoPolicy) Generate(_ context.Context, r Request) (Completion, error) {
	if p.fail != nil {
		return Completion{}, p.fail
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.asked)
	p.asked, p.seeds = append(p.asked, r), append(p.seeds, r.Seed)
	c := Completion{Text: p.script[n%len(p.script)], Stop: StopEnd}
	for i := range min(r.MaxTokens, len(c.Text)) {
		c.Sampled = append(c.Sampled, 1000+int32(c.Text[i])) // unlike the encoding of text
		c.LogProbs = append(c.LogProbs, -1)
	}
	if len(c.Sampled) < len(c.Text) {
		c.Text, c.Stop = c.Text[:r.MaxTokens], StopLength
	}
	if p.bad != nil {
		p.bad(&c)
	}
	return c, nil
}

func (p *echoPolicy) Weights() WeightsID { return "w1" }

// toolEnv answers one tool; its behaviour is a function.
type toolEnv struct {
	f func(c ToolCall) (string, error)
}

func (e toolEnv) Tool(_ context.Context, c ToolCall) (string, error) { return e.f(c) }
func (e toolEnv) Record() string                                     { return "record" }

func open(p Policy, b Budget) *Session {
	env := toolEnv{func(c ToolCall) (string, error) { return "wrote " + c.Written, nil }}
	return NewSession(SessionSetup{Policy: p, Env: env, Seed: 7, Task: "t1", Budget: b,
		Sampling: Sampling{Temperature: 1, TopP: 1}})
}

var roomy = Budget{Tokens: 100, Turns: 10, Tools: 10, LogBytes: 100}

func ask(t *testing.T, s *Session, messages ...Message) Reply {
	t.Helper()
	r, err := s.Generate(t.Context(), messages, GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r[0]
}

// Only a message that repeats a reply word for word, as the assistant's, enters the
// context with the sampled ids.
func TestSession_handles(t *testing.T) {
	sampled := []int32{1000 + 'y', 1000 + 'e', 1000 + 's'}
	plain := []int32{'y', 'e', 's'}
	for name, c := range map[string]struct {
		message func(Reply) Message
		want    []int32
	}{
		"unchanged":      {func(r Reply) Message { return Message{"assistant", r.Text, r.Handle} }, sampled},
		"without handle": {func(r Reply) Message { return Message{"assistant", r.Text, 0} }, plain},
		"changed text":   {func(r Reply) Message { return Message{"assistant", "yes!", r.Handle} }, append(plain, '!')},
		"forged handle":  {func(r Reply) Message { return Message{"assistant", r.Text, r.Handle + 1} }, plain},
		"negative":       {func(r Reply) Message { return Message{"assistant", r.Text, -1} }, plain},
		"other role":     {func(r Reply) Message { return Message{"user", r.Text, r.Handle} }, plain},
	} {
		t.Run(name, func(t *testing.T) {
			p := &echoPolicy{script: []string{"yes"}}
			s := open(p, roomy)
			r := ask(t, s, Message{Role: "user", Content: "q"})
			ask(t, s, Message{Role: "user", Content: "q"}, c.message(r), Message{Role: "user", Content: "?"})
			got := p.asked[1].Prompt[3 : len(p.asked[1].Prompt)-2]
			if !slices.Equal(got, c.want) {
				t.Errorf("context has %v, want %v", got, c.want)
			}
		})
	}
}

func TestSession_contextErrors(t *testing.T) {
	user := Message{Role: "user", Content: "q"}
	for name, messages := range map[string][]Message{
		"empty":           nil,
		"unknown role":    {{Role: "narrator", Content: "q"}},
		"late system":     {user, {Role: "system", Content: "s"}, user},
		"assistant last":  {user, {Role: "assistant", Content: "a"}},
		"role not folded": {{Role: "User", Content: "q"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &echoPolicy{script: []string{"yes"}}
			s := open(p, roomy)
			if _, err := s.Generate(t.Context(), messages, GenerateOptions{}); !errors.Is(err, ErrContext) {
				t.Errorf("got %v, want ErrContext", err)
			}
			if len(p.asked) != 0 || len(s.events) != 0 {
				t.Error("a refused context left a trace")
			}
			ask(t, s, user) // and does no harm to the session
		})
	}
}

// offered is a policy that notes the tools that contexts offer, or has no place for them.
type offered struct {
	echoPolicy
	tools  [][]ToolSpec // of the turns of every context
	refuse bool
}

func (p *offered) Encode(turns []Turn) ([]int32, error) {
	for _, t := range turns {
		if len(t.Tools) > 0 && p.refuse {
			return nil, Fail(AtPolicy, "encode", fmt.Errorf("%w: no place for tools", ErrContext))
		}
		p.tools = append(p.tools, t.Tools)
	}
	return p.echoPolicy.Encode(turns)
}

// Ensure that the first turn offers the domain's tools when the harness asks for it, and
// that a policy without a place for them leaves the session as it was.
func TestSession_tools(t *testing.T) {
	tools := []ToolSpec{{Name: "add", Schema: "{}"}}
	messages := []Message{{Role: "system", Content: "s"}, {Role: "user", Content: "q"}}
	for _, refuse := range []bool{false, true} {
		p := &offered{echoPolicy: echoPolicy{script: []string{"yes"}}, refuse: refuse}
		s := NewSession(SessionSetup{Policy: p, Tools: tools, Task: "t1", Budget: roomy})
		_, err := s.Generate(t.Context(), messages, GenerateOptions{Tools: true})
		if refuse != errors.Is(err, ErrContext) || !refuse && (err != nil || len(p.tools) != 2 || !slices.Equal(p.tools[0], tools) || p.tools[1] != nil) {
			t.Errorf("refused %v: offered %v, %v", refuse, p.tools, err)
		}
		p.tools = nil
		if _, err := s.Generate(t.Context(), messages, GenerateOptions{}); err != nil || len(p.tools) != 2 || p.tools[0] != nil {
			t.Errorf("refused %v, then without: offered %v, %v", refuse, p.tools, err)
		}
	}
}

func TestSession_budgets(t *testing.T) {
	user := []Message{{Role: "user", Content: "q"}}
	call := func(o GenerateOptions) func(*Session) error {
		return func(s *Session) error { _, err := s.Generate(context.Background(), user, o); return err }
	}
	tool := func(s *Session) error { _, err := s.Tool(context.Background(), "t", "{}"); return err }
	note := func(s *Session) error { return s.Note(context.Background(), Note{Log: "12345"}) }
	for name, c := range map[string]struct {
		budget Budget
		do     func(*Session) error
		good   int // calls before ErrBudget
	}{
		"tokens":              {Budget{Tokens: 7, Turns: 10}, call(GenerateOptions{}), 3}, // 3 + 3 + 1
		"turns":               {Budget{Tokens: 100, Turns: 2}, call(GenerateOptions{}), 2},
		"two samples":         {Budget{Tokens: 7, Turns: 10}, call(GenerateOptions{Samples: 2}), 1}, // 2 x 3, then 1 token for 2
		"tools":               {Budget{Tokens: 1, Turns: 1, Tools: 2}, tool, 2},
		"log bytes":           {Budget{Tokens: 1, Turns: 1, LogBytes: 14}, note, 2},
		"tokens in own limit": {Budget{Tokens: 4, Turns: 10}, call(GenerateOptions{MaxTokens: 2}), 2},
		"tokens in call":      {Budget{Tokens: 4, CallTokens: 1, Turns: 10}, call(GenerateOptions{MaxTokens: 2}), 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(&echoPolicy{script: []string{"yes"}}, c.budget)
			for i := range c.good {
				if err := c.do(s); err != nil {
					t.Fatalf("call %d: %v", i, err)
				}
			}
			if err := c.do(s); !errors.Is(err, ErrBudget) {
				t.Fatalf("got %v, want ErrBudget", err)
			}
			for kind, f := range map[string]func(*Session) error{"generate": call(GenerateOptions{}), "tool": tool, "log": note} {
				if err := f(s); !errors.Is(err, ErrBudget) {
					t.Errorf("%s after the end: %v", kind, err)
				}
			}
			if s.left.Tokens < 0 || s.left.Turns < 0 || s.left.Tools < 0 || s.left.LogBytes < 0 {
				t.Errorf("overspent: %+v", s.left)
			}
		})
	}
}

func TestSession_samplesHaveOwnSeeds(t *testing.T) {
	b := &manySeeds{}
	s := open(b, roomy)
	replies, err := s.Generate(t.Context(), []Message{{Role: "user", Content: "q"}}, GenerateOptions{Samples: 5})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range replies {
		if want := fmt.Sprint(CallSeed(7, 0, i)); r.Text != want || r.Handle != i+1 {
			t.Errorf("sample %d: handle %d from seed %s, want %s", i, r.Handle, r.Text, want)
		}
	}
	if got := ask(t, s, Message{Role: "user", Content: "q"}).Text; got != fmt.Sprint(CallSeed(7, 1, 0)) {
		t.Errorf("second turn from seed %s", got)
	}
}

// manySeeds answers with its seed and is safe for concurrent use.
type manySeeds struct{ echoPolicy }

func (*manySeeds) Generate(_ context.Context, r Request) (Completion, error) {
	return Completion{Sampled: []int32{1}, LogProbs: []float32{-1}, Text: fmt.Sprint(r.Seed), Stop: StopEnd}, nil
}

// Events are in order, and a message is said once, unless it is there twice.
func TestSession_events(t *testing.T) {
	p := &echoPolicy{script: []string{"a", "b", "c"}}
	s := open(p, roomy)
	q := Message{Role: "user", Content: "q"}
	a := ask(t, s, Message{Role: "system", Content: "s"}, q)
	if _, err := s.Tool(t.Context(), "find", "{}"); err != nil {
		t.Fatal(err)
	}
	if err := s.Note(t.Context(), Note{Log: "hm"}); err != nil {
		t.Fatal(err)
	}
	b := ask(t, s, q, Message{"assistant", "a", a.Handle}, q) // system dropped, q twice
	ask(t, s, Message{Role: "system", Content: "s"}, q, Message{"assistant", "b (edited)", b.Handle}, q)
	if err := s.Note(t.Context(), Note{Submit: b.Handle}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range s.events {
		switch {
		case e.Said != nil:
			got = append(got, e.Said.Role+":"+e.Said.Content)
		case e.Call != nil:
			got = append(got, "call:"+e.Call.Text)
		case e.Tool != nil:
			got = append(got, "tool:"+e.Tool.Result)
		default:
			got = append(got, "log:"+e.Log)
		}
	}
	want := "system:s user:q call:a tool:wrote a log:hm user:q call:b assistant:b (edited) call:c"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	if s.submitted != b.Handle {
		t.Errorf("submitted %d, want %d", s.submitted, b.Handle)
	}
}

func TestSession_submit(t *testing.T) {
	p := &echoPolicy{script: []string{"x", "y", "z"}}
	s := open(p, Budget{Tokens: 3, Turns: 1, Tools: 2})
	if err := s.Note(t.Context(), Note{Submit: 1}); !errors.Is(err, ErrContext) {
		t.Errorf("a reply that does not exist yet: %v", err)
	}
	replies := &manySeeds{}
	s.policy = replies
	many, err := s.Generate(t.Context(), []Message{{Role: "user", Content: "q"}}, GenerateOptions{Samples: 3})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Tool(t.Context(), "t", ""); got != "wrote "+many[2].Text {
		t.Errorf("tool saw %q, want the last sample", got)
	}
	if err := s.Note(t.Context(), Note{Submit: many[1].Handle}); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Tool(t.Context(), "t", ""); got != "wrote "+many[1].Text {
		t.Errorf("tool saw %q, want the submitted sample", got)
	}
	if _, err := s.Tool(t.Context(), "t", ""); !errors.Is(err, ErrBudget) {
		t.Fatal("budget should be used up")
	}
	if err := s.Note(t.Context(), Note{Submit: many[0].Handle}); err != nil {
		t.Errorf("choosing an answer after the end of the budget: %v", err)
	}
}

// What was submitted before the model's last call is not what the model said last: a tool
// that plays the model's moves must not see it.
func TestSession_submittedBefore(t *testing.T) {
	s := open(&echoPolicy{script: []string{"x", "y"}}, Budget{Tokens: 9, Turns: 2, Tools: 1})
	first := ask(t, s, Message{Role: "user", Content: "q"})
	if err := s.Note(t.Context(), Note{Submit: first.Handle}); err != nil {
		t.Fatal(err)
	}
	second := ask(t, s, Message{Role: "user", Content: "again"})
	if got, err := s.Tool(t.Context(), "t", ""); err != nil || got != "wrote "+second.Text {
		t.Errorf("tool saw %q (%v), want the reply to the last call", got, err)
	}
}

// A fault of the host ends the session, whatever the harness makes of it; a mistake in a
// tool call does not.
func TestSession_faults(t *testing.T) {
	broken := errors.New("disk on fire")
	env := func(f func(ToolCall) (string, error)) func(*Session) { return func(s *Session) { s.env = toolEnv{f} } }
	policy := func(p Policy) func(*Session) { return func(s *Session) { s.policy = p } }
	bad := func(f func(*Completion)) func(*Session) {
		return policy(&echoPolicy{script: []string{"yes"}, bad: f})
	}
	for name, c := range map[string]struct {
		breakIt func(*Session)
		tool    bool
		at      Boundary
	}{
		"policy fails":       {policy(&echoPolicy{fail: broken}), false, AtPolicy},
		"policy panics":      {policy(&echoPolicy{}), false, AtPolicy}, // empty script: division by zero
		"device under it":    {policy(&echoPolicy{fail: Fail(AtDevice, "gpu", broken)}), false, AtDevice},
		"too many tokens":    {bad(func(c *Completion) { c.Sampled = make([]int32, 500) }), false, AtPolicy},
		"no tokens":          {bad(func(c *Completion) { c.Sampled, c.LogProbs = nil, nil }), false, AtPolicy},
		"lost log-probs":     {bad(func(c *Completion) { c.LogProbs = c.LogProbs[1:] }), false, AtPolicy},
		"no stop reason":     {bad(func(c *Completion) { c.Stop = "" }), false, AtPolicy},
		"log-prob not a num": {bad(func(c *Completion) { c.LogProbs[0] /= 0 * c.LogProbs[0] }), false, AtPolicy},
		"tool fails":         {env(func(ToolCall) (string, error) { return "", broken }), true, AtTask},
		"tool panics":        {env(func(ToolCall) (string, error) { panic("no") }), true, AtTask},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(&echoPolicy{script: []string{"yes"}}, roomy)
			c.breakIt(s)
			var err error
			if c.tool {
				_, err = s.Tool(t.Context(), "t", "")
			} else {
				_, err = s.Generate(t.Context(), []Message{{Role: "user", Content: "q"}}, GenerateOptions{})
			}
			var f *Failure
			if !errors.As(err, &f) || f.Boundary != c.at {
				t.Fatalf("got %v, want a failure at %s", err, c.at)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
			if again := s.Note(t.Context(), Note{Log: "x"}); again != err {
				t.Errorf("later calls give %v", again)
			}
			if len(s.events) != 0 {
				t.Errorf("recorded %d events of a failed call", len(s.events))
			}
		})
	}
	s := open(&echoPolicy{script: []string{"yes"}}, roomy)
	s.env = toolEnv{func(ToolCall) (string, error) { return "", fmt.Errorf("%w: no such tool", ErrTool) }}
	if _, err := s.Tool(t.Context(), "t", ""); !errors.Is(err, ErrTool) || s.fault != nil {
		t.Errorf("a bad tool call: %v, fault %v", err, s.fault)
	}
	if !s.events[0].Tool.Failed {
		t.Error("a failed tool call is not marked")
	}
	ask(t, s, Message{Role: "user", Content: "q"})
}

func TestSession_cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := open(&echoPolicy{fail: context.Canceled}, roomy)
	cancel()
	if _, err := s.Generate(ctx, []Message{{Role: "user", Content: "q"}}, GenerateOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if s.fault != nil {
		t.Errorf("a cancelled context is no fault: %v", s.fault)
	}
}

// What is recorded survives JSON as it is.
func TestSession_invalidUTF8(t *testing.T) {
	p := &echoPolicy{script: []string{"a\xffb"}}
	s := open(p, roomy)
	r := ask(t, s, Message{Role: "user", Content: "q\xfe"})
	if r.Text != "a\uFFFDb" || s.events[0].Said.Content != "q\uFFFD" {
		t.Errorf("got %q and %q", r.Text, s.events[0].Said.Content)
	}
	ask(t, s, Message{Role: "user", Content: "q"}, Message{"assistant", r.Text, r.Handle}, Message{Role: "user", Content: "?"})
	if p.asked[1].Prompt[3] != 1000+'a' {
		t.Error("the handle of a repaired text was lost")
	}
}
