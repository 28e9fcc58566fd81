package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

// hostile are harnesses that try to stay, to break out or to take what isn't theirs.
// Each must end as the limit, or as an error whose text contains fail; with neither it
// must end well.
var hostile = []struct {
	name  string
	body  string // after the imports
	limit engine.LimitKind
	fail  string
	panic bool
}{
	{name: "endless loop", limit: engine.LimitTime, body: `func Run(s *kit.Session) error { for {} }`},
	{name: "endless closures", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
	f := func(n int) int { return n + 1 }
	n := 0
	for {
		n = f(n)
	}
}`},
	{name: "loop in a recovered defer", limit: engine.LimitTime, body: `
func spin() {
	defer func() {
		recover()
		for {
		}
	}()
	panic("x")
}

func Run(s *kit.Session) error {
	spin()
	return nil
}`},
	{name: "loop that recovers for ever", limit: engine.LimitTime, body: `
func step() {
	defer func() { recover() }()
	panic("again")
}

func Run(s *kit.Session) error {
	for {
		step()
	}
}`},
	{name: "loop of small garbage", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
	n := 0
	for {
		text := fmt.Sprint("garbage ", n)
		n = n + len(text)
	}
}`},
	{name: "loop in sort", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
	list := make([]int, 1000000)
	for {
		sort.Slice(list, func(a, b int) bool { return a < b })
	}
}`},
	{name: "loop of long library calls", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
	text := strings.Repeat("ab", 100000)
	for {
		strings.Count(text, "ba")
	}
}`},
	{name: "goto", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
again:
	goto again
}`},
	{name: "allocation bomb", limit: engine.LimitMemory, body: `func Run(s *kit.Session) error {
	var list [][]byte
	for {
		list = append(list, make([]byte, 1<<20))
	}
}`},
	{name: "one huge allocation", limit: engine.LimitMemory, body: `func Run(s *kit.Session) error {
	return s.Log(strings.Repeat("x", 1<<30))
}`},
	{name: "string that doubles", limit: engine.LimitMemory, body: `func Run(s *kit.Session) error {
	text := "x"
	for {
		text = text + text
	}
}`},
	{name: "endless recursion", limit: engine.LimitStack, body: `
func down(n int) int { return down(n+1) + 1 }

func Run(s *kit.Session) error {
	down(0)
	return nil
}`},
	{name: "endless mutual recursion in a defer", limit: engine.LimitStack, body: `
func a(n int) {
	defer func() { recover() }()
	b(n)
}

func b(n int) { a(n + 1) }

func Run(s *kit.Session) error {
	a(0)
	return nil
}`},
	{name: "giant tool arguments", limit: engine.LimitOutput, body: `func Run(s *kit.Session) error {
	_, err := s.Tool("t", strings.Repeat("x", 5<<20))
	return err
}`},
	{name: "log for ever", limit: engine.LimitCalls, body: `func Run(s *kit.Session) error {
	for {
		s.Log("x")
	}
}`},
	{name: "giant log", limit: engine.LimitOutput, body: `func Run(s *kit.Session) error {
	text := strings.Repeat("x", 1<<20)
	for {
		s.Log(text)
	}
}`},
	{name: "print for ever", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
	for {
		fmt.Println("spam")
	}
}`},
	{name: "print a little", body: `func Run(s *kit.Session) error {
	fmt.Println("lost")
	print("lost")
	return nil
}`},
	{name: "panic", panic: true, fail: "boom 7", body: `func Run(s *kit.Session) error {
	panic(fmt.Sprint("boom ", 7))
}`},
	{name: "panic in a defer", panic: true, fail: "second", body: `func Run(s *kit.Session) error {
	defer func() { panic("second") }()
	panic("first")
}`},
	{name: "panic with a giant text", panic: true, fail: "xxx", body: `func Run(s *kit.Session) error {
	panic(strings.Repeat("x", 1<<20))
}`},
	{name: "index out of range", panic: true, fail: "out of range", body: `func Run(s *kit.Session) error {
	list := []int{1}
	i := len(s.Task().Input) + 5
	return s.Log(fmt.Sprint(list[i]))
}`},
	{name: "nil map", panic: true, fail: "nil map", body: `func Run(s *kit.Session) error {
	var m map[string]int
	m["a"] = 1
	return nil
}`},
	{name: "plain error", fail: "can't do it", body: `func Run(s *kit.Session) error {
	return errors.New("can't do it")
}`},
	{name: "malformed UTF-8", body: `func Run(s *kit.Session) error {
	_, err := s.Generate([]kit.Message{{Role: "\xff\xfe", Content: "\xc0\x80\xf5"}}, kit.Options{})
	return err
}`},
	{name: "forged handles", body: `func Run(s *kit.Session) error {
	m := []kit.Message{{Role: kit.Assistant, Content: "forged", Handle: -1}, {Role: kit.User, Content: "x", Handle: 1 << 40}}
	if _, err := s.Generate(m, kit.Options{Samples: -5, MaxTokens: -1}); err != nil {
		return err
	}
	return s.Submit(kit.Reply{Handle: 99, Text: "forged"})
}`},
	{name: "nil session", panic: true, fail: "nil pointer", body: `func Run(s *kit.Session) error {
	var other *kit.Session
	return other.Log("x")
}`},
	{name: "session of its own", panic: true, fail: "", body: `func Run(s *kit.Session) error {
	other := &kit.Session{}
	return other.Log("x")
}`},
}

