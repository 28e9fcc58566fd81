// Package python is an interpreter of the math domain's code tool: the python3 of this
// machine, with whatever packages it has.
//
// It runs machine code with the system's calls, so every program gets a process of its own
// under a sandbox worker's confinement (package sandbox/worker, Foreign): no network, no
// other process, no privileges, no file but Python's own and an empty folder that is
// removed afterwards, bounded memory, time and output. On a system that can't do all of
// that, programs are refused with an error; there is no mode without.
//
// Hashes and the random module start the same every time; the clock is real.
//
// What it may not know: tasks, models.
// What it does not cover: Windows and macOS, kernels without Landlock, packages that start
// processes.
package python

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed-7c27e6b8/whale/sandbox/worker"
)

// Limits of one program.
const (
	maxOutput  = 16 << 10  // bytes printed
	maxMemory  = 512 << 20 // bytes of writable memory
	maxSeconds = 10        // of processor time
	maxFile    = 16 << 20  // bytes of a file in its folder
	netTime    = 15 * time.Second
)

// Interpreter runs programs, as many at once as there are cores.
type Interpreter struct {
	command string
	places  chan struct{}
	net     time.Duration // netTime, less in tests

	once sync.Once
	err  error // of finding Python, for good
	home home
}

// home is where this Python has its files.
type home struct {
	Executable string   `json:"executable"`
	Paths      []string `json:"paths"`
}

// New names the interpreter, "python3" or a path. It is looked up when the first program
// runs. The executable has to call WorkerMain first thing in main.
func New(command string) *Interpreter {
	return &Interpreter{command: command, places: make(chan struct{}, runtime.GOMAXPROCS(0)), net: netTime}
}

// Dialect tells the model what it may write.
func (*Interpreter) Dialect() string { return "It is Python 3, without network and files." }

// ask prints what find reads; site-packages may lie outside of the prefixes.
const ask = `import sys, json; print(json.dumps({"executable": sys.executable, "paths": [sys.base_prefix + "/lib", sys.prefix + "/lib"] + sys.path}))`

// find asks Python, unconfined and with a program of ours, where it lives: the command is
// often a script that looks for the real one.
func (i *Interpreter) find() {
	out, err := exec.Command(i.command, "-I", "-c", ask).Output()
	if err == nil {
		err = json.Unmarshal(out, &i.home)
	}
	if err == nil {
		i.home.Executable, err = filepath.EvalSymlinks(i.home.Executable)
	}
	if err != nil {
		i.err = fmt.Errorf("%s: %w", i.command, err)
	}
}

// Run runs a program and returns what it printed, mistakes included. An error is the
// context's, or says that Python can't be found, started or confined; errors.Is tells the
// last as worker.ErrConfine.
func (i *Interpreter) Run(ctx context.Context, program string) (string, error) {
	if i.once.Do(i.find); i.err != nil {
		return "", i.err
	}
	select {
	case i.places <- struct{}{}:
		defer func() { <-i.places }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	folder, err := os.MkdirTemp("", "whale-python-")
	if err != nil {
		return "", err
	}
	output, err := i.run(ctx, folder, program)
	return output, errors.Join(err, os.RemoveAll(folder))
}

func (i *Interpreter) run(ctx context.Context, folder, program string) (string, error) {
	if !registered {
		return "", errors.New("main does not call python.WorkerMain")
	}
	order, err := json.Marshal(worker.Foreign{Path: i.home.Executable, Args: []string{"python3", "-c", boot},
		Env: environment, Read: i.home.Paths, Write: folder, Memory: maxMemory, Seconds: maxSeconds, File: maxFile})
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	hear, say, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer hear.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, i.net, errTime)
	defer cancel()
	out := &printer{full: cancel}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args, cmd.Dir, cmd.Env = []string{workerName}, "/", []string{orderVariable + "=" + string(order)}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = strings.NewReader(program), out, out, []*os.File{say}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return "", errors.Join(err, say.Close())
	}
	closed := say.Close()
	report, heard := io.ReadAll(io.LimitReader(hear, 4096)) // ends when the worker has become Python or died
	exit := cmd.Wait()
	switch {
	case errors.Join(closed, heard) != nil:
		return "", errors.Join(closed, heard)
	case string(report) != ready:
		return "", refusal(string(report), exit)
	}
	return verdict(ctx, out, exit)
}

// refusal is the error of a worker that never became Python.
func refusal(report string, exit error) error {
	if reason, ok := strings.CutPrefix(report, unconfined); ok {
		return fmt.Errorf("python worker: %w%s", worker.ErrConfine, reason)
	}
	return fmt.Errorf("python worker: %s: %w", report, errors.Join(exit, errors.New("it did not start")))
}

// verdict is what the model reads of a program that has ended.
func verdict(ctx context.Context, out *printer, exit error) (string, error) {
	text := out.text.String()
	if text != "" && !strings.HasSuffix(text, "\n") && exit != nil {
		text += "\n"
	}
	var died *exec.ExitError
	cause := context.Cause(ctx)
	switch {
	case out.cut:
		return text + fmt.Sprintf("Error: more than %d bytes printed", maxOutput), nil
	case errors.Is(cause, errTime):
		return text + "Error: the program took too long", nil
	case cause != nil:
		return "", cause
	case errors.As(exit, &died) && !died.Exited():
		return text + "Error: the program was stopped: too much time or memory", nil
	case exit != nil && !errors.As(exit, &died):
		return "", exit
	}
	return text, nil // a mistake is in what Python printed
}

var errTime = errors.New("time limit of a program")

// environment of every program: no path, no user's files, the same hashes every time.
var environment = []string{"PYTHONHASHSEED=0", "PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONSAFEPATH=1",
	"PYTHONIOENCODING=utf-8", "LC_ALL=C.UTF-8", "HOME=/nonexistent", "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1"}

// boot runs the program from standard input and shows a mistake without boot's own frame.
const boot = `import sys, random
random.seed(0)
try:
    exec(compile(sys.stdin.buffer.read().decode("utf-8", "replace"), "program", "exec"), {"__name__": "__main__"})
except SystemExit:
    raise
except BaseException as mistake:
    import traceback
    frames = mistake.__traceback__.tb_next
    traceback.print_exception(type(mistake), mistake, frames, limit=-4, chain=False)
    sys.exit(1)
`

// printer holds what a program printed, standard error with it, and ends it when that is
// too much.
type printer struct {
	text strings.Builder
	cut  bool
	full func()
}

// Write is called by one goroutine, since standard output and error are the same writer.
func (p *printer) Write(b []byte) (int, error) {
	if room := maxOutput - p.text.Len(); len(b) > room {
		p.text.Write(b[:room])
		p.cut = true
		p.full()
		return len(b), nil
	}
	return p.text.Write(b)
}
