package corpus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// outcome is what came of a run: the text printed, and how it ended.
type outcome struct {
	Log string
	End string // "", "panic", "error", "hang", "crash", "refused"; or "no build"
	Why string // not compared
}

func (o outcome) same(other outcome) bool { return o.Log == other.Log && o.End == other.End }

const (
	kitFolder = "../../harnesses/kit"
	patience  = 20 * time.Second // of one program, on a busy machine
)

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// begin is printed before a program: what comes before it, package initialisation of
// others printed.
const begin = "\x01"

// driver runs the program that its argument names.
const driver = `package main

import (
	"fmt"
	"os"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
%s)

type host struct{}

func (host) Generate([]kit.Message, kit.Options) ([]kit.Reply, error) { return nil, nil }
func (host) Tool(string, string) (string, error)                      { return "", nil }
func (host) Note(kit.Note) error                                      { return nil }

const begin = "\x01"

func main() {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintln(os.Stderr, "panic:", r)
			os.Exit(3)
		}
	}()
	programs := map[string]func(*kit.Session) error{
%s	}
	fmt.Print(begin)
	if err := programs[os.Args[1]](kit.NewSession(kit.Start{}, host{})); err != nil {
		os.Exit(4)
	}
}
`

// native compiles programs and runs each in a process of its own. One that doesn't
// compile has the end "no build".
func native(t testing.TB, list []program) []outcome {
	folder := t.TempDir()
	copyKit(t, folder)
	for i, p := range list {
		write(t, filepath.Join(folder, fmt.Sprintf("p%d", i), "harness.go"), p.source)
	}
	out := make([]outcome, len(list))
	good := compilable(t, folder, list, out)
	var imports, table strings.Builder
	for _, i := range good {
		fmt.Fprintf(&imports, "\tp%d \"github.com/seed-7c27e6b8/whale/p%d\"\n", i, i)
		fmt.Fprintf(&table, "\t\t\"%d\": p%d.Run,\n", i, i)
	}
	write(t, filepath.Join(folder, "all", "main.go"), fmt.Sprintf(driver, imports.String(), table.String()))
	binary := filepath.Join(folder, "all", "all")
	if message, err := toolchain(folder, "build", "-trimpath", "-o", binary, "./all"); err != nil {
		t.Fatal(err, message)
	}
	var group sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range next {
				out[i] = execute(binary, i)
			}
		})
	}
	for _, i := range good {
		next <- i
	}
	close(next)
	group.Wait()
	return out
}

// compilable finds the programs that compile; the others get their outcome.
func compilable(t testing.TB, folder string, list []program, out []outcome) (good []int) {
	message, _ := toolchain(folder, "build", "-trimpath", "./...")
	bad := map[int]string{}
	for line := range strings.Lines(message) {
		var i, row int
		if n, _ := fmt.Sscanf(line, "p%d/harness.go:%d", &i, &row); n == 2 && bad[i] == "" {
			bad[i] = line
		}
	}
	for i := range list {
		if why := bad[i]; why != "" {
			out[i] = outcome{End: "no build", Why: why}
		} else {
			good = append(good, i)
		}
	}
	if len(bad) == 0 && message != "" {
		t.Fatal(message)
	}
	return good
}

func toolchain(folder string, args ...string) (string, error) {
	c := exec.Command("go", args...)
	c.Dir = folder
	c.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	b, err := c.CombinedOutput()
	return string(b), err
}

func execute(binary string, i int) outcome {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c := exec.CommandContext(ctx, binary, fmt.Sprint(i))
	var stderr strings.Builder
	c.Stderr = &stderr
	b, err := c.Output()
	_, log, _ := strings.Cut(string(b), begin)
	o := outcome{Log: log}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		o.End = "hang"
	case errors.As(err, &exit) && exit.ExitCode() == 3:
		o.End, o.Why = "panic", stderr.String()
	case errors.As(err, &exit) && exit.ExitCode() == 4:
		o.End = "error"
	case err != nil:
		o.End, o.Why = "crash", fmt.Sprint(err)
	}
	return o
}

// copyKit makes a module that is this one, but for the kit, empty.
func copyKit(t testing.TB, folder string) {
	write(t, filepath.Join(folder, "go.mod"), "module github.com/seed-7c27e6b8/whale\n\ngo 1.26\n")
	files, err := filepath.Glob(filepath.Join(kitFolder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no kit")
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "harnesses", "kit", filepath.Base(f)), string(b))
	}
}

func write(t testing.TB, name, content string) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
