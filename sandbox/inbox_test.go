package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// workerless is a process without a worker behind it: the test is the worker, at the other end
// of the socket.
func workerless(t *testing.T) (*process, *abi.Link) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	p := &process{ready: make(chan struct{}), dead: make(chan struct{}), call: make(chan struct{}, 1),
		sessions: map[uint32]*seat{}, cancelled: map[uint32]bool{}, link: abi.NewLink(ours), cmd: &exec.Cmd{Process: &os.Process{}}}
	p.free = sync.NewCond(&p.mu)
	p.outbox = newOutbox(p.link, p.kill)
	p.reading = true
	var standby sync.WaitGroup
	standby.Go(p.standby)
	t.Cleanup(func() { // nobody reads a descriptor that is closed: its number may be another's then
		err := theirs.Close()
		close(p.dead)
		standby.Wait()
		if err := errors.Join(err, ours.Close()); err != nil {
			t.Error(err)
		}
	})
	worker := abi.NewLink(theirs)
	if err := worker.Write(abi.AppendFrame(nil, abi.Frame{Kind: abi.FrameReady, Payload: abi.AppendReport(nil, abi.Report{})})); err != nil {
		t.Fatal(err)
	}
	<-p.ready
	return p, worker
}

// echoes answers n frames, each with its own payload.
func echoes(link *abi.Link, n int, kind func(asked int) abi.Kind) error {
	for asked := 0; asked < n; {
		if err := link.Fill(); err != nil {
			return err
		}
		var out []byte
		for f, ok, err := link.Next(); ok || err != nil; f, ok, err = link.Next() {
			if err != nil {
				return err
			}
			asked++
			f.Kind = kind(asked)
			out = abi.AppendFrame(out, f)
		}
		if err := link.Write(out); err != nil {
			return err
		}
	}
	return nil
}

func calls(int) abi.Kind { return abi.FrameCall }

// TestExchange: sessions alone, together, and with frames too large to be written at once, each
// get their own answers.
func TestExchange(t *testing.T) {
	for _, shape := range []struct{ sessions, turns, size int }{{1, 50, 10}, {7, 50, 100}, {3, 4, 300 << 10}} {
		p, worker := workerless(t)
		worked := make(chan error, 1)
		go func() { worked <- echoes(worker, shape.sessions*shape.turns, calls) }()
		var all sync.WaitGroup
		for n := range shape.sessions {
			all.Go(func() {
				id, s := p.open()
				defer p.end(id)
				for turn := range shape.turns {
					want := strings.Repeat(fmt.Sprintf("%d.%d ", n, turn), shape.size/4)
					f, ok := p.exchange(id, s, abi.Frame{Kind: abi.FrameAnswer, Session: id, Payload: []byte(want)})
					if !ok || f.Session != id || string(f.Payload) != want {
						t.Errorf("%+v: session %d turn %d: another's answer, of session %d", shape, id, turn, f.Session)
						return
					}
				}
			})
		}
		all.Wait()
		if err := <-worked; err != nil {
			t.Error(err)
		}
		if p.waiting != 0 || len(p.sessions) != 0 {
			t.Errorf("%+v: %d waiting, %d sessions are left", shape, p.waiting, len(p.sessions))
		}
	}
}

// TestSeats: the seat of a session that the worker ended serves the next; one that was given up
// doesn't, for its answer may still come.
func TestSeats(t *testing.T) {
	p, worker := workerless(t)
	worked := make(chan error, 1)
	go func() { worked <- echoes(worker, 1, func(int) abi.Kind { return abi.FrameDone }) }()
	id, first := p.open()
	if _, ok := p.exchange(id, first, abi.Frame{Kind: abi.FrameRun, Session: id}); !ok {
		t.Fatal("no answer")
	}
	if err := <-worked; err != nil {
		t.Fatal(err)
	}
	p.end(id)
	id, given := p.open()
	if given != first || given.ended || given.waits {
		t.Errorf("a seat %+v, not the one that is free", given)
	}
	p.end(id) // nothing was asked: not ended by the worker
	if id, s := p.open(); s == given {
		t.Errorf("session %d has a seat to which a frame may come", id)
	}
}

// TestOutOfTurn: a worker that answers what nobody asked isn't read any further.
func TestOutOfTurn(t *testing.T) {
	p, worker := workerless(t)
	p.mu.Lock()
	for p.reading { // by standby
		p.free.Wait()
	}
	p.mu.Unlock()
	id, _ := p.open()
	if err := worker.Write(abi.AppendFrame(nil, abi.Frame{Kind: abi.FrameCall, Session: id})); err != nil {
		t.Fatal(err)
	}
	if err := p.receive(); err == nil || !strings.Contains(err.Error(), "out of turn") {
		t.Error(err)
	}
	if err := worker.Write(abi.AppendFrame(nil, abi.Frame{Kind: abi.FrameDone, Session: id + 1})); err != nil {
		t.Fatal(err)
	}
	if err := p.receive(); err != nil {
		t.Error("a frame of a session that was given up:", err)
	}
}

// TestOneProcessor: where the runtime has one processor the poller waits for the worker; runs end
// the same, also when the worker is killed.
func TestOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	box := openOwn(t, Config{Workers: 1})
	defer closeBox(t, box)
	p := load(t, box, fourTurns)
	var all sync.WaitGroup
	for range 9 {
		all.Go(func() {
			if _, err := p.Run(t.Context(), engine.Start{Input: "q"}, &script{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	worker := box.workers[0].peek()
	worker.kill()
	<-worker.dead
	if _, err := p.Run(t.Context(), engine.Start{Input: "q"}, &script{}); err != nil {
		t.Error("after a kill:", err)
	}
}
