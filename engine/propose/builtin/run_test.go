package builtin

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/traefik/yaegi/interp"

	"github.com/seed-7c27e6b8/whale/harnesses"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// script is a host whose model is a function from conversation to text and whose tool is
// a function from arguments to text.
type script struct {
	model     func(turn int, messages []kit.Message) string
	tool      func(name, args string) (string, error)
	calls     []string // what the model wrote
	used      []string // what the tools were asked
	said      []string // contents of the last conversation
	submitted int
}

func (h *script) Generate(messages []kit.Message, options kit.Options) ([]kit.Reply, error) {
	h.said = nil
	for _, m := range messages {
		h.said = append(h.said, m.Role+": "+m.Content)
	}
	var replies []kit.Reply
	for range max(1, options.Samples) {
		if len(h.calls) >= 40 {
			return nil, kit.ErrBudget
		}
		text := h.model(len(h.calls), messages)
		h.calls = append(h.calls, text)
		replies = append(replies, kit.Reply{Handle: len(h.calls), Text: text, Stop: kit.StopEnd, Tokens: 1})
	}
	return replies, nil
}

func (h *script) Tool(name, args string) (string, error) {
	h.used = append(h.used, name+" "+args)
	return h.tool(name, args)
}

func (h *script) Note(n kit.Note) error {
	if n.Submit != 0 {
		h.submitted = n.Submit
	}
	return nil
}

func value(v any) reflect.Value { return reflect.ValueOf(v) }

// symbols are what a harness under test may import.
var symbols = interp.Exports{
	"strings/strings": {
		"Contains": value(strings.Contains), "Fields": value(strings.Fields), "HasPrefix": value(strings.HasPrefix),
		"Index": value(strings.Index), "Join": value(strings.Join), "LastIndex": value(strings.LastIndex),
		"Split": value(strings.Split), "ToLower": value(strings.ToLower), "TrimSpace": value(strings.TrimSpace),
	},
	"strconv/strconv": {"Itoa": value(strconv.Itoa)},
	"errors/errors":   {"Is": value(errors.Is), "New": value(errors.New)},
	kitPath + "/kit": {
		"System": value(kit.System), "User": value(kit.User), "Assistant": value(kit.Assistant), "Tool": value(kit.Tool),
		"Args": value(kit.Args), "ErrBudget": value(kit.ErrBudget), "ErrTool": value(kit.ErrTool), "ErrContext": value(kit.ErrContext),
		"Message": value((*kit.Message)(nil)), "Options": value((*kit.Options)(nil)), "Reply": value((*kit.Reply)(nil)),
		"Session": value((*kit.Session)(nil)), "Task": value((*kit.Task)(nil)), "Budget": value((*kit.Budget)(nil)),
		"ToolSpec": value((*kit.ToolSpec)(nil)),
	},
}

// interpret runs a harness as the sandbox does, by interpretation.
func interpret(t testing.TB, source, input string, h *script) error {
	t.Helper()
	return load(t, source)(kit.NewSession(kit.Start{Task: kit.Task{Input: input}}, h))
}

// load evaluates a harness and returns its Run.
func load(t testing.TB, source string) func(*kit.Session) error {
	t.Helper()
	i := interp.New(interp.Options{})
	if err := i.Use(symbols); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Eval(source); err != nil {
		t.Fatalf("interpreter refuses: %v\n%s", err, source)
	}
	run, err := i.Eval("harness.Run")
	if err != nil {
		t.Fatal(err)
	}
	f, ok := run.Interface().(func(*kit.Session) error)
	if !ok {
		t.Fatalf("Run is a %s", run.Type())
	}
	return f
}

// compiler checks sources against the real packages; importing them is slow, so all
// tests share it.
var compiler = sync.OnceValue(func() types.Importer { return importer.ForCompiler(token.NewFileSet(), "source", nil) })

// compiles fails the test unless the Go type checker accepts a source.
func compiles(t testing.TB, source string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "harness.go", source, 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	conf := types.Config{Importer: compiler(), GoVersion: "go1.21"}
	if _, err := conf.Check("harness", fset, []*ast.File{file}, nil); err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
}

// seed returns a seed harness, read.
func seed(t testing.TB, domain string) *source {
	t.Helper()
	text, err := harnesses.Source(domain)
	if err != nil {
		t.Fatal(err)
	}
	return mustRead(t, text)
}

func mustRead(t testing.TB, text string) *source {
	t.Helper()
	c, err := read(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

// plain is a lookup harness in another style than the seeds: bare numbers, no texts, the
// whole flow in one function, no nudge, no place for a hint.
const plain = `package harness

import (
	"strings"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

func Run(session *kit.Session) error {
	talk := []kit.Message{{Role: kit.User, Content: session.Task().Input}}
	for round := 0; round < 2; round++ {
		out, err := session.Generate(talk, kit.Options{MaxTokens: 28})
		if err != nil {
			return err
		}
		talk = append(talk, out.Message())
		query := inside(out.Text, "search")
		if query == "" {
			return nil
		}
		found, err := session.Tool("search", kit.Args("query", query, "k", "1"))
		if err != nil {
			return err
		}
		talk = append(talk, kit.Message{Role: kit.Tool, Content: head(found, 16)})
	}
	return nil
}

func inside(text, tag string) string {
	from := strings.Index(text, "<"+tag+">")
	to := strings.Index(text, "</"+tag+">")
	if from < 0 || to < from {
		return ""
	}
	return text[from+len(tag)+2 : to]
}

func head(text string, n int) string {
	words := strings.Fields(text)
	if len(words) > n {
		words = words[:n]
	}
	return strings.Join(words, " ")
}
`

// all are the sources that every operator must leave in working order.
func all(t testing.TB) map[string]*source {
	return map[string]*source{
		"lookup": seed(t, "lookup"), "sums": seed(t, "sums"), "chess": seed(t, "chess"), "plain": mustRead(t, plain),
	}
}

var names = []string{"lookup", "sums", "chess", "plain"}

// skillOf is a SKILL.md with the markup of a domain.
func skillOf(t testing.TB, domain string) string {
	t.Helper()
	if domain == "plain" {
		domain = "lookup"
	}
	text, err := harnesses.Skill(domain)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// word is a text of n words: w1 w2 ...
func wordsOf(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("w%d", i+1))
	}
	return strings.Join(list, " ")
}