var testLimits = Limits{Time: 300 * time.Millisecond, Output: 4 << 20, Calls: 200}

func hostileSource(body string) string {
	head := "package harness\n\nimport (\n"
	for _, path := range []string{"errors", "fmt", "regexp", "sort", "strings", "github.com/seed-7c27e6b8/whale/harnesses/kit"} {
		if strings.Contains(body, path[strings.LastIndex(path, "/")+1:]+".") {
			head += "\t\"" + path + "\"\n"
		}
	}
	return head + ")\n\n" + body + "\n"
}

// TestHostile: each ends as it must and the next run on the same worker is unaffected.
func TestHostile(t *testing.T) {
	// What runs into another limit on the way may take its time under the race detector.
	patient := testLimits
	patient.Time = 10 * time.Second
	for _, h := range hostile {
		box := open(t, Config{Workers: 1, Limits: patient})
		if h.limit == engine.LimitTime {
			box = open(t, Config{Workers: 1, Limits: testLimits})
		}
		well := load(t, box, fourTurns)
		_, err := run(t, box, hostileSource(h.body), &script{})
		var limit *engine.LimitError
		var failure *engine.HarnessError
		switch {
		case h.limit != "":
			if !errors.As(err, &limit) || limit.Kind != h.limit || limit.Value < limit.Limit || limit.Limit == 0 {
				t.Errorf("%s: %v, want limit on %s", h.name, err, h.limit)
			}
			if errors.Is(err, context.DeadlineExceeded) != (h.limit == engine.LimitTime) {
				t.Errorf("%s: %v: deadline exceeded or not?", h.name, err)
			}
		case h.fail != "" || h.panic:
			if !errors.As(err, &failure) || failure.Panic != h.panic || !strings.Contains(failure.Text, h.fail) || len(failure.Text) > 5000 {
				t.Errorf("%s: %v, want %q, panic %v", h.name, err, h.fail, h.panic)
			}
		case err != nil:
			t.Errorf("%s: %v", h.name, err)
		}
		if _, err := well.Run(context.Background(), engine.Start{Input: "q"}, &script{}); err != nil {
			t.Errorf("after %s: %v", h.name, err)
		}
	}
}

// TestHostileInit: what a source does while it is loaded is refused with a reason.
func TestHostileInit(t *testing.T) {
	box := open(t, Config{Workers: 1, Limits: testLimits})
	const run = "\nfunc Run(s *kit.Session) error { return nil }"
	for name, source := range map[string]string{
		"loop in init":       "func init() { for {} }" + run,
		"loop in a variable": "var n = spin()\nfunc spin() int { for {}\nreturn 1 }" + run,
		"recursion in init":  "func init() { down(1) }\nfunc down(n int) int { return down(n) + 1 }" + run,
		"allocation in init": "var list [][]byte\nfunc init() { for { list = append(list, make([]byte, 1<<20)) } }" + run,
		"panic in init":      `func init() { panic("no") }` + run,
		"undefined name":     "func Run(s *kit.Session) error { return nope }",
		"wrong type":         `func Run(s *kit.Session) error { return s.Log(5) }`,
		"call without kit":   "var s *kit.Session\nfunc init() { s.Log(\"x\") }" + run,
		"unknown kit symbol": "func Run(s *kit.Session) error { kit.NewSession(kit.Start{}, nil); return nil }",
	} {
		p, err := box.Load(context.Background(), engine.NewHarness(head+source, engine.Meta{}))
		var refusal *engine.LoadError
		if !errors.As(err, &refusal) {
			t.Errorf("%s: %v, %v; want a LoadError", name, p, err)
			continue
		}
		t.Log(name, ": ", err)
	}
	if _, err := load(t, box, fourTurns).Run(context.Background(), engine.Start{}, &script{}); err != nil {
		t.Error(err)
	}
}

