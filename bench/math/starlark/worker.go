package starlark

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	lib "go.starlark.net/starlark"
	"go.starlark.net/syntax"
	"golang.org/x/sys/unix"
)

// WorkerMain turns the process into a worker when it was started as one, and never
// returns then. Call it first thing in main and TestMain.
func WorkerMain() {
	registered = true
	if len(os.Args) == 0 || os.Args[0] != workerName {
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != io.EOF {
		fmt.Fprintln(os.Stderr, workerName+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// registered: this executable can be a worker. Started again without that, it would do
// again whatever its main does.
var registered bool

// serve runs programs until the input ends, which is io.EOF.
func serve(from io.Reader, to io.Writer) error {
	begin, err := dataBytes()
	if err != nil {
		return fmt.Errorf("size of memory: %w", err)
	}
	limit := unix.Rlimit{Cur: begin + maxMemory, Max: begin + maxMemory}
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return fmt.Errorf("limit of memory: %w", err)
	}
	core := unix.Rlimit{}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return fmt.Errorf("limit of core files: %w", err)
	}
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(maxMemory / 2)
	if err := send(to, []byte(workerName)); err != nil {
		return err
	}
	for {
		program, err := receive(from)
		if err != nil {
			return err
		}
		output, err := json.Marshal(execute(string(program)))
		if err != nil {
			return err
		}
		if err := send(to, output); err != nil {
			return err
		}
	}
}

// dataBytes is the writable memory that the process has already, which the limit counts
// too: for the worker of a large program that may be much.
func dataBytes() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "\nVmData:")
	line, _, _ := strings.Cut(rest, "\n")
	kilobytes, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(line), " kB"), 10, 64)
	return kilobytes << 10, err
}

var options = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// execute runs one program within the limits of steps and output.
func execute(program string) string {
	var output printer
	source, err := translate(program)
	if err != nil {
		return "Error: " + err.Error()
	}
	thread := &lib.Thread{Name: "program"}
	thread.SetLocal(outputKey, &output)
	thread.SetMaxExecutionSteps(maxSteps)
	thread.OnMaxSteps = func(t *lib.Thread) { t.Cancel("too many steps") }
	_, err = lib.ExecFileOptions(options, thread, "program", source, predeclared())
	text := output.String()
	if err != nil {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += "Error: " + describe(err)
	}
	return text
}

// describe is a mistake in a line or two, with its place in the program.
func describe(err error) string {
	text := err.Error()
	if failed, ok := err.(*lib.EvalError); ok {
		for i := range failed.CallStack {
			at := failed.CallStack.At(i).Pos
			if at.Filename() == "program" {
				return fmt.Sprintf("line %d: %s", at.Line, text)
			}
		}
	}
	return strings.TrimPrefix(text, "program:")
}

// printer holds what a program printed, up to maxOutput.
type printer struct {
	strings.Builder
	full bool
}

func (p *printer) print(text string) error {
	if p.full {
		return errOutput
	}
	if p.Len()+len(text) > maxOutput {
		p.full = true
		p.WriteString(text[:maxOutput-p.Len()])
		return errOutput
	}
	p.WriteString(text)
	return nil
}

var errOutput = fmt.Errorf("more than %d bytes printed", maxOutput)

const outputKey = "output"
