package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
	"github.com/seed-7c27e6b8/whale/sandbox/compile"
	"github.com/seed-7c27e6b8/whale/sandbox/image"
	"github.com/seed-7c27e6b8/whale/sandbox/worker"
)

//go:generate go run ./image/build image

// WorkerMain does a worker's work and exits, if this process was started as a worker;
// otherwise it returns at once.
func WorkerMain() { worker.Main() }

// Config says how a sandbox works. The zero value is a good choice.
type Config struct {
	Workers  int    // worker processes; 0 = one per core
	CacheDir string // for compiled code; empty = whale/wasm in the user's cache folder
	Engine   string // Auto, Interpret or Compile; empty = Auto
	Limits   Limits
	// Copying makes fresh sandboxes by copying whole memories, as on a kernel without
	// memfd and pagemap. Slow; for tests.
	Copying bool

	without abi.Lacking // what the kernel is taken to lack, for tests
}

// Limits are what one run, or the initialisation of a source, may use. Zero = default.
type Limits struct {
	Memory int64         // bytes of guest memory, rounded up to 64 KiB; default 64 MiB
	Time   time.Duration // processor time in guest code, host calls excluded; default 2 s
	Grace  time.Duration // until an interrupted guest is killed; default 150 ms
	Calls  int           // host calls; default 4096
	Output int64         // bytes sent to the host; default 16 MiB, at most 32 MiB
	// Process is the memory of one whole worker, in bytes; a worker that takes more is
	// killed and its runs fail as the host's fault. Default 4 GiB.
	Process int64
}

func (l *Limits) fill() {
	if l.Memory == 0 {
		l.Memory = 64 << 20
	}
	l.Memory = (l.Memory + 1<<16 - 1) &^ (1<<16 - 1)
	if l.Time == 0 {
		l.Time = 2 * time.Second
	}
	if l.Grace == 0 {
		l.Grace = 150 * time.Millisecond
	}
	if l.Calls == 0 {
		l.Calls = 4096
	}
	if l.Output == 0 {
		l.Output = 16 << 20
	}
	if l.Process == 0 {
		l.Process = 4 << 30
	}
	l.Output = min(l.Output, abi.MaxFrame/2)
}

// Sandbox is a set of worker processes. Its methods may be called from many goroutines.
type Sandbox struct {
	config    Config
	workers   []*post
	compiling []*post       // for compiled candidates; their workers start on demand
	done      chan struct{} // closed by Close

	compileAfter int            // runs, see rival
	background   sync.WaitGroup // compilations beside runs

	building sync.Mutex
	compiler *compile.Compiler // nil until the first candidate is compiled; guarded by building

	mu       sync.Mutex
	closed   bool
	programs map[engine.HarnessID]*program
}

var _ engine.Sandbox = (*Sandbox)(nil)

// errClosed: the sandbox or the program is not open any more.
var errClosed = errors.New("closed")

// Open starts the workers. It returns when the first is ready; compiling the guest for
// the first time on a machine takes seconds, later starts a fraction of one. It fails
// with image.ErrNotBuilt, wrapped, if the binary holds no guest.
func Open(ctx context.Context, config Config) (*Sandbox, error) {
	if !image.Built() {
		return nil, engine.Fail(engine.AtSandbox, "open", image.ErrNotBuilt)
	}
	config.Limits.fill()
	if config.Workers == 0 {
		config.Workers = runtime.NumCPU()
	}
	if config.CacheDir == "" {
		if dir, err := os.UserCacheDir(); err == nil {
			config.CacheDir = filepath.Join(dir, "whale", "wasm")
		}
	}
	s := &Sandbox{config: config, programs: map[engine.HarnessID]*program{}, done: make(chan struct{}), compileAfter: compileAfter}
	starts := make(chan func())
	go start(starts, s.done)
	for range config.Workers {
		s.workers = append(s.workers, &post{config: config, starts: starts})
		s.compiling = append(s.compiling, &post{config: config, starts: starts, compiles: true})
	}
	go s.watchWorkers()
	// The first one fills the cache of compiled code; the others start on demand.
	if _, err := s.workers[0].process(ctx); err != nil {
		return nil, errors.Join(engine.Fail(engine.AtSandbox, "open", err), s.Close())
	}
	return s, nil
}

func (s *Sandbox) posts() []*post { return slices.Concat(s.workers, s.compiling) }

// watchWorkers kills workers whose guest does not end, for as long as the sandbox is open.
func (s *Sandbox) watchWorkers() {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-ticker.C:
			for _, w := range s.posts() {
				w.killOverdue()
			}
		}
	}
}

// Close ends the workers. Runs in progress end with a fault of the host.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return nil
	}
	close(s.done)
	s.background.Wait()
	var errs []error
	for _, w := range s.posts() {
		errs = append(errs, w.close())
	}
	return errors.Join(errs...)
}

// aside runs f beside everything else, unless the sandbox is closed; Close waits for it.
func (s *Sandbox) aside(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.background.Go(f)
	}
}

// Level says what holds the guests here.
type Level struct {
	Workers     int
	Confinement []string // what holds a worker process
	Fallbacks   []string // what this machine lacks and the sandbox does without
	Limits      Limits
	GuestBytes  int    // memory of a guest after its start
	Compile     string // why candidates can't be compiled; empty = they can
}

// Level reports the state of the first worker.
func (s *Sandbox) Level(ctx context.Context) (Level, error) {
	p, err := s.workers[0].process(ctx)
	if err != nil {
		return Level{}, engine.Fail(engine.AtSandbox, "level", err)
	}
	return Level{Workers: len(s.workers), Confinement: p.report.Confinement, Fallbacks: p.report.Fallbacks,
		Limits: s.config.Limits, GuestBytes: p.report.Pages * 4096, Compile: s.whyNot(ctx)}, nil
}

func setup(c Config, compiles bool) abi.Setup {
	return abi.Setup{CacheDir: c.CacheDir, Compiles: compiles, Copying: c.Copying, Without: c.without, MaxMemory: int(c.Limits.Memory),
		MaxTime: int(c.Limits.Time), MaxCalls: c.Limits.Calls, MaxOutput: int(c.Limits.Output)}
}
