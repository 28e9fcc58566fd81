package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// native is a kit.Host over an engine.Host: what the wall does, without the wall.
type native struct{ host engine.Host }

func (n native) Generate(messages []kit.Message, o kit.Options) ([]kit.Reply, error) {
	var in []engine.Message
	for _, m := range messages {
		in = append(in, engine.Message(m))
	}
	replies, err := n.host.Generate(context.Background(), in, engine.GenerateOptions{Samples: o.Samples, MaxTokens: o.MaxTokens, Tools: o.Tools})
	if err != nil {
		return nil, toKit(err)
	}
	var out []kit.Reply
	for _, r := range replies {
		out = append(out, kit.Reply{Handle: r.Handle, Text: r.Text, Stop: string(r.Stop), Tokens: r.Tokens})
	}
	return out, nil
}

func (n native) Tool(name, args string) (string, error) {
	text, err := n.host.Tool(context.Background(), name, args)
	return text, toKit(err)
}

func (n native) Note(note kit.Note) error {
	return toKit(n.host.Note(context.Background(), engine.Note{Log: note.Log, Submit: note.Submit}))
}

// pairs are the errors that cross the wall: the engine's name and the kit's.
var pairs = []struct{ engine, kit error }{
	{engine.ErrBudget, kit.ErrBudget}, {engine.ErrTool, kit.ErrTool}, {engine.ErrContext, kit.ErrContext},
}

func toKit(err error) error {
	for _, p := range pairs {
		if errors.Is(err, p.engine) {
			if err == p.engine {
				return p.kit
			}
			return fmt.Errorf("%w: %w", p.kit, err)
		}
	}
	return err
}

// recorder is a script that writes down everything a harness asks for.
type recorder struct {
	script
	asked []string
}

func (r *recorder) Generate(ctx context.Context, m []engine.Message, o engine.GenerateOptions) ([]engine.Reply, error) {
	r.asked = append(r.asked, fmt.Sprintf("generate %+v %+v", m, o))
	return r.script.Generate(ctx, m, o)
}

func (r *recorder) Tool(ctx context.Context, name, args string) (string, error) {
	r.asked = append(r.asked, fmt.Sprintf("tool %q %q", name, args))
	return r.script.Tool(ctx, name, args)
}

func (r *recorder) Note(_ context.Context, n engine.Note) error {
	r.asked = append(r.asked, fmt.Sprintf("note %+v", n))
	return nil
}

