// Package starlark is the embedded interpreter of the math domain's code tool: Starlark,
// with those habits of Python that a translator can turn into it.
//
// Programs run in worker processes of this very executable. Starlark has no input or
// output and counts its steps, but one step can allocate a gigabyte or recurse through
// the stack; so memory is bounded by the kernel, and a program that dies takes its worker
// along and nothing else.
//
// A program's output depends on the program alone, as long as it stays within the limits
// of steps and memory; the limit of time is far behind them and only a net.
//
// What it may not know: tasks, models.
// What it does not cover: classes, exceptions, generators that are kept, chained
// comparisons, modules besides math, itertools and functools.
package starlark

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Limits of one program.
const (
	maxSteps  = 20_000_000
	maxOutput = 16 << 10  // bytes printed
	maxMemory = 256 << 20 // bytes of writable memory beyond what a fresh worker has
	maxStack  = 64 << 20  // bytes of the worker's stack
	// netTime ends a program whose single steps are slow. Steps run out in about two seconds.
	netTime = 10 * time.Second
	// maxRuns ends a worker in time before its heap is full of other programs' rest.
	maxRuns = 10_000
)

// Interpreter runs programs in worker processes, as many as there are cores at most. The
// executable has to call WorkerMain first thing in main.
type Interpreter struct {
	places chan struct{}
	net    time.Duration // netTime, less in tests
	mu     sync.Mutex
	idle   []*process
	closed bool
}

// New makes an interpreter. Workers start when they are needed.
func New() *Interpreter {
	return &Interpreter{places: make(chan struct{}, runtime.GOMAXPROCS(0)), net: netTime}
}

// Dialect tells the model what it may write.
func (*Interpreter) Dialect() string {
	return "It is Starlark, a small Python: no classes, try, chained comparisons or modules besides math and itertools."
}

// Close ends the idle workers; programs that still run end their own.
func (i *Interpreter) Close() error {
	i.mu.Lock()
	idle := i.idle
	i.idle, i.closed = nil, true
	i.mu.Unlock()
	var errs []error
	for _, p := range idle {
		errs = append(errs, p.end())
	}
	return errors.Join(errs...)
}

// Run runs a program and returns what it printed, mistakes included. The error is the
// context's, or says that no worker can be started.
func (i *Interpreter) Run(ctx context.Context, program string) (string, error) {
	select {
	case i.places <- struct{}{}:
		defer func() { <-i.places }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	p, err := i.take()
	if err != nil {
		return "", fmt.Errorf("starlark worker: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, i.net, errNet)
	defer cancel()
	stop := context.AfterFunc(ctx, p.kill)
	output, err := p.run(program)
	stop()
	if err == nil {
		i.give(p)
		return output, nil
	}
	// Whatever broke: the worker is of no use any more. How it died is in err already.
	_ = p.end()
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errNet):
		return "Error: the program took too long", nil
	case cause != nil:
		return "", cause
	}
	return "Error: the program used too much memory or recursed too deep", nil
}

var errNet = errors.New("time limit of a program")

func (i *Interpreter) take() (*process, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n := len(i.idle); n > 0 {
		p := i.idle[n-1]
		i.idle = i.idle[:n-1]
		return p, nil
	}
	return start()
}

func (i *Interpreter) give(p *process) {
	i.mu.Lock()
	keep := !i.closed && p.runs < maxRuns
	if keep {
		i.idle = append(i.idle, p)
	}
	i.mu.Unlock()
	if !keep {
		_ = p.end() // it answered, so nothing is lost
	}
}

// process is one worker.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.ReadCloser
	runs int
}

// workerName is argv[0] of a worker.
const workerName = "whale-starlark"

func start() (*process, error) {
	if !registered {
		return nil, errors.New("main does not call starlark.WorkerMain")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: self, Args: []string{workerName}, Env: []string{"GOGC=100"}, Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, out: out}
	hello, err := receive(out)
	if err == nil && string(hello) != workerName {
		err = fmt.Errorf("said %.40q; main has to call starlark.WorkerMain first", hello)
	}
	if err != nil {
		p.kill()
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

func (p *process) run(program string) (string, error) {
	p.runs++
	if err := send(p.in, []byte(program)); err != nil {
		return "", err
	}
	raw, err := receive(p.out)
	if err != nil {
		return "", err
	}
	var output string
	err = json.Unmarshal(raw, &output)
	return output, err
}

// kill makes a pending run fail. A worker that is already dead is fine.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// end closes the worker's input, which it takes as its end, and waits for it.
func (p *process) end() error {
	err := p.in.Close()
	// A worker in the middle of a program would not notice its input closing.
	p.kill()
	var exit *exec.ExitError
	if wait := p.cmd.Wait(); !errors.As(wait, &exit) {
		err = errors.Join(err, wait)
	}
	return err
}

// maxFrame bounds a message between engine and worker.
const maxFrame = 1 << 20

func send(to io.Writer, payload []byte) error {
	frame := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	_, err := to.Write(append(frame, payload...))
	return err
}

func receive(from io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	payload := make([]byte, n)
	_, err := io.ReadFull(from, payload)
	return payload, err
}
