package corpus

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/traefik/yaegi/interp"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	"github.com/seed-7c27e6b8/whale/sandbox"
	"github.com/seed-7c27e6b8/whale/sandbox/guest/symbols"
)

// role is the variable that makes this test binary an interpreter of what comes on stdin.
const role = "WHALE_CORPUS_INTERPRETER"

func TestMain(m *testing.M) {
	sandbox.WorkerMain()
	if os.Getenv(role) != "" {
		serve(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve interprets sources, one JSON text each, and answers with outcomes.
func serve(in io.Reader, out io.Writer) {
	debug.SetMaxStack(64 << 20)
	from, to := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var source string
		if from.Decode(&source) != nil {
			return
		}
		if to.Encode(interpret(source)) != nil {
			return
		}
	}
}

// noFiles keeps the interpreter from looking for sources of packages that it doesn't know.
type noFiles struct{}

func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// interpret loads and runs a source in the way of the guest: same symbols, same options.
func interpret(source string) (o outcome) {
	o = outcome{End: "refused"}
	defer func() {
		if r := recover(); r != nil {
			if o.Why = fmt.Sprint(r); o.End == "" {
				o.End = "panic"
			}
		}
	}()
	var printed bytes.Buffer
	defer func() { o.Log = printed.String() }()
	i := interp.New(interp.Options{Stdin: bytes.NewReader(nil), Stdout: &printed, Stderr: io.Discard,
		SourcecodeFilesystem: noFiles{}})
	if err := i.Use(symbols.Symbols); err != nil {
		panic(err)
	}
	file, err := parser.ParseFile(i.FileSet(), "harness.go", source, parser.DeclarationErrors)
	if err != nil {
		return outcome{End: "refused", Why: err.Error()}
	}
	code, err := i.CompileAST(file)
	if err != nil {
		return outcome{End: "refused", Why: err.Error()}
	}
	if _, err := i.Execute(code); err != nil {
		return outcome{End: "refused", Why: err.Error()}
	}
	v, err := i.Eval("harness.Run")
	if err != nil {
		return outcome{End: "refused", Why: err.Error()}
	}
	run, ok := v.Interface().(func(*kit.Session) error)
	if !ok {
		return outcome{End: "refused", Why: "Run is something else"}
	}
	o = outcome{}
	printed.Reset()
	if run(kit.NewSession(kit.Start{}, nobody{})) != nil {
		o.End = "error"
	}
	return o
}

// nobody is a host that answers nothing.
type nobody struct{}

func (nobody) Generate([]kit.Message, kit.Options) ([]kit.Reply, error) { return nil, nil }
func (nobody) Tool(string, string) (string, error)                      { return "", nil }
func (nobody) Note(kit.Note) error                                      { return nil }

// interpreter is a process that interprets.
type interpreter struct {
	process *exec.Cmd
	in      *json.Encoder
	close   io.Closer
	out     *json.Decoder
}

func start(t testing.TB) *interpreter {
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return nil
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), role+"=1", "GOMEMLIMIT=512MiB")
	in, err := c.StdinPipe()
	if err != nil {
		t.Error(err)
		return nil
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Error(err)
		return nil
	}
	if err := c.Start(); err != nil {
		t.Error(err)
		return nil
	}
	return &interpreter{c, json.NewEncoder(in), in, json.NewDecoder(bufio.NewReader(out))}
}

// run interprets a source; alive says whether the process can take another.
func (i *interpreter) run(source string) (o outcome, alive bool) {
	timer := time.AfterFunc(patience, func() { _ = i.process.Process.Kill() })
	err := i.in.Encode(source)
	if err == nil {
		err = i.out.Decode(&o)
	}
	inTime := timer.Stop()
	if err == nil && inTime {
		return o, true
	}
	_ = i.process.Process.Kill() // it may be dead already
	_ = i.process.Wait()
	if !inTime {
		return outcome{End: "hang"}, false
	}
	return outcome{End: "crash", Why: err.Error()}, false
}

// interpreted runs sources in interpreters, one per core.
func interpreted(t testing.TB, list []program) []outcome {
	out := make([]outcome, len(list))
	next := make(chan int)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			var i *interpreter
			for n := range next {
				if i == nil {
					i = start(t)
				}
				alive := false
				if out[n], alive = i.run(list[n].source); !alive {
					i = nil
				}
			}
			if i != nil {
				_ = i.close.Close()
				if err := i.process.Wait(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range list {
		next <- n
	}
	close(next)
	group.Wait()
	return out
}