// contract is harness bodies of Run, once as Go and once as source: the same text twice
// would drift, so the source is what counts and the Go below must ask for the same.
var contract = []struct {
	name   string
	source string
	native func(s *kit.Session) error
	host   func() script
	want   error // what Run must return, by errors.Is; nil = success
}{
	{name: "task, tools and budget arrive", source: `
func Run(s *kit.Session) error {
	text := s.Task().Domain + "/" + s.Task().Input + "/" + s.Tools()[0].Name + "/" + s.Tools()[0].Schema
	if s.Remaining().Tokens == 11 && s.Remaining().Turns == 5 && s.Remaining().Tools == 3 {
		text = text + " budget"
	}
	return s.Log(text)
}`, native: func(s *kit.Session) error {
		text := s.Task().Domain + "/" + s.Task().Input + "/" + s.Tools()[0].Name + "/" + s.Tools()[0].Schema
		if s.Remaining().Tokens == 11 && s.Remaining().Turns == 5 && s.Remaining().Tools == 3 {
			text += " budget"
		}
		return s.Log(text)
	}},
	{name: "samples and submit", source: `
func Run(s *kit.Session) error {
	reply, err := s.Generate([]kit.Message{{Role: kit.User, Content: s.Task().Input}}, kit.Options{Samples: 3, MaxTokens: 9, Tools: true})
	if err != nil {
		return err
	}
	return s.Submit(reply.Others[1])
}`, native: func(s *kit.Session) error {
		reply, err := s.Generate([]kit.Message{{Role: kit.User, Content: s.Task().Input}}, kit.Options{Samples: 3, MaxTokens: 9, Tools: true})
		if err != nil {
			return err
		}
		return s.Submit(reply.Others[1])
	}, host: func() script {
		return script{generate: func(_ []engine.Message, o engine.GenerateOptions) (list []engine.Reply, _ error) {
			for n := range o.Samples {
				list = append(list, engine.Reply{Handle: n + 1, Text: strings.Repeat("x", n), Stop: engine.StopLength, Tokens: n})
			}
			return list, nil
		}}
	}},
	{name: "text of any bytes", source: `
func Run(s *kit.Session) error {
	text, err := s.Tool("t\x00\xff", "\xc3\x28 ü \u2028")
	if err != nil {
		return err
	}
	return s.Log(text + text)
}`, native: func(s *kit.Session) error {
		text, err := s.Tool("t\x00\xff", "\xc3\x28 ü \u2028")
		if err != nil {
			return err
		}
		return s.Log(text + text)
	}},
	{name: "an answer beyond the buffer", source: `
func Run(s *kit.Session) error {
	text, err := s.Tool("big", "")
	if err != nil {
		return err
	}
	return s.Log(text[len(text)-5:])
}`, native: func(s *kit.Session) error {
		text, err := s.Tool("big", "")
		if err != nil {
			return err
		}
		return s.Log(text[len(text)-5:])
	}, host: func() script {
		return script{tool: func(_, _ string) (string, error) { return strings.Repeat("a", 3<<20) + "end", nil }}
	}},
	{name: "budget used up, passed on", source: `
func Run(s *kit.Session) error {
	for {
		if _, err := s.Tool("t", ""); err != nil {
			return err
		}
	}
}`, native: func(s *kit.Session) error {
		for {
			if _, err := s.Tool("t", ""); err != nil {
				return err
			}
		}
	}, host: func() script { return failing(3, engine.ErrBudget) }, want: engine.ErrBudget},
	{name: "bad context, seen and answered", source: `
func Run(s *kit.Session) error {
	_, err := s.Tool("t", "")
	if errors.Is(err, kit.ErrContext) && !errors.Is(err, kit.ErrTool) {
		return s.Log("seen: " + err.Error())
	}
	return err
}`, native: func(s *kit.Session) error {
		_, err := s.Tool("t", "")
		if errors.Is(err, kit.ErrContext) && !errors.Is(err, kit.ErrTool) {
			return s.Log("seen: " + err.Error())
		}
		return err
	}, host: func() script { return failing(0, engine.ErrContext) }},
	{name: "bad tool call, wrapped and with a text", source: `
func Run(s *kit.Session) error {
	if _, err := s.Tool("t", ""); err != nil {
		return fmt.Errorf("search: %w", err)
	}
	return nil
}`, native: func(s *kit.Session) error {
		if _, err := s.Tool("t", ""); err != nil {
			return fmt.Errorf("search: %w", err)
		}
		return nil
	}, host: func() script { return failing(0, fmt.Errorf("%w: no tool t", engine.ErrTool)) }, want: engine.ErrTool},
}

func failing(after int, err error) script {
	n := 0
	return script{tool: func(_, _ string) (string, error) {
		if n++; n > after {
			return "", err
		}
		return "ok", nil
	}}
}

func contractSource(body string) string {
	head := "package harness\n\nimport (\n"
	for _, path := range []string{"errors", "fmt", "github.com/seed-7c27e6b8/whale/harnesses/kit"} {
		if strings.Contains(body, path[strings.LastIndex(path, "/")+1:]+".") {
			head += "\t\"" + path + "\"\n"
		}
	}
	return head + ")\n" + body + "\n"
}

// TestContract: a harness asks for the same and ends in the same way natively and in the
// sandbox, and copied memories make no difference.
func TestContract(t *testing.T) {
	boxes := map[string]*Sandbox{"forking": open(t, Config{Workers: 1}), "copying": open(t, Config{Workers: 1, Copying: true})}
	if _, err := exec.LookPath("go"); err == nil {
		boxes["compiled"] = open(t, Config{Workers: 1, Engine: Compile})
	}
	start := engine.Start{Domain: "lookup", Input: "who?", Budget: engine.Budget{Tokens: 11, Turns: 5, Tools: 3},
		Tools: []engine.ToolSpec{{Name: "search", Description: "finds", Schema: "{}"}}}
	for _, c := range contract {
		newHost := func() *recorder {
			if c.host == nil {
				return &recorder{}
			}
			return &recorder{script: c.host()}
		}
		reference := newHost()
		nativeStart := kit.Start{Task: kit.Task{Domain: start.Domain, Input: start.Input},
			Tools:  []kit.ToolSpec{kit.ToolSpec(start.Tools[0])},
			Budget: kit.Budget{Tokens: start.Budget.Tokens, Turns: start.Budget.Turns, Tools: start.Budget.Tools}}
		err := c.native(kit.NewSession(nativeStart, native{reference}))
		for _, p := range pairs {
			if errors.Is(err, p.kit) != (c.want == p.engine) {
				t.Errorf("%s: natively: %v, want %v", c.name, err, c.want)
			}
		}
		for name, box := range boxes {
			program := load(t, box, contractSource(c.source))
			for round := range 3 {
				host := newHost()
				_, err := program.Run(context.Background(), start, host)
				if !errors.Is(err, c.want) {
					t.Errorf("%s, %s: error %v, want %v", c.name, name, err, c.want)
				}
				if !reflect.DeepEqual(host.asked, reference.asked) {
					t.Errorf("%s, %s, round %d: asked\n%.400q\nnatively\n%.400q", c.name, name, round, host.asked, reference.asked)
				}
			}
		}
	}
}

