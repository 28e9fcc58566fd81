package corpus

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox"
)

// logged is a harness that logs what it would print, as a guest has no stdout.
func logged(p program) program {
	source := strings.NewReplacer("fmt.Println(", "say9(", "fmt.Printf(", "sayf9(", "fmt.Print(", "print9(").Replace(p.source)
	source = strings.Replace(source, "\tmain()\n\treturn nil\n}", `	main()
	s.Log(text9)
	return nil
}

var text9 string

func say9(a ...any)                 { text9 += fmt.Sprintln(a...) }
func print9(a ...any)               { text9 += fmt.Sprint(a...) }
func sayf9(format string, a ...any) { text9 += fmt.Sprintf(format, a...) }`, 1)
	return program{p.name, source}
}

// listener is the host of a run in the sandbox: it keeps the log.
type listener struct{ log string }

func (l *listener) Generate(context.Context, []engine.Message, engine.GenerateOptions) ([]engine.Reply, error) {
	return nil, errors.New("no model here")
}
func (l *listener) Tool(context.Context, string, string) (string, error) { return "", nil }
func (l *listener) Note(_ context.Context, n engine.Note) error {
	l.log += n.Log
	return nil
}

// TestSandbox: the programs of testdata print the same in the sandbox as they do when Go
// compiled them.
func TestSandbox(t *testing.T) {
	ctx := context.Background()
	box, err := sandbox.Open(ctx, sandbox.Config{CacheDir: filepath.Join(os.TempDir(), "whale-test-wasm")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	}()
	list := harnesses(append(read(t, "testdata/small.txt"), read(t, "testdata/natural.txt")...))
	want := native(t, list)
	same := 0
	for i, p := range list {
		program, err := box.Load(ctx, engine.NewHarness(logged(p).source, engine.Meta{}))
		var refusal *engine.LoadError
		if errors.As(err, &refusal) {
			continue // for what printing through a function makes of it
		}
		if err != nil {
			t.Fatal(err)
		}
		host := &listener{}
		if _, err := program.Run(ctx, engine.Start{}, host); err != nil || host.log != want[i].Log {
			t.Errorf("%s: %v\n%s\nwant\n%s", p.name, err, host.log, want[i].Log)
		} else {
			same++
		}
		if err := program.Close(); err != nil {
			t.Error(err)
		}
	}
	if same < len(list)*4/5 {
		t.Errorf("only %d of %d ran", same, len(list))
	}
}
