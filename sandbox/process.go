package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
	"github.com/seed-7c27e6b8/whale/sandbox/worker"
)

// process is one worker process from start to death. It is never revived: its post
// starts another. Its frames are read by whoever waits for one; see inbox.go.
type process struct {
	cmd     *exec.Cmd
	memory  []byte       // shared with the worker, holds running
	running *abi.Running // nil after death, guarded by mu
	stderr  lastWords
	report  abi.Report

	ready chan struct{} // closed when report or failure is there
	dead  chan struct{} // closed, holding mu, after failure is set; nothing is read any more

	outbox *outbox
	link   *abi.Link     // read by the holder of reading
	free   *sync.Cond    // on mu: reading became false
	call   chan struct{} // wakes standby

	mu        sync.Mutex
	reading   bool    // somebody reads
	waiting   int     // sessions that wait for a frame
	seats     []*seat // of sessions that ended
	sessions  map[uint32]*seat
	cancelled map[uint32]bool // sessions given up whose end the worker has not reported
	heard     time.Time       // when the last frame came, or the first of those waiting began to wait
	last      uint32          // session number given out last
	images    map[engine.HarnessID]*loading
	lastImage uint32        // image number given out last
	clock     int           // orders the use of images
	looks     int           // how often killOverdue looked
	stay      abi.Stay      // seen at the last look
	since     time.Duration // processor time of the worker when it was first seen
	blamed    uint32        // the session for which the process was killed
	verdict   string        // why the process was killed, if not for a session
	failure   error         // why the process is dead
}

// startProcess starts a worker and gives it its setup; it doesn't wait until it is ready.
// The worker dies with the calling thread, which must last as long as this process.
func startProcess(config Config, compiles bool) (*process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "engine")
	defer theirs.Close()
	socket, err := socketOf(pair[0])
	if err != nil {
		return nil, errors.Join(err, unix.Close(pair[0]))
	}
	sharedFile, err := sharedMemory(config.without)
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	defer sharedFile.Close()
	if err := sharedFile.Truncate(abi.RunningSize); err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	p := &process{ready: make(chan struct{}), dead: make(chan struct{}), call: make(chan struct{}, 1),
		sessions: map[uint32]*seat{}, cancelled: map[uint32]bool{}, images: map[engine.HarnessID]*loading{}}
	p.free = sync.NewCond(&p.mu)
	if p.memory, err = unix.Mmap(int(sharedFile.Fd()), 0, abi.RunningSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("mmap: %w", err), socket.Close())
	}
	p.running = abi.RunningAt(p.memory)
	self, err := os.Executable()
	if err != nil {
		return nil, errors.Join(err, socket.Close(), unix.Munmap(p.memory))
	}
	p.cmd = &exec.Cmd{Path: self, Args: []string{"whale-sandbox"}, Env: worker.Environment(config.CacheDir, config.without), Dir: "/",
		ExtraFiles: []*os.File{theirs, sharedFile}, Stderr: &p.stderr,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, socket.Close(), unix.Munmap(p.memory))
	}
	p.link = abi.NewLink(socket)
	p.outbox = newOutbox(p.link, p.kill)
	p.reading = true // by standby, until the worker is ready
	go p.standby()
	go p.bury(socket)
	p.outbox.send(abi.Frame{Kind: abi.FrameSetup, Payload: abi.AppendSetup(nil, setup(config, compiles))})
	return p, nil
}

// socketOf is this process's end of a worker's socket. A read that blocks its thread costs least,
// but keeps one of the runtime's processors: if there is only one, the runtime's monitor takes
// it back, every time, and is woken for that. Then the runtime's poller waits, which a file
// uses whose descriptor does not block.
func socketOf(fd int) (*os.File, error) {
	if runtime.GOMAXPROCS(0) == 1 {
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, fmt.Errorf("socket without waiting: %w", err)
		}
	}
	return os.NewFile(uintptr(fd), "worker"), nil
}

// sharedMemory is a file without a name, of which both sides map the beginning: a memfd, or a
// file that was removed where the kernel has none.
func sharedMemory(without abi.Lacking) (*os.File, error) {
	if without&abi.NoMemfd == 0 {
		fd, err := unix.MemfdCreate("whale-running", unix.MFD_CLOEXEC)
		if err == nil {
			return os.NewFile(uintptr(fd), "running"), nil
		}
		if !errors.Is(err, unix.ENOSYS) {
			return nil, fmt.Errorf("memfd_create: %w", err)
		}
	}
	file, err := os.CreateTemp("", "whale-running-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// kill ends the worker; bury does the rest. It may be gone already.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// bury waits for the worker's death, delivers its last words and cleans up behind it.
func (p *process) bury(socket *os.File) {
	exit := p.cmd.Wait()
	p.mu.Lock()
	for p.reading {
		p.free.Wait()
	}
	p.reading = true
	p.mu.Unlock()
	for p.receive() == nil {
	}
	p.outbox.close()
	p.mu.Lock()
	p.failure = fmt.Errorf("worker died: %w", errors.Join(exit, p.stderr.err()))
	switch {
	case p.blamed != 0:
		p.failure = errors.New("worker was killed with a guest that did not stop")
	case p.verdict != "":
		p.failure = errors.New("worker was killed: " + p.verdict)
	}
	p.running = nil
	p.mu.Unlock()
	_ = unix.Munmap(p.memory)
	_ = socket.Close()
	p.mu.Lock()
	close(p.dead) // first: who sees its session end and begins another must find another process
	for _, s := range p.sessions {
		close(s.frames)
	}
	p.mu.Unlock()
	select {
	case <-p.ready:
	default:
		close(p.ready)
	}
}

// gone says whether the process is dead.
func (p *process) gone() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

func (p *process) load(id engine.HarnessID, missing int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.images[id] == nil {
		return len(p.sessions) + missing
	}
	return len(p.sessions)
}

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
