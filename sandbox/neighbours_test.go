package sandbox

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

// deaf are guests that no interrupt reaches: they end with their worker.
var deaf = []struct{ name, by, body string }{
	{"interpreted, in one library call", Interpret, deafCall},
	{"compiled, endless", Compile, `func Run(s *kit.Session) error {
	s.Log("here")
	for {
	}
}`},
	{"compiled, in one library call", Compile, deafCall},
}

const deafCall = `func Run(s *kit.Session) error {
	slow := regexp.MustCompile(strings.Repeat("a?", 500) + "$")
	s.Log("here")
	slow.MatchString(strings.Repeat("a", 8<<20) + "b")
	return nil
}`

// TestNeighbours: a guest that no interrupt reaches is over time when the grace has passed;
// its worker is gone, and the runs on the worker beside it all end well meanwhile.
func TestNeighbours(t *testing.T) {
	limits := testLimits
	limits.Grace = 100 * time.Millisecond
	boxes := map[string]*Sandbox{Interpret: openOwn(t, Config{Workers: 2, Engine: Interpret, Limits: limits})}
	if _, err := exec.LookPath("go"); err == nil {
		boxes[Compile] = openOwn(t, Config{Workers: 2, Engine: Compile, Limits: limits})
	}
	for _, d := range deaf {
		box := boxes[d.by]
		if box == nil || raced && !long() && d.body == deafCall && d.by == Compile {
			continue // to this process it is the one before
		}
		guest := load(t, box, hostileSource(d.body)).(*program)
		waiting, finish, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := guest.Run(context.Background(), engine.Start{}, &blocking{waiting, finish})
			ended <- err
		}()
		<-waiting
		// The worker of the guest has a session, so this goes to the other.
		neighbour := load(t, box, fourTurns)
		own, beside := guest.posts()[0].peek(), guest.posts()[1].peek()
		if beside == nil || own.load(guest.harness.ID, 0) != 1 {
			t.Fatalf("%s: not on two workers", d.name)
		}
		close(finish)
		err := besides(t, d.name, neighbour, ended)
		var limit *engine.LimitError
		if !errors.As(err, &limit) || limit.Kind != engine.LimitTime || time.Duration(limit.Value-limit.Limit) > 200*time.Millisecond {
			t.Errorf("%s: %v", d.name, err)
		}
		<-own.dead
		if guest.posts()[1].peek() != beside {
			t.Errorf("%s: the other worker is gone", d.name)
		}
		if err := guest.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, box := range boxes {
		closeBox(t, box)
	}
}

// TestBothWorkers: a program that has run as often as its loading costs is loaded by the next
// worker as soon as it would wait for the first.
func TestBothWorkers(t *testing.T) {
	box := openOwn(t, Config{Workers: 2, Engine: Interpret})
	defer closeBox(t, box)
	p := load(t, box, fourTurns).(*program)
	for range loadingCosts {
		if _, err := p.Run(context.Background(), engine.Start{Input: "q"}, &script{}); err != nil {
			t.Fatal(err)
		}
	}
	if box.workers[1].peek() != nil {
		t.Error("runs one after the other went to two workers")
	}
	waiting, finish, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := p.Run(context.Background(), engine.Start{Input: "q"}, &script{
			generate: func([]engine.Message, engine.GenerateOptions) ([]engine.Reply, error) {
				close(waiting)
				<-finish
				return []engine.Reply{{Handle: 1, Text: "nothing to call", Stop: engine.StopEnd, Tokens: 1}}, nil
			}})
		ended <- err
	}()
	<-waiting
	if _, err := p.Run(context.Background(), engine.Start{Input: "q"}, &script{}); err != nil {
		t.Error(err)
	}
	const absent = 100
	for n, w := range box.workers {
		if w.load(p.harness.ID, absent) >= absent {
			t.Errorf("worker %d has no image", n)
		}
	}
	close(finish)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// besides runs a program until the guest beside it has ended, and gives that one's error.
func besides(t *testing.T, name string, neighbour engine.Program, ended <-chan error) error {
	for {
		if use, err := neighbour.Run(context.Background(), engine.Start{Input: "q"}, &script{}); err != nil {
			t.Errorf("beside %s: %+v, %v", name, use, err)
		}
		select {
		case err := <-ended:
			return err
		default:
		}
	}
}

// TestDeafInit: a compiled source whose initialisation does not end is refused; the next one loads.
func TestDeafInit(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	box := openOwn(t, Config{Workers: 1, Engine: Compile, Limits: testLimits})
	defer closeBox(t, box)
	var refusal *engine.LoadError
	_, err := box.Load(context.Background(), engine.NewHarness(head+"func init() { for {} }"+emptyRun, engine.Meta{}))
	if !errors.As(err, &refusal) || refusal.Rule != "init" {
		t.Error(err)
	}
	if _, err := run(t, box, fourTurns, &script{}); err != nil {
		t.Error(err)
	}
}

// TestInterrupt: each way in which a run is used up ends an interpreted guest that goes on
// computing, and no worker dies of it.
func TestInterrupt(t *testing.T) {
	limits := testLimits
	box := openOwn(t, Config{Workers: 1, Limits: limits})
	defer closeBox(t, box)
	worker := box.workers[0].peek()
	for name, c := range map[string]struct {
		body string
		host func(cancel func()) engine.Host
		want func(error) bool
	}{
		"time": {"for {}", plain, limitIs(engine.LimitTime)},
		"calls, and on without an end": {`for {
		func() {
			defer func() { recover() }()
			s.Log("x")
		}()
	}`, plain, limitIs(engine.LimitCalls)},
		"tokens, and on with turns": {`for {
		s.Generate(nil, kit.Options{})
	}`, poor, limitIs(engine.LimitCalls)},
		"tokens, and on without turns": {`s.Generate(nil, kit.Options{})
	for {}`, poor, limitIs(engine.LimitTime)},
		"bytes": {`for {
		s.Log(strings.Repeat("x", 1<<20))
	}`, plain, limitIs(engine.LimitOutput)},
		"given up while it computes": {`s.Log("here")
	for {}`, givenUp, func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		_, err := load(t, box, hostileSource("func Run(s *kit.Session) error {\n\t"+c.body+"\n\treturn nil\n}")).Run(ctx, engine.Start{Input: "q"}, c.host(cancel))
		cancel()
		if !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
		// The worker answers only when the guest has ended.
		if _, err := run(t, box, fourTurns, &script{}); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	if box.workers[0].peek() != worker {
		t.Error("a worker was killed")
	}
}

func plain(func()) engine.Host { return &script{} }

// poor is a host without tokens.
func poor(func()) engine.Host {
	return &script{generate: func([]engine.Message, engine.GenerateOptions) ([]engine.Reply, error) { return nil, engine.ErrBudget }}
}

// givenUp cancels the run when it hears of it.
func givenUp(cancel func()) engine.Host { return &leaving{cancel: cancel} }

// leaving is a host whose run is given up after a note has been answered.
type leaving struct {
	script
	cancel func()
}

func (l *leaving) Note(context.Context, engine.Note) error {
	go l.cancel()
	return nil
}

func limitIs(kind engine.LimitKind) func(error) bool {
	return func(err error) bool {
		var limit *engine.LimitError
		return errors.As(err, &limit) && limit.Kind == kind
	}
}
