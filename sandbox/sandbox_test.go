package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit/kittest"
)

func TestMain(m *testing.M) {
	WorkerMain()
	code := m.Run()
	for config, box := range shared {
		if err := box.Close(); err != nil {
			fmt.Fprintln(os.Stderr, config, err)
			code = 1
		}
	}
	os.Exit(code)
}

// shared are the sandboxes of this test run: starting one takes longer than most tests.
var shared = map[Config]*Sandbox{}

// script is an engine.Host that replies by rule.
type script struct {
	generate func(messages []engine.Message, options engine.GenerateOptions) ([]engine.Reply, error)
	tool     func(name, args string) (string, error)
	notes    []engine.Note
	turns    int
}

func (s *script) Generate(_ context.Context, m []engine.Message, o engine.GenerateOptions) ([]engine.Reply, error) {
	s.turns++
	if s.generate == nil {
		last := m[len(m)-1].Content
		return []engine.Reply{{Handle: s.turns, Text: fmt.Sprintf("turn %d answers %q: search(%d)", s.turns, last, s.turns), Stop: engine.StopEnd, Tokens: 7}}, nil
	}
	return s.generate(m, o)
}

func (s *script) Tool(_ context.Context, name, args string) (string, error) {
	if s.tool == nil {
		return name + " says " + args, nil
	}
	return s.tool(name, args)
}

func (s *script) Note(_ context.Context, n engine.Note) error {
	s.notes = append(s.notes, n)
	return nil
}

// cacheDir is shared by all tests of this package, so that the guest is compiled once.
func cacheDir() string { return filepath.Join(os.TempDir(), "whale-test-wasm") }

// open gives the sandbox of a configuration, which other tests have used and will use.
func open(tb testing.TB, config Config) *Sandbox {
	tb.Helper()
	if shared[config] == nil {
		shared[config] = openOwn(tb, config)
	}
	return shared[config]
}

// openOwn gives a sandbox that nobody else uses; the caller closes it.
func openOwn(tb testing.TB, config Config) *Sandbox {
	tb.Helper()
	config.CacheDir = cacheDir()
	box, err := Open(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	return box
}

func load(tb testing.TB, box *Sandbox, source string) engine.Program {
	tb.Helper()
	p, err := box.Load(context.Background(), engine.NewHarness(source, engine.Meta{}))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// run loads a source and runs it once.
func run(tb testing.TB, box *Sandbox, source string, host engine.Host) (engine.GuestUse, error) {
	tb.Helper()
	return load(tb, box, source).Run(context.Background(), engine.Start{Domain: "d", Input: "q"}, host)
}

const head = `package harness

import "github.com/seed-7c27e6b8/whale/harnesses/kit"

`

const fourTurns = kittest.FourTurns
