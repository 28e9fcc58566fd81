// Package micropython is an interpreter of the math domain's code tool: MicroPython as
// WebAssembly, run by wazero. It knows more Python than Starlark does (classes,
// exceptions, generators, f-strings) and needs a file that is not part of this
// repository: micropython.wasm of the npm package
// @micropython/micropython-webassembly-pyscript, version 1.27.0.
//
// A program gets a fresh instance with a bounded memory and no file, clock, network or
// JavaScript; its random numbers are the same every time. Time is bounded by the clock,
// since wazero counts no steps: a program near the limit may end on one machine and not
// on another.
//
// What it may not know: tasks, models.
// What it does not cover: builds of MicroPython with other imports or exports.
package micropython

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// Limits of one program.
const (
	maxOutput = 16 << 10 // bytes printed
	heapBytes = 1 << 20  // of Python objects to begin with; it grows
	maxPages  = 1024     // of 64 KiB, the heap and the stack included
	maxTime   = 10 * time.Second
	// pyStack is the size of MicroPython's own stack in bytes, as its loader sets it.
	pyStack = 8192
)

// Interpreter runs programs on one compiled module. It may be used from many goroutines.
type Interpreter struct {
	path    string
	maxTime time.Duration // maxTime, less in tests
	once    sync.Once
	err     error // of loading, for good
	runtime wazero.Runtime
	module  wazero.CompiledModule
}

// New names the file. It is read and compiled, which takes about a second, when the first
// program runs.
func New(path string) *Interpreter { return &Interpreter{path: path, maxTime: maxTime} }

// Dialect tells the model what it may write.
func (*Interpreter) Dialect() string {
	return "It is MicroPython 1.27 with math, re, json, collections and random, without files or other packages."
}

// Close frees the compiled module. No program may run any more.
func (i *Interpreter) Close() error {
	if i.runtime == nil {
		return nil
	}
	return i.runtime.Close(context.Background())
}

func (i *Interpreter) load() {
	raw, err := os.ReadFile(i.path)
	if err != nil {
		i.err = err
		return
	}
	ctx := context.Background()
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(maxPages).WithCloseOnContextDone(true)
	i.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if i.module, i.err = i.runtime.CompileModule(ctx, raw); i.err != nil {
		return
	}
	if i.err = checkExports(i.module); i.err != nil {
		return
	}
	if _, i.err = wasi_snapshot_preview1.Instantiate(ctx, i.runtime); i.err != nil {
		return
	}
	i.err = instantiateEnv(ctx, i.runtime, i.module)
}

// exports are the functions that Run calls.
var exports = []string{"emscripten_stack_init", "__wasm_call_ctors", "mp_js_init", "proxy_c_init", "mp_js_do_exec", "malloc", "fflush"}

// ErrModule: the file is WebAssembly, but not the MicroPython that this package can host.
var ErrModule = errors.New("not the MicroPython module")

func checkExports(module wazero.CompiledModule) error {
	have := module.ExportedFunctions()
	for _, name := range exports {
		if have[name] == nil {
			return fmt.Errorf("%w: it has no %s", ErrModule, name)
		}
	}
	return nil
}

// Run runs a program and returns what it printed, mistakes included. An error is the
// context's, or says that the module can't be loaded or started.
func (i *Interpreter) Run(ctx context.Context, program string) (string, error) {
	if i.once.Do(i.load); i.err != nil {
		return "", fmt.Errorf("micropython: %w", i.err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, i.maxTime, errTime)
	defer cancel()
	out := &printer{stop: cancel}
	session := &session{out: out}
	ctx = context.WithValue(ctx, sessionKey{}, session)
	instance, err := i.runtime.InstantiateModule(ctx, i.module,
		wazero.NewModuleConfig().WithName("").WithStartFunctions().WithStdout(out).WithStderr(out))
	if err != nil {
		return "", fmt.Errorf("micropython: %w", cause(ctx, err))
	}
	started, mistake, err := execute(ctx, instance, program)
	// The instance is gone whatever closing it says; a context that ended closed it already.
	_ = instance.Close(context.Background())
	text := out.text.String()
	switch {
	case err == nil && mistake == "":
		return text, nil
	case err == nil:
		return withError(text, mistake), nil
	case out.full:
		return withError(text, "too much output"), nil
	case errors.Is(context.Cause(ctx), errTime):
		return withError(text, "the program took too long"), nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case !started:
		return "", fmt.Errorf("micropython: %w", err)
	}
	// A trap: the stack or the memory is used up, or it reached for JavaScript.
	return withError(text, "the program broke the interpreter: "+firstLine(err.Error())), nil
}

var errTime = errors.New("time limit of a program")

// cause prefers the reason of an ended context over its trace in the runtime.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func withError(text, mistake string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + "Error: " + mistake
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// execute starts the interpreter and runs the program in it. started tells whether the
// program got its turn; mistake is the exception that ended it.
func execute(ctx context.Context, instance api.Module, program string) (started bool, mistake string, err error) {
	call := func(name string, args ...uint64) (uint64, error) {
		results, err := instance.ExportedFunction(name).Call(ctx, args...)
		if err != nil || len(results) == 0 {
			return 0, err
		}
		return results[0], nil
	}
	for _, step := range []struct {
		name string
		args []uint64
	}{{"emscripten_stack_init", nil}, {"__wasm_call_ctors", nil}, {"mp_js_init", []uint64{pyStack, heapBytes}}, {"proxy_c_init", nil}} {
		if _, err := call(step.name, step.args...); err != nil {
			return false, "", err
		}
	}
	memory := instance.Memory()
	source, err := call("malloc", uint64(len(program)+1))
	if err != nil {
		return false, "", err
	}
	result, err := call("malloc", resultBytes)
	if err != nil {
		return false, "", err
	}
	if source == 0 || result == 0 || !memory.Write(uint32(source), append([]byte(program), 0)) {
		return false, "", errors.New("no memory for the program")
	}
	if _, err := call("mp_js_do_exec", source, uint64(len(program)), result); err != nil {
		return true, "", err
	}
	if _, err := call("fflush", 0); err != nil {
		return true, "", err
	}
	return true, exception(memory, uint32(result)), nil
}

// resultBytes is the size of the struct that mp_js_do_exec fills: kind, then for an
// exception length and address of its text.
const resultBytes = 12

// exceptionKind marks an exception.
const exceptionKind = ^uint32(0)

// exception is the text of the exception in a result, "" when there is none. The text is
// the type, a byte 4 and the traceback.
func exception(memory api.Memory, result uint32) string {
	kind, ok := memory.ReadUint32Le(result)
	if !ok || kind != exceptionKind {
		return ""
	}
	length, first := memory.ReadUint32Le(result + 4)
	address, second := memory.ReadUint32Le(result + 8)
	if !first || !second {
		return "an exception without text"
	}
	raw, ok := memory.Read(address, min(length, maxOutput))
	if !ok {
		return "an exception without text"
	}
	_, trace, found := strings.Cut(string(raw), "\x04")
	if !found {
		trace = string(raw)
	}
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(trace, "\uFFFD")), "\n")
	return strings.Join(lines[max(0, len(lines)-2):], "\n")
}

// printer takes what a program prints, up to maxOutput; then it ends the program.
type printer struct {
	text strings.Builder
	full bool
	stop func()
}

func (p *printer) Write(b []byte) (int, error) {
	room := maxOutput - p.text.Len()
	p.text.Write(b[:min(len(b), room)])
	if len(b) > room {
		p.full = true
		p.stop()
	}
	return len(b), nil
}
