//go:build wasip1

package main

import (
	"bytes"
	"fmt"
	"go/parser"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"sync/atomic"
	"unsafe"

	"github.com/traefik/yaegi/interp"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
	"github.com/seed-7c27e6b8/whale/sandbox/guest/symbols"
)

// yaegi is one interpreter, made once when the guest starts.
type yaegi struct{ *interp.Interpreter }

func newInterpreter() yaegi {
	i := interp.New(interp.Options{
		Stdin: bytes.NewReader(nil), Stdout: io.Discard, Stderr: io.Discard,
		SourcecodeFilesystem: noFiles{},
	})
	if err := i.Use(symbols.Symbols); err != nil {
		panic(err) // the symbols are ours: a build that gets here is broken
	}
	return yaegi{i}
}

// word is where the interpreter keeps the id of its current run: the first field of
// interp.Interpreter (v0.16.1), compared before every step of interpreted code.
func (y yaegi) word() unsafe.Pointer { return unsafe.Pointer(y.Interpreter) }

func (y yaegi) id() uint64 { return atomic.LoadUint64((*uint64)(y.word())) }

// noFiles keeps the interpreter from looking for sources of packages that it doesn't know.
type noFiles struct{}

func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// loaded is a candidate that can be run.
type loaded struct {
	y    yaegi
	main func(*kit.Session) error
}

// load evaluates a source of a package. The refusal's Rule is empty when that went well.
// Each package needs a name of its own: the interpreter keeps what is declared.
func (y yaegi) load(pkg, source string) (l *loaded, refusal abi.Refusal) {
	step := "interpret"
	defer func() {
		if r := recover(); r != nil {
			l, refusal = nil, refuse(step, fmt.Sprint("interpreter: ", r))
		}
	}()
	file, err := parser.ParseFile(y.FileSet(), pkg+".go", source, parser.DeclarationErrors)
	if err != nil {
		return nil, refuse(step, err.Error())
	}
	code, err := y.CompileAST(file)
	if err != nil {
		return nil, refuse(step, err.Error())
	}
	step = "init"
	if _, err := y.Execute(code); err != nil {
		return nil, refuse(step, err.Error())
	}
	step = "contract"
	v, err := y.Eval(pkg + ".Run")
	if err != nil {
		return nil, refuse(step, "no function Run: "+err.Error())
	}
	main, ok := v.Interface().(func(*kit.Session) error)
	if !ok {
		return nil, refuse(step, "Run is not func(s *kit.Session) error")
	}
	return &loaded{y: y, main: main}, abi.Refusal{}
}

// position matches what the interpreter puts before its messages, with or without a
// file name.
var position = regexp.MustCompile(`^(?:[^:\s]*:)?(\d+):(\d+): `)

func refuse(rule, text string) abi.Refusal {
	r := abi.Refusal{Rule: rule, Reason: shorten(text)}
	if m := position.FindStringSubmatch(text); m != nil {
		r.Line, _ = strconv.Atoi(m[1])
		r.Column, _ = strconv.Atoi(m[2])
		r.Reason = shorten(text[len(m[0]):])
	}
	return r
}

// run is one run of the candidate.
func (l *loaded) run(start abi.Start, host kit.Host) abi.End { return runHarness(l.main, start, host) }