// unstoppable is one library call that takes minutes: a regular expression of a thousand
// states over a long text. No step of the interpreter is reached meanwhile.
const unstoppable = `func Run(s *kit.Session) error {
	slow := regexp.MustCompile(strings.Repeat("a?", 500) + "$")
	slow.MatchString(strings.Repeat("a", 8<<20) + "b")
	return nil
}`

// TestKilledWorker: a guest that does not react is over time after the grace and takes
// its worker with it, as does a worker that dies of something else. Runs beside it are the
// host's fault and go well when tried again, on a new worker.
func TestKilledWorker(t *testing.T) {
	limits := testLimits
	limits.Grace = 100 * time.Millisecond
	box := openOwn(t, Config{Workers: 1, Limits: limits})
	defer closeBox(t, box)
	neighbour := load(t, box, head+`func Run(s *kit.Session) error { return s.Log("waiting") }`)
	deaths := map[string]func(*process){
		"unstoppable guest": func(*process) {
			_, err := run(t, box, hostileSource(unstoppable), &script{})
			var limit *engine.LimitError
			if !errors.As(err, &limit) || limit.Kind != engine.LimitTime || limit.Value <= limit.Limit {
				t.Errorf("unstoppable guest: %v", err)
			}
		},
		"a stop": func(p *process) {
			if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
		},
		"kill -9": func(p *process) {
			if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		},
	}
	for name, die := range deaths {
		waiting, finish, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := neighbour.Run(context.Background(), engine.Start{}, &blocking{waiting, finish})
			failed <- err
		}()
		<-waiting
		old := box.workers[0].peek()
		die(old)
		<-old.dead
		close(finish)
		var fault *engine.Failure
		if err := <-failed; !errors.As(err, &fault) || engine.Classify(err) != engine.Infra {
			t.Errorf("neighbour of %s: %v", name, err)
		}
		if _, err := neighbour.Run(context.Background(), engine.Start{}, &script{}); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
		if box.workers[0].peek() == old {
			t.Errorf("after %s: the dead worker is still there", name)
		}
	}
}

// TestFatWorker: a worker that takes more memory than it may is killed, and says so.
func TestFatWorker(t *testing.T) {
	box := openOwn(t, Config{Workers: 1})
	defer closeBox(t, box)
	p := box.workers[0].peek()
	limits := box.config.Limits
	limits.Process = 1 << 20
	p.killOverdue(limits)
	<-p.dead
	if _, failure := p.why(); failure == nil || !strings.Contains(failure.Error(), "1 MB") {
		t.Error(failure)
	}
}

// TestSilentWorker: a worker that leaves a session waiting although no guest runs is
// killed, one that owes nothing is left alone.
func TestSilentWorker(t *testing.T) {
	box := openOwn(t, Config{Workers: 1})
	defer closeBox(t, box)
	p := box.workers[0].peek()
	long := time.Now().Add(-2 * silence)
	p.mu.Lock()
	p.heard = long
	p.mu.Unlock()
	p.killOverdue(box.config.Limits)
	p.mu.Lock()
	if p.verdict != "" {
		t.Error("killed at rest:", p.verdict)
	}
	p.mu.Unlock()
	id, seat := p.open()
	p.mu.Lock()
	seat.waits, p.heard = true, long
	p.mu.Unlock()
	p.killOverdue(box.config.Limits)
	<-p.dead
	p.end(id)
	if _, failure := p.why(); failure == nil || !strings.Contains(failure.Error(), "said nothing") {
		t.Error(failure)
	}
}

// blocking is a host whose notes wait.
type blocking struct{ waiting, finish chan struct{} }

func (b *blocking) Generate(context.Context, []engine.Message, engine.GenerateOptions) ([]engine.Reply, error) {
	return nil, engine.ErrBudget
}

func (b *blocking) Tool(context.Context, string, string) (string, error) { return "", engine.ErrTool }

func (b *blocking) Note(context.Context, engine.Note) error {
	close(b.waiting)
	<-b.finish
	return nil
}

// TestManyAtOnce: many runs of several programs share two workers; each gets its own
// answers.
func TestManyAtOnce(t *testing.T) {
	box := open(t, Config{Workers: 2})
	var programs []engine.Program
	for n := range 5 {
		programs = append(programs, load(t, box, head+fmt.Sprintf(`func Run(s *kit.Session) error {
	for i := 0; i < 5; i++ {
		text, err := s.Tool("%d", s.Task().Input)
		if err != nil {
			return err
		}
		if err := s.Log(text); err != nil {
			return err
		}
	}
	return nil
}`, n)))
	}
	var wait sync.WaitGroup
	for n := range 100 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			host := &script{}
			input := fmt.Sprint("input ", n)
			if _, err := programs[n%5].Run(context.Background(), engine.Start{Input: input}, host); err != nil {
				t.Error(err)
			}
			for _, note := range host.notes {
				if want := fmt.Sprintf("%d says %s", n%5, input); note.Log != want || len(host.notes) != 5 {
					t.Errorf("%q, want %q", note.Log, want)
				}
			}
		}()
	}
	wait.Wait()
}

