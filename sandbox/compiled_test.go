package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

// newer is right Go that the interpreter gets wrong and that lowering leaves alone.
const newer = head + `type code int

func (c code) Error() string { return "code" }

func (c code) Is(err error) bool { return true }

func Run(s *kit.Session) error {
	var err error = code(3)
	if is, ok := err.(interface{ Is(error) bool }); ok && is.Is(nil) {
		return s.Log(err.Error())
	}
	return nil
}
`

// newest is right Go that the interpreter doesn't know at all.
const newest = head + `func words(yield func(string) bool) { _ = yield("a") && yield("b") }

func Run(s *kit.Session) error {
	for w := range words {
		if err := s.Log(w); err != nil {
			return err
		}
	}
	return nil
}
`

// TestCompiledEnds: a compiled candidate meets the same limits, and is fresh each time. What
// ends with its worker is in TestNeighbours.
func TestCompiledEnds(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	limits := testLimits
	limits.Time = 2 * time.Second // deep stacks take their time to grow
	box := openOwn(t, Config{Workers: 1, Engine: Compile, Limits: limits})
	defer closeBox(t, box)
	well := load(t, box, head+`var count int

func Run(s *kit.Session) error {
	count++
	if count > 1 {
		return s.Log("again")
	}
	return nil
}`)
	for name, want := range map[string]struct {
		body  string
		limit engine.LimitKind
		fail  string
	}{
		"recursion": {"func down(n int) int { return down(n+1) + 1 }\n\nfunc Run(s *kit.Session) error { down(0); return nil }", engine.LimitStack, ""},
		"memory":    {"func Run(s *kit.Session) error {\n\tvar list [][]byte\n\tfor {\n\t\tlist = append(list, make([]byte, 1<<20))\n\t}\n}", engine.LimitMemory, ""},
		"calls":     {"func Run(s *kit.Session) error {\n\tfor {\n\t\ts.Log(\"x\")\n\t}\n}", engine.LimitCalls, ""},
		"panic":     {"func Run(s *kit.Session) error { panic(\"boom\") }", "", "boom"},
	} {
		if raced && !long() && (name == "recursion" || name == "memory") {
			continue // seconds of memory traffic, all of it the guest's
		}
		use, err := run(t, box, head+want.body, &script{})
		var limit *engine.LimitError
		var failure *engine.HarnessError
		switch {
		case use.Engine != Compile:
			t.Errorf("%s: ran by %q", name, use.Engine)
		case want.limit != "" && (!errors.As(err, &limit) || limit.Kind != want.limit):
			t.Errorf("%s: %v", name, err)
		case want.limit == "" && (!errors.As(err, &failure) || !failure.Panic || failure.Text != want.fail):
			t.Errorf("%s: %v", name, err)
		}
		host := &script{}
		if _, err := well.Run(context.Background(), engine.Start{}, host); err != nil || len(host.notes) != 0 {
			t.Errorf("after %s: %v, %v", name, err, host.notes)
		}
	}
	for name, source := range map[string]string{
		"panic in init": "func init() { panic(1) }" + emptyRun,
		"files":         "import \"os\"\n" + emptyRun + "\nvar _ = os.Args",
	} {
		var refusal *engine.LoadError
		if _, err := box.Load(context.Background(), engine.NewHarness(head+source, engine.Meta{})); !errors.As(err, &refusal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAuto: what the interpreter gets wrong is compiled where there is Go and refused
// elsewhere; the rest is interpreted.
func TestAuto(t *testing.T) {
	interpreting := open(t, Config{Workers: 1, Engine: Interpret})
	var refusal *engine.LoadError
	if _, err := interpreting.Load(context.Background(), engine.NewHarness(newer, engine.Meta{})); !errors.As(err, &refusal) || !interpretersFault(refusal) {
		t.Fatalf("interpreted: %v", err)
	}
	if _, err := exec.LookPath("go"); err == nil {
		box := open(t, Config{Workers: 1})
		host := &script{}
		if use, err := run(t, box, newer, host); err != nil || use.Engine != Compile || host.notes[0].Log != "code" {
			t.Errorf("%+v, %v, %v", use, err, host.notes)
		}
		if use, err := run(t, box, fourTurns, &script{}); err != nil || use.Engine != Interpret {
			t.Errorf("%+v, %v", use, err)
		}
		host = &script{}
		if use, err := run(t, box, newest, host); err != nil || use.Engine != Compile || len(host.notes) != 2 {
			t.Errorf("%+v, %v, %v", use, err, host.notes)
		}
	}
	t.Setenv("PATH", t.TempDir())
	box := openOwn(t, Config{Workers: 1})
	defer closeBox(t, box)
	if _, err := box.Load(context.Background(), engine.NewHarness(newer, engine.Meta{})); !errors.As(err, &refusal) || !strings.Contains(refusal.Hint, "Go on PATH") {
		t.Errorf("without Go: %v", err)
	}
	if use, err := run(t, box, fourTurns, &script{}); err != nil || use.Engine != Interpret {
		t.Errorf("without Go: %+v, %v", use, err)
	}
}

// TestRival: a source that runs often is compiled beside its runs, then both engines take
// turns, and one of them stays; each run does the same. Where Go leaves the results open,
// the engine stays.
func TestRival(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	box := openOwn(t, Config{Workers: 1})
	defer closeBox(t, box)
	box.compileAfter = 3
	p := load(t, box, fourTurns)
	ran := map[string]int{}
	play := func() string {
		host := &recorder{}
		use, err := p.Run(context.Background(), engine.Start{Input: "q"}, host)
		if err != nil {
			t.Fatal(use.Engine, err)
		}
		ran[use.Engine]++
		return fmt.Sprint(host.asked)
	}
	want := play()
	for range box.compileAfter - 1 {
		play()
	}
	rival := p.(*program).rival
	<-rival.ready
	for range 2 * comparedRuns {
		if got := play(); got != want {
			t.Fatalf("asked %s, before %s", got, want)
		}
	}
	if ran[Compile] != comparedRuns || ran[Interpret] != comparedRuns+box.compileAfter {
		t.Errorf("runs by engine: %v", ran)
	}
	if rival.winner == nil {
		t.Fatal("not decided")
	}
	stays := rival.winner.engine
	for clear(ran); len(ran) < 1 || ran[stays] < 5; {
		play()
	}
	if len(ran) != 1 {
		t.Errorf("after the decision for %s: %v", stays, ran)
	}
	open := load(t, box, strings.Replace(fourTurns, "return nil\n}\n", "for k := range map[string]int{} {\n\t\treturn s.Log(k)\n\t}\n\treturn nil\n}\n", 1))
	if open.(*program).rival != nil {
		t.Error("the order of a map may depend on the engine")
	}
}
