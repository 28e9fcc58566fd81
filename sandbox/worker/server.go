package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7c27e6b8/whale/sandbox/abi"
	"github.com/seed-7c27e6b8/whale/sandbox/fork"
	"github.com/seed-7c27e6b8/whale/sandbox/image"
)

// server is the whole of a worker: one loop on one thread that reads frames and resumes
// the session of each as a coroutine. So guest code, images and instances need no locks,
// and a call of the host costs no wake of another thread.
type server struct {
	ctx      context.Context
	setup    abi.Setup
	machine  *fork.Machine
	wordAt   uint32 // address of the interpreter's run id in every guest
	watch    *watch
	shelf    shelf
	link     *abi.Link
	out      []byte // frames to be written
	result   []byte // the last one encoded
	sessions map[uint32]*session
	free     []*lane
}

// maxUnsent is how many bytes wait at most for the frames that came together to be
// answered together.
const maxUnsent = 16 << 10

// run serves the socket until it closes; the result is the exit status.
func run(confinement []string) int {
	// Compiled guest code never stops for the collector; see shelf.collect.
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(2) // the loop and the watch
	runtime.LockOSThread()
	memory, err := unix.Mmap(runningFD, 0, abi.RunningSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fail(err)
	}
	s := &server{ctx: context.Background(), link: abi.NewLink(os.NewFile(socketFD, "engine")), sessions: map[uint32]*session{}}
	s.watch = &watch{running: abi.RunningAt(memory), thread: unix.Gettid()}
	first, err := s.receive()
	if err != nil {
		return fail(err)
	}
	if s.setup, err = abi.DecodeSetup(first.Payload); err != nil {
		return fail(err)
	}
	report := s.open()
	report.Confinement = confinement
	if report.Fault == "" {
		go s.watch.loop()
		if s.setup.Without&abi.NoSeccomp == 0 && seccomp(s.setup.Compiles) {
			report.Confinement = append(report.Confinement, "seccomp")
		} else {
			report.Fallbacks = append(report.Fallbacks, "no seccomp: a worker may make any system call")
		}
		if !slices.Contains(confinement, "landlock_files") {
			report.Fallbacks = append(report.Fallbacks, "no Landlock: a worker is not kept from files by it")
		}
	}
	s.send(abi.Frame{Kind: abi.FrameReady, Payload: abi.AppendReport(nil, report)})
	if report.Fault != "" {
		s.flush()
		return 1
	}
	for {
		f, err := s.receive()
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			return fail(err)
		}
		s.dispatch(f)
		if len(s.out) > maxUnsent {
			s.flush()
		}
	}
}

// receive gives the next frame. Before it waits for one it sends what there is to send.
// The payload is valid until the next call.
func (s *server) receive() (abi.Frame, error) {
	for {
		f, ok, err := s.link.Next()
		if ok || err != nil {
			return f, err
		}
		s.flush()
		if err := s.link.Fill(); err != nil {
			return abi.Frame{}, err
		}
	}
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "sandbox worker:", err)
	return 1
}

// open starts the machine.
func (s *server) open() abi.Report {
	if s.setup.Compiles {
		s.shelf = newShelf(nil)
		return abi.Report{}
	}
	module, err := image.Guest()
	if err != nil {
		return abi.Report{Fault: err.Error()}
	}
	s.machine, err = fork.Open(s.ctx, module, s.forking())
	if err == nil {
		s.wordAt, err = s.greet(s.machine)
	}
	if err != nil {
		return abi.Report{Fault: err.Error()}
	}
	s.shelf = newShelf(s.machine)
	debug.FreeOSMemory() // compiling took several times what running takes
	touch()
	return abi.Report{Fallbacks: s.machine.Fallbacks(), Pages: s.machine.Base().Size() / 4096}
}

func (s *server) forking() fork.Config {
	without := s.setup.Without
	return fork.Config{CacheDir: s.setup.CacheDir, MaxMemory: s.setup.MaxMemory, Copying: s.setup.Copying, OneThread: true,
		NoMemfd: without&abi.NoMemfd != 0, NoPagemap: without&abi.NoPagemap != 0, NoPagemapScan: without&abi.NoPagemapScan != 0}
}

