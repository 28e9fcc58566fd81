package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7c27e6b8/whale/sandbox/abi"
	"github.com/seed-7c27e6b8/whale/sandbox/fork"
	"github.com/seed-7c27e6b8/whale/sandbox/image"
)

// server is the whole of a worker.
type server struct {
	ctx     context.Context
	setup   abi.Setup
	machine *fork.Machine
	wordAt  uint32 // address of the interpreter's run id in every guest
	watch   *watch
	slot    slot
	shelf   shelf // guarded by the slot

	writing sync.Mutex
	conn    net.Conn
	frame   []byte // room to encode, guarded by writing

	mu       sync.Mutex
	sessions map[uint32]*session
}

// slot is the right to run guest code, to touch images and instances and to collect
// garbage. Whoever waits for the engine's process doesn't hold it.
type slot chan struct{}

func (s slot) acquire() { s <- struct{}{} }
func (s slot) release() { <-s }

// run serves the socket until it closes; the result is the exit status.
func run(confinement []string) int {
	// Compiled guest code never stops for the collector; see shelf.collect.
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(2)
	conn, err := net.FileConn(os.NewFile(socketFD, "socket"))
	if err != nil {
		return fail(err)
	}
	memory, err := unix.Mmap(runningFD, 0, abi.RunningSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fail(err)
	}
	s := &server{ctx: context.Background(), conn: conn, slot: make(slot, 1), sessions: map[uint32]*session{}}
	s.watch = &watch{running: abi.RunningAt(memory)}
	in := bufio.NewReaderSize(conn, 64<<10)
	first, err := abi.ReadFrame(in)
	if err != nil {
		return fail(err)
	}
	if s.setup, err = abi.DecodeSetup(first.Payload); err != nil {
		return fail(err)
	}
	report := s.open()
	report.Confinement = confinement
	s.send(abi.Frame{Kind: abi.FrameReady, Payload: abi.AppendReport(nil, report)})
	if report.Fault != "" {
		return 1
	}
	go s.watch.loop()
	for {
		f, err := abi.ReadFrame(in)
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			return fail(err)
		}
		s.dispatch(f)
	}
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "sandbox worker:", err)
	return 1
}

// open starts the machine.
func (s *server) open() abi.Report {
	module, err := image.Guest()
	if err != nil {
		return abi.Report{Fault: err.Error()}
	}
	s.machine, err = fork.Open(s.ctx, module, fork.Config{
		CacheDir: s.setup.CacheDir, MaxMemory: s.setup.MaxMemory, Copying: s.setup.Copying,
	})
	if err == nil {
		err = s.greet()
	}
	if err != nil {
		return abi.Report{Fault: err.Error()}
	}
	s.shelf = newShelf(s.machine)
	debug.FreeOSMemory() // compiling took several times what running takes
	return abi.Report{Fallbacks: s.machine.Fallbacks(), Pages: s.machine.Base().Size() / 4096}
}

// greet checks that the guest was built from this tree and asks where its run id is.
func (s *server) greet() error {
	i, err := s.machine.Fork(s.ctx, s.machine.Base())
	if err != nil {
		return err
	}
	version, err := i.Call("whale_version")
	if err == nil && version != abi.Version {
		err = fmt.Errorf("sandbox image: built for version %d, not %d: run make", version, abi.Version)
	}
	at, failed := i.Call("whale_word")
	s.wordAt = uint32(at)
	if failed == nil && i.Word(s.wordAt) == nil {
		failed = fmt.Errorf("sandbox image: no run id at %#x", at)
	}
	return errors.Join(err, failed, i.Close())
}

// send writes one frame. A broken socket means that the engine's process is gone, and
// the reading side ends this one.
func (s *server) send(f abi.Frame) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.frame = abi.AppendFrame(s.frame[:0], f)
	if _, err := s.conn.Write(s.frame); err != nil {
		os.Exit(0)
	}
}

func (s *server) dispatch(f abi.Frame) {
	switch f.Kind {
	case abi.FrameLoad, abi.FrameRun:
		x := &session{id: f.Session, server: s, answers: make(chan []byte, 1), cancel: make(chan struct{}),
			left: time.Duration(s.setup.MaxTime)}
		s.mu.Lock()
		s.sessions[f.Session] = x
		s.mu.Unlock()
		go s.serve(x, f)
	case abi.FrameAnswer:
		if x := s.session(f.Session); x != nil {
			x.answers <- f.Payload
		}
	case abi.FrameCancel:
		if x := s.session(f.Session); x != nil {
			close(x.cancel)
		}
	case abi.FrameDrop:
		// Not here: a guest may hold the slot, and the reader must go on to hear that it
		// is cancelled.
		go func() {
			s.slot.acquire()
			defer s.slot.release()
			s.shelf.drop(f.Session)
		}()
	}
}

// session finds the session of a frame; it may have ended already.
func (s *server) session(id uint32) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

func (s *server) serve(x *session, f abi.Frame) {
	reply := abi.Frame{Session: x.id}
	s.slot.acquire()
	if f.Kind == abi.FrameLoad {
		reply.Kind, reply.Payload = abi.FrameLoaded, abi.AppendLoadResult(nil, s.load(x, f.Payload))
	} else {
		reply.Kind, reply.Payload = abi.FrameDone, abi.AppendRunResult(nil, s.run(x, f.Payload))
	}
	s.shelf.collect()
	s.slot.release()
	s.mu.Lock()
	delete(s.sessions, x.id)
	s.mu.Unlock()
	s.send(reply)
}

// load makes an image of a source.
func (s *server) load(x *session, payload []byte) (result abi.LoadResult) {
	order, err := abi.DecodeLoadOrder(payload)
	if err != nil {
		return abi.LoadResult{Fault: err.Error()}
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
	if err := s.shelf.put(order.Image, made); err != nil {
		return abi.LoadResult{Fault: err.Error()}
	}
	return abi.LoadResult{}
}

// arm prepares an instance for a session: its calls arrive here and the watch can end it.
func (s *server) arm(x *session) {
	x.instance.Host = x
	x.word = x.instance.Word(s.wordAt)
}

// run is one run in a fresh instance.
func (s *server) run(x *session, payload []byte) abi.RunResult {
	order, err := abi.DecodeRunOrder(payload)
	if err != nil {
		return abi.RunResult{Fault: err.Error()}
	}
	if x.instance, err = s.shelf.take(s.ctx, order.Image); err != nil {
		return abi.RunResult{Fault: err.Error()}
	}
	s.arm(x)
	said, err := x.say("whale_run", order.Start)
	result := abi.RunResult{Limit: x.ended(err), Nanoseconds: int(x.spent)}
	switch {
	case result.Limit.Kind != "":
	case errors.Is(err, errCancelled), x.cancelled():
		result.Fault = errCancelled.Error()
	case err != nil:
		result.End = abi.End{Status: abi.Panic, Text: err.Error()}
	default:
		if result.End, err = abi.DecodeEnd(said); err != nil {
			result.End = abi.End{Status: abi.Error, Text: err.Error()}
		}
		err = nil
	}
	var back error
	if result.Pages, back = s.shelf.give(order.Image, x.instance, err != nil || x.overtime); back != nil {
		result.Fault = back.Error()
	}
	return result
}
