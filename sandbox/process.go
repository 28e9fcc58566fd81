package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
	"github.com/seed-7c27e6b8/whale/sandbox/worker"
)

// process is one worker process from start to death. It is never revived: its post
// starts another.
type process struct {
	cmd     *exec.Cmd
	conn    net.Conn
	memory  []byte       // shared with the worker, holds running
	running *abi.Running // nil after death, guarded by mu
	stderr  lastWords
	report  abi.Report

	ready chan struct{} // closed when report or failure is there
	dead  chan struct{} // closed after failure is set; nothing is read any more

	writing sync.Mutex
	frame   []byte // room to encode, guarded by writing

	mu        sync.Mutex
	sessions  map[uint32]chan abi.Frame
	last      uint32 // session number given out last
	images    map[engine.HarnessID]*loading
	lastImage uint32        // image number given out last
	clock     int           // orders the use of images
	stay      abi.Stay      // seen at the last look
	since     time.Duration // processor time of the worker when it was first seen
	blamed    uint32        // the session for which the process was killed
	failure   error         // why the process is dead
}

// startProcess starts a worker and gives it its setup; it doesn't wait until it is ready.
// The worker dies with the calling thread, which must last as long as this process.
func startProcess(config Config) (*process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "worker"), os.NewFile(uintptr(pair[1]), "engine")
	defer ours.Close()
	defer theirs.Close()
	shared, err := unix.MemfdCreate("whale-running", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	sharedFile := os.NewFile(uintptr(shared), "running")
	defer sharedFile.Close()
	if err := sharedFile.Truncate(abi.RunningSize); err != nil {
		return nil, err
	}
	p := &process{ready: make(chan struct{}), dead: make(chan struct{}),
		sessions: map[uint32]chan abi.Frame{}, images: map[engine.HarnessID]*loading{}}
	if p.memory, err = unix.Mmap(shared, 0, abi.RunningSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	p.running = abi.RunningAt(p.memory)
	if p.conn, err = net.FileConn(ours); err != nil {
		return nil, errors.Join(err, unix.Munmap(p.memory))
	}
	self, err := os.Executable()
	if err != nil {
		return nil, errors.Join(err, p.conn.Close(), unix.Munmap(p.memory))
	}
	p.cmd = &exec.Cmd{Path: self, Args: []string{"whale-sandbox"}, Env: worker.Environment(), Dir: "/",
		ExtraFiles: []*os.File{theirs, sharedFile}, Stderr: &p.stderr,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, p.conn.Close(), unix.Munmap(p.memory))
	}
	go p.read()
	p.send(abi.Frame{Kind: abi.FrameSetup, Payload: abi.AppendSetup(nil, setup(config))})
	return p, nil
}

// read delivers the worker's frames to the sessions until the worker is dead, and then
// cleans up behind it.
func (p *process) read() {
	in := bufio.NewReaderSize(p.conn, 64<<10)
	var err error
	for err == nil {
		var f abi.Frame
		if f, err = abi.ReadFrame(in); err == nil {
			err = p.deliver(f)
		}
	}
	// Whatever the reason: a worker that can't be heard is of no use.
	_ = p.cmd.Process.Kill()
	exit := p.cmd.Wait()
	p.mu.Lock()
	p.failure = fmt.Errorf("worker died: %w", errors.Join(exit, p.stderr.err()))
	if p.blamed != 0 {
		p.failure = errors.New("worker was killed with a guest that did not stop")
	}
	p.running = nil
	p.mu.Unlock()
	_ = unix.Munmap(p.memory)
	close(p.dead)
	select {
	case <-p.ready:
	default:
		close(p.ready)
	}
	_ = p.conn.Close()
	p.writing.Lock()
	p.conn = nil
	p.writing.Unlock()
}

func (p *process) deliver(f abi.Frame) (err error) {
	if f.Kind == abi.FrameReady {
		p.report, err = abi.DecodeReport(f.Payload)
		if err == nil && p.report.Fault != "" {
			err = errors.New(p.report.Fault)
			p.stderr.add(p.report.Fault)
		}
		if err == nil {
			close(p.ready)
		}
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	frames, ok := p.sessions[f.Session]
	if !ok {
		return nil // given up before
	}
	select {
	case frames <- f:
		return nil
	default:
		return errors.New("worker speaks out of turn")
	}
}

// send writes one frame. An error shows as the death of the process, on the reading side.
func (p *process) send(f abi.Frame) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.conn == nil {
		return
	}
	p.frame = abi.AppendFrame(p.frame[:0], f)
	if _, err := p.conn.Write(p.frame); err != nil {
		_ = p.cmd.Process.Kill()
	}
}

// open begins a session. A session gets one frame at a time, since the worker waits for
// an answer after each.
func (p *process) open() (uint32, chan abi.Frame) {
	frames := make(chan abi.Frame, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	p.sessions[p.last] = frames
	return p.last, frames
}

func (p *process) end(session uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, session)
}

func (p *process) load() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sessions)
}

// killOverdue kills the process if one stay in guest code has lasted longer than allowed,
// in processor time of the whole worker.
func (p *process) killOverdue(allowed time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil || p.blamed != 0 {
		return
	}
	var used unix.Timespec
	if err := unix.ClockGettime(processClock(p.cmd.Process.Pid), &used); err != nil {
		return // it is gone
	}
	now := time.Duration(used.Nano())
	stay := p.running.Now()
	switch {
	case stay.Session == 0 || stay != p.stay:
		p.stay, p.since = stay, now
	case now-p.since > allowed:
		p.blamed = stay.Session
		_ = p.cmd.Process.Kill()
	}
}

// processClock names the processor clock of a process (the kernel's encoding: ones'
// complement of the id, three bits of flags).
func processClock(pid int) int32 { return int32(^pid<<3 | 2) }

// why says why a process is dead and which session, if any, it was killed for.
func (p *process) why() (blamed uint32, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blamed, p.failure
}

// lastWords keeps the beginning of what a worker writes to its standard error.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (w *lastWords) Write(b []byte) (int, error) {
	w.add(string(b))
	return len(b), nil
}

func (w *lastWords) add(text string) {
	const most = 1 << 10
	w.mu.Lock()
	defer w.mu.Unlock()
	if room := most - len(w.text); room > 0 {
		w.text = append(w.text, text[:min(room, len(text))]...)
	}
}

func (w *lastWords) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.text) == 0 {
		return nil
	}
	return errors.New(string(w.text))
}