// TestNothingSurvives: a harness that leaves a trace wherever it can (globals, heap, caches,
// chance) finds none of them in the next run, and draws the same numbers again; by both engines.
func TestNothingSurvives(t *testing.T) {
	const source = `package harness

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

type box struct{ values []string }

var (
	count int
	kept  = map[string]int{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
	heap  = &box{}
	last  *kit.Session
	made  = map[string]*regexp.Regexp{}
	next  func() int
)

func Run(s *kit.Session) error {
	count++
	kept[fmt.Sprint("run ", count)] = count
	heap.values = append(heap.values, strings.Repeat("x", 1000))
	made["p"+fmt.Sprint(len(made))] = regexp.MustCompile("a+b")
	if next == nil {
		n := 0
		next = func() int { n = n + 1; return n }
	}
	order := ""
	for k := range kept {
		order = order + k + " "
	}
	first := last == nil
	last = s
	pointer := fmt.Sprintf("%p", heap)
	return s.Log(fmt.Sprint(count, len(kept), len(heap.values), len(made), next(), first, order, pointer))
}
`
	configs := map[string]Config{"forking": {Workers: 1}, "copying": {Workers: 1, Copying: true}, "two workers": {Workers: 2}}
	if _, err := exec.LookPath("go"); err == nil {
		configs["compiled"], configs["compiled, copying"] = Config{Workers: 1, Engine: Compile}, Config{Workers: 1, Engine: Compile, Copying: true}
	}
	for name, config := range configs {
		if raced && !long() && config.Copying {
			continue
		}
		program := load(t, open(t, config), source)
		want := ""
		for range 5 {
			host := &script{}
			if _, err := program.Run(context.Background(), engine.Start{}, host); err != nil {
				t.Fatal(name, err)
			}
			if want == "" {
				want = host.notes[0].Log
			}
			if host.notes[0].Log != want || !strings.HasPrefix(want, "1 6 1 1 1 true") {
				t.Errorf("%s: %s\nfirst run: %s", name, host.notes[0].Log, want)
			}
		}
	}
}

// TestHostFault: an error of the host that a harness may not see ends the run at once and
// comes back as it is.
func TestHostFault(t *testing.T) {
	box := open(t, Config{Workers: 1})
	fault := errors.New("disk full")
	_, err := run(t, box, head+`func Run(s *kit.Session) error {
	for {
		s.Tool("t", "")
	}
}`, &script{tool: func(_, _ string) (string, error) { return "", fault }})
	if err != fault {
		t.Errorf("%v, want %v", err, fault)
	}
	if engine.Classify(err) != engine.Infra {
		t.Error("a fault of the host is not the harness's")
	}
}

// TestCancel: a run ends when its context does, whether it waits or computes, and the
// worker goes on.
func TestCancel(t *testing.T) {
	box := open(t, Config{Workers: 1})
	for name, source := range map[string]string{
		"computing": `func Run(s *kit.Session) error {
	s.Log("here")
	for {
	}
}`,
		"waiting": `func Run(s *kit.Session) error {
	s.Log("here")
	return s.Log("again")
}`} {
		ctx, cancel := context.WithCancel(context.Background())
		host := cancelling{cancel: cancel}
		_, err := load(t, box, head+source).Run(ctx, engine.Start{}, &host)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := run(t, box, head+`func Run(s *kit.Session) error { return nil }`, &script{}); err != nil {
		t.Error(err)
	}
}

// cancelling cancels the run's context at its first note.
type cancelling struct {
	script
	cancel func()
}

func (c *cancelling) Note(ctx context.Context, _ engine.Note) error {
	c.cancel()
	return ctx.Err()
}