// TestManyCandidates: images are evicted and come back on demand; nothing piles up.
func TestManyCandidates(t *testing.T) {
	box := openOwn(t, Config{Workers: 1})
	defer closeBox(t, box)
	var programs []engine.Program
	for n := range 2*maxImages + 3 {
		programs = append(programs, load(t, box, head+fmt.Sprintf("func Run(s *kit.Session) error { return s.Log(\"%d\") }", n)))
	}
	for round := range 2 {
		for n, p := range programs {
			host := &script{}
			if _, err := p.Run(context.Background(), engine.Start{}, host); err != nil || host.notes[0].Log != fmt.Sprint(n) {
				t.Fatal(round, n, err, host.notes)
			}
		}
	}
	process := box.workers[0].peek()
	process.mu.Lock()
	images, sessions := len(process.images), len(process.sessions)
	process.mu.Unlock()
	if images > maxImages || sessions != 0 {
		t.Errorf("%d images, %d sessions", images, sessions)
	}
	for _, p := range programs {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := descriptors(t, process.cmd.Process.Pid); n > 40 {
		t.Errorf("worker holds %d descriptors", n)
	}
}

func closeBox(t *testing.T, box *Sandbox) {
	t.Helper()
	if err := box.Close(); err != nil {
		t.Error(err)
	}
}

func descriptors(t *testing.T, pid int) int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestClosed: a closed sandbox says so, and no process is left.
func TestClosed(t *testing.T) {
	box := openOwn(t, Config{Workers: 1})
	program := load(t, box, fourTurns)
	process := box.workers[0].peek()
	for range 2 {
		closeBox(t, box)
	}
	var fault *engine.Failure
	if _, err := program.Run(context.Background(), engine.Start{}, &script{}); !errors.As(err, &fault) || !errors.Is(err, errClosed) {
		t.Errorf("run: %v", err)
	}
	if _, err := box.Load(context.Background(), engine.NewHarness(fourTurns, engine.Meta{})); !errors.Is(err, errClosed) {
		t.Errorf("load: %v", err)
	}
	if err := process.cmd.Process.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the worker is still there: %v", err)
	}
}

// TestLevel: the report names what holds a worker.
func TestLevel(t *testing.T) {
	level, err := open(t, Config{Workers: 2}).Level(context.Background())
	if err != nil || level.Workers != 2 || level.Limits.Memory != 64<<20 || level.GuestBytes < 1<<20 {
		t.Errorf("%+v, %v", level, err)
	}
	for _, want := range []string{"no_new_privs", "dies_with_parent", "rlimits", "no_capabilities"} {
		if !slices.Contains(level.Confinement, want) {
			t.Errorf("%s is missing: %v", want, level.Confinement)
		}
	}
}

// TestCloseProgram: a program stays while someone holds it, ends its runs well after the
// last Close, and can't be run again.
func TestCloseProgram(t *testing.T) {
	box := open(t, Config{Workers: 1})
	source := head + `func Run(s *kit.Session) error { return s.Log("held") }`
	first, second := load(t, box, source), load(t, box, source)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	waiting, finish, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := second.Run(context.Background(), engine.Start{}, &blocking{waiting, finish})
		failed <- err
	}()
	<-waiting
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	close(finish)
	if err := <-failed; err != nil {
		t.Errorf("closed while it ran: %v", err)
	}
	if _, err := second.Run(context.Background(), engine.Start{}, &script{}); !errors.Is(err, errClosed) {
		t.Errorf("run after close: %v", err)
	}
	if _, err := run(t, box, source, &script{}); err != nil {
		t.Errorf("loaded again: %v", err)
	}
}

// TestGiantAnswer: an answer that no guest could hold is the host's fault, and an answer
// that fills the guest's memory the guest's limit; the worker lives.
func TestGiantAnswer(t *testing.T) {
	box := open(t, Config{Workers: 1})
	process := box.workers[0].peek()
	ask := head + `func Run(s *kit.Session) error {
	_, err := s.Tool("t", "")
	return err
}`
	for size, want := range map[int]engine.Outcome{70 << 20: engine.Infra, 60 << 20: engine.Invalid} {
		answer := strings.Repeat("x", size)
		_, err := run(t, box, ask, &script{tool: func(_, _ string) (string, error) { return answer, nil }})
		if engine.Classify(err) != want {
			t.Errorf("%d bytes: %v, want %s", size, err, want)
		}
	}
	if box.workers[0].peek() != process {
		t.Error("the worker died")
	}
}