// greet checks that a guest was built from this tree and asks where its run id is.
func (s *server) greet(m *fork.Machine) (word uint32, err error) {
	i, err := m.Fork(s.ctx, m.Base())
	if err != nil {
		return 0, err
	}
	version, err := i.Call("whale_version")
	if err == nil && version != abi.Version {
		err = fmt.Errorf("sandbox image: built for version %d, not %d: run make", version, abi.Version)
	}
	at, failed := i.Call("whale_word")
	if failed == nil && i.Word(uint32(at)) == nil {
		failed = fmt.Errorf("sandbox image: no run id at %#x", at)
	}
	return uint32(at), errors.Join(err, failed, i.Close())
}

// send puts a frame where flush finds it.
func (s *server) send(f abi.Frame) { s.out = abi.AppendFrame(s.out, f) }

// flush writes. A broken socket means that the engine's process is gone.
func (s *server) flush() {
	if len(s.out) == 0 {
		return
	}
	if err := s.link.Write(s.out); err != nil {
		os.Exit(0)
	}
	if s.out = s.out[:0]; cap(s.out) > 1<<20 {
		s.out = nil
	}
}

func (s *server) dispatch(f abi.Frame) {
	switch f.Kind {
	case abi.FrameLoad, abi.FrameRun:
		l := s.lane()
		x := &l.session
		*x = session{id: f.Session, server: s, lane: l, left: time.Duration(s.setup.MaxTime)}
		l.first = f
		s.sessions[f.Session] = x
		s.resume(x)
	case abi.FrameAnswer:
		if x := s.sessions[f.Session]; x != nil {
			x.answer = f.Payload
			s.resume(x)
		}
	case abi.FrameCancel:
		if x := s.sessions[f.Session]; x != nil {
			x.cancelled = true
			s.resume(x)
		}
	case abi.FrameDrop:
		s.shelf.drop(f.Session)
	}
}

// resume lets a session go on to its next request, or to its end.
func (s *server) resume(x *session) {
	if ended, _ := x.lane.resume(); ended {
		delete(s.sessions, x.id)
		s.free = append(s.free, x.lane)
	}
	s.shelf.collect()
}

// lane is a coroutine that serves one session after the other: its stack has grown to what
// they need.
type lane struct {
	resume  func() (ended, _ bool) // goes on until the session waits or has ended
	yield   func(ended bool) bool  // goes back to the loop
	session session
	first   abi.Frame // what the session begins with
}

// lane gives one that is free.
func (s *server) lane() *lane {
	if n := len(s.free); n > 0 {
		l := s.free[n-1]
		s.free = s.free[:n-1]
		return l
	}
	l := &lane{}
	l.resume, _ = iter.Pull(func(yield func(bool) bool) {
		l.yield = yield
		for {
			s.serve(&l.session, l.first)
			yield(true)
		}
	})
	return l
}

func (s *server) serve(x *session, f abi.Frame) {
	reply := abi.Frame{Session: x.id}
	if f.Kind == abi.FrameLoad {
		reply.Kind, s.result = abi.FrameLoaded, abi.AppendLoadResult(s.result[:0], s.load(x, f.Payload))
	} else {
		reply.Kind, s.result = abi.FrameDone, abi.AppendRunResult(s.result[:0], s.run(x, f.Payload))
	}
	reply.Payload = s.result
	s.send(reply)
}

