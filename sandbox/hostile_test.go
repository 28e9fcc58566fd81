package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

var testLimits = Limits{Time: 100 * time.Millisecond, Output: 4 << 20, Calls: 200}

// endHostile runs one harness and says what is wrong with how it ended.
func endHostile(box *Sandbox, n int) string {
	h := hostile[n]
	if box.config.Engine == Compile && h.compile != "" {
		h.limit = h.compile
	}
	var imports []string
	if h.imports != "" {
		imports = []string{h.imports + "\n"}
	}
	p, err := box.Load(context.Background(), engine.NewHarness(hostileSource(h.body, imports...), engine.Meta{}))
	var refusal *engine.LoadError
	if h.refused {
		if !errors.As(err, &refusal) || refusal.Rule == "" || refusal.Reason == "" {
			return fmt.Sprintf("loaded: %v, want a LoadError", err)
		}
		return ""
	}
	if err != nil {
		return fmt.Sprintf("refused: %v", err)
	}
	host, again := &script{}, &script{}
	use, err := p.Run(context.Background(), engine.Start{Domain: "d", Input: "q"}, host)
	if h.logs != "" {
		if _, err := p.Run(context.Background(), engine.Start{Domain: "d", Input: "q"}, again); err != nil || fmt.Sprint(again.notes) != fmt.Sprint(host.notes) {
			return fmt.Sprintf("%v, the second time %v, %v", host.notes, again.notes, err)
		}
	}
	if failed := p.Close(); failed != nil {
		return failed.Error()
	}
	var limit *engine.LimitError
	var failure *engine.HarnessError
	switch {
	case h.limit != "":
		if !errors.As(err, &limit) || limit.Kind != h.limit || limit.Value < limit.Limit || limit.Limit == 0 {
			return fmt.Sprintf("%v, want limit on %s", err, h.limit)
		}
		if errors.Is(err, context.DeadlineExceeded) != (h.limit == engine.LimitTime) {
			return fmt.Sprintf("%v: deadline exceeded or not?", err)
		}
		// Processor time, so this holds on a busy machine too.
		if late := time.Duration(limit.Value - limit.Limit); h.limit == engine.LimitTime && late > 200*time.Millisecond {
			return fmt.Sprintf("%v late", late)
		}
		if use.Engine == "" {
			return "nobody says how it ran"
		}
	case h.fail != "" || h.panic:
		if !errors.As(err, &failure) || failure.Panic != h.panic || !strings.Contains(failure.Text, h.fail) || len(failure.Text) > 5000 {
			return fmt.Sprintf("%v, want %q, panic %v", err, h.fail, h.panic)
		}
	case err != nil:
		return err.Error()
	case h.logs != "" && (len(host.notes) == 0 || !strings.Contains(host.notes[0].Log, h.logs)):
		return fmt.Sprintf("%v, want %q", host.notes, h.logs)
	}
	return ""
}

// holdings are what must not pile up.
type holdings struct{ goroutines, descriptors, workerDescriptors, workerMappings, workerThreads int }

// fewer says whether there were fewer than now. A new worker in place of a killed one, and
// the collector's own, may differ a little.
func (was holdings) fewer(now holdings) bool {
	return now.goroutines > was.goroutines+4 || now.descriptors > was.descriptors+4 || now.workerDescriptors > was.workerDescriptors+4 ||
		now.workerMappings > was.workerMappings+100 || now.workerThreads > was.workerThreads+4
}

func count(t *testing.T, box *Sandbox) holdings {
	p, err := box.workers[0].process(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	pid := p.cmd.Process.Pid
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	return holdings{goroutines: runtime.NumGoroutine(), descriptors: entries(t, os.Getpid(), "fd"), workerDescriptors: entries(t, pid, "fd"),
		workerMappings: strings.Count(string(maps), "\n"), workerThreads: entries(t, pid, "task")}
}

// TestHostile: each ends as it must, the next run on the same sandbox is unaffected, and
// nothing piles up from round to round.
func TestHostile(t *testing.T) { playHostile(t, Auto) }

// TestHostileCompiled: the same list by the compile engine. A build of each takes minutes:
// only with WHALE_CORPUS=full.
func TestHostileCompiled(t *testing.T) {
	if !long() {
		t.Skip("WHALE_CORPUS=full runs it")
	}
	playHostile(t, Compile)
}

// long says whether every test runs at its full length (make check).
func long() bool { return os.Getenv("WHALE_CORPUS") == "full" }

// skipHostile leaves out what costs seconds and shows nothing new outside of make check: the
// second round only looks for what piles up, and guests do the same under the race detector,
// so both take every fifth. A step of five, with neighbours that fail alike, meets all kinds.
func skipHostile(n, round int) bool {
	return !long() && n%5 != 0 && (raced || round > 0)
}

// maxRounds is after how many rounds that all added something it counts as piling up.
const maxRounds = 3

func playHostile(t *testing.T, by string) {
	// What runs into another limit on the way may take its time under the race detector.
	patient := testLimits
	patient.Time = 10 * time.Second
	boxes := []*Sandbox{openOwn(t, Config{Workers: 1, Engine: by, Limits: testLimits}), openOwn(t, Config{Workers: 1, Engine: by, Limits: patient})}
	// What piles up grows with every round. A worker that was just started has yet to make
	// threads that an older one has, so a round that adds some is followed by another.
	var before [2]holdings
	for round, grows := 0, true; grows; round++ {
		for n, h := range hostile {
			if skipHostile(n, round) {
				continue
			}
			box := boxes[1]
			if h.limit == engine.LimitTime {
				box = boxes[0]
			}
			if wrong := endHostile(box, n); wrong != "" {
				t.Errorf("%s: %s", h.name, wrong)
			}
			if _, err := run(t, box, fourTurns, &script{}); err != nil {
				t.Errorf("after %s: %v", h.name, err)
			}
		}
		grows = round == 0
		for b, box := range boxes {
			now := count(t, box)
			if round > 0 && before[b].fewer(now) {
				if grows = round < maxRounds; !grows {
					t.Errorf("after round %d: %+v, before it %+v", round, now, before[b])
				}
			}
			before[b] = now
		}
	}
	if len(hostile) < 40 {
		t.Errorf("%d harnesses", len(hostile))
	}
	for _, box := range boxes {
		closeBox(t, box)
	}
}

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
	for range 10 * slowLook {
		p.killOverdue(limits)
	}
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
	seat.waits, p.waiting, p.heard = true, 1, long
	p.mu.Unlock()
	for range 10 * slowLook {
		p.killOverdue(box.config.Limits)
	}
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
	if n := entries(t, process.cmd.Process.Pid, "fd"); n > 40 {
		t.Errorf("worker holds %d descriptors", n)
	}
}

func closeBox(t *testing.T, box *Sandbox) {
	t.Helper()
	if err := box.Close(); err != nil {
		t.Error(err)
	}
}

// entries counts what /proc lists of a process: "fd" or "task".
func entries(t *testing.T, pid int, folder string) int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", pid, folder))
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
	if raced && !long() {
		t.Skip("copies of 130 MB by one goroutine after the other")
	}
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