// load makes an image of a source.
func (s *server) load(x *session, payload []byte) (result abi.LoadResult) {
	order, err := abi.DecodeLoadOrder(payload)
	if err != nil {
		return abi.LoadResult{Fault: err.Error()}
	}
	if s.setup.Compiles {
		return s.loadCompiled(x, order)
	}
	if x.instance, err = s.machine.Fork(s.ctx, s.machine.Base()); err != nil {
		return abi.LoadResult{Fault: err.Error()}
	}
	defer func() {
		if err := x.instance.Close(); err != nil && result.Fault == "" {
			result.Fault = err.Error()
		}
	}()
	s.arm(x)
	said, err := x.say("whale_load", []byte(order.Source))
	if limit := x.ended(err); limit.Kind != "" {
		return abi.LoadResult{Limit: limit}
	}
	if err != nil {
		return abi.LoadResult{Refusal: abi.Refusal{Rule: "init", Reason: err.Error()}}
	}
	refusal, err := abi.DecodeRefusal(said)
	if err != nil {
		return abi.LoadResult{Fault: err.Error()}
	}
	if refusal.Rule != "" {
		return abi.LoadResult{Refusal: refusal}
	}
	made, err := x.instance.Snapshot()
	if err != nil {
		return abi.LoadResult{Fault: err.Error()}
	}
	if err := s.shelf.put(order.Image, &entry{image: made}); err != nil {
		return abi.LoadResult{Fault: err.Error()}
	}
	return abi.LoadResult{}
}

// loadCompiled makes a machine of a compiled source; its image is the machine's first.
func (s *server) loadCompiled(x *session, order abi.LoadOrder) abi.LoadResult {
	config := s.forking()
	config.Starting = func(start func() error) error {
		s.watch.enter(x)
		defer s.watch.leave(x)
		return start()
	}
	m, err := fork.Open(s.ctx, []byte(order.Source), config)
	switch {
	case x.overtime:
		err = errors.Join(err, closeMachine(s.ctx, m))
		return abi.LoadResult{Limit: x.ended(err)}
	case errors.Is(err, fork.ErrMemory), errors.Is(err, fork.ErrStack), errors.Is(err, fork.ErrDied):
		return abi.LoadResult{Refusal: abi.Refusal{Rule: "init", Reason: err.Error()}}
	case err != nil:
		return abi.LoadResult{Fault: err.Error()}
	}
	if _, err = s.greet(m); err == nil {
		err = s.shelf.put(order.Image, &entry{image: m.Base(), own: m})
	}
	if err != nil {
		return abi.LoadResult{Fault: errors.Join(err, m.Close(s.ctx)).Error()}
	}
	debug.FreeOSMemory()
	touch()
	return abi.LoadResult{}
}

func closeMachine(ctx context.Context, m *fork.Machine) error {
	if m == nil {
		return nil
	}
	return m.Close(ctx)
}

// arm prepares an instance for a session: its calls arrive here and the watch can end it.
func (s *server) arm(x *session) {
	x.instance.Host = x
	if !s.setup.Compiles { // compiled code reads no run id: it is ended with the process
		x.word = x.instance.Word(s.wordAt)
	}
}

// run is one run in a fresh instance.
func (s *server) run(x *session, payload []byte) abi.RunResult {
	order, err := abi.DecodeRunOrder(payload)
	if err != nil {
		return abi.RunResult{Fault: err.Error()}
	}
	began := time.Now()
	if x.instance, err = s.shelf.take(s.ctx, order.Image); err != nil {
		return abi.RunResult{Fault: err.Error()}
	}
	fork := time.Since(began)
	s.arm(x)
	said, err := x.say("whale_run", order.Start)
	result := abi.RunResult{Limit: x.ended(err), Nanoseconds: int(x.spent)}
	switch {
	case result.Limit.Kind != "":
	case errors.Is(err, errCancelled), x.cancelled:
		result.Fault = errCancelled.Error()
	case err != nil:
		result.End = abi.End{Status: abi.Panic, Text: err.Error()}
	default:
		if result.End, err = abi.DecodeEnd(said); err != nil {
			result.End = abi.End{Status: abi.Error, Text: err.Error()}
		}
		err = nil
	}
	began = time.Now()
	var back error
	if result.Pages, back = s.shelf.give(order.Image, x.instance, err != nil || x.overtime || x.cancelled); back != nil {
		result.Fault = back.Error()
	}
	result.Fork = int(fork + time.Since(began))
	return result
}
