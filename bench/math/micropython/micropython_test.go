package micropython

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// module is the path of micropython.wasm, which a person who has it names.
func module(t testing.TB) string {
	t.Helper()
	path := os.Getenv("WHALE_MICROPYTHON")
	if path == "" {
		t.Skip("SKIPPED: WHALE_MICROPYTHON does not name a micropython.wasm")
	}
	return path
}

func closed(t testing.TB, i *Interpreter) {
	t.Helper()
	if err := i.Close(); err != nil {
		t.Error(err)
	}
}

func TestPrograms(t *testing.T) {
	i := New(module(t))
	defer closed(t, i)
	for _, c := range []struct{ program, want string }{
		{"print(2**10, 7//2, 7/2)", "1024 3 3.5\n"},
		{"x = 3.14159\nprint(f'{x:.2f}')", "3.14\n"},
		{"import math, json, re\nprint(math.sqrt(16), json.dumps([1]), re.match('a+', 'aab').group(0))", "4.0 [1] aa\n"},
		{"class A:\n    def __init__(self):\n        self.x = 1\ntry:\n    raise ValueError('no')\nexcept ValueError as e:\n    print(A().x, e)", "1 no\n"},
		{"print(sum(x * x for x in range(10)), 0 < 1 < 2)", "285 True\n"},
		{"print(2**200 % 1000007)", "446616\n"},
		{"print('no end', end='')", "no end"},
		{"print('é')", "é\n"},
		{"print(1)\nprint(1//0)", "1\nError: "},
		{"print(", "Error: "},
		{"import sympy", "Error: "},
		{"", ""},
	} {
		got, err := i.Run(t.Context(), c.program)
		if err != nil {
			t.Fatal(err)
		}
		if got != c.want && !(strings.HasSuffix(c.want, "Error: ") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s\nprints %q, want %q", c.program, got, c.want)
		}
	}
}

func TestHostile(t *testing.T) {
	i := New(module(t))
	defer closed(t, i)
	i.maxTime = 1500 * time.Millisecond
	for _, c := range []struct{ name, program, want string }{
		{"endless", "while True:\n    pass", "took too long"},
		{"much output", "while True:\n    print('a' * 1000)", "too much output"},
		{"memory", "x = [0] * (1 << 28)", "MemoryError"},
		{"recursion", "def f(n):\n    return f(n + 1)\nf(0)", "Error: "},
		{"a file", "open('/etc/passwd')", "OSError"},
		{"JavaScript", "import js\njs.fetch", "Error: "},
		{"no text", "\xff\x00", "Error: "},
	} {
		got, err := i.Run(t.Context(), c.program)
		if err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %.300q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

// Instances share nothing, and random numbers repeat.
func TestSideBySide(t *testing.T) {
	i := New(module(t))
	defer closed(t, i)
	var wait sync.WaitGroup
	outputs := make([]string, 4)
	for n := range outputs {
		wait.Go(func() {
			var err error
			if outputs[n], err = i.Run(t.Context(), "import random\ntry:\n    y\nexcept NameError:\n    y = random.getrandbits(30)\nprint(y)"); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, output := range outputs {
		if output != outputs[0] || output == "" {
			t.Errorf("outputs %q", outputs)
		}
	}
}

func TestCancel(t *testing.T) {
	i := New(module(t))
	defer closed(t, i)
	if _, err := i.Run(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := i.Run(ctx, "while True:\n    pass"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// Files that are missing, no WebAssembly, or another module: an error at every run, which
// is the host's fault.
func TestModule(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"text.wasm": "text", "empty.wasm": "\x00asm\x01\x00\x00\x00"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		want error
	}{{"none.wasm", os.ErrNotExist}, {"text.wasm", nil}, {"empty.wasm", ErrModule}} {
		i := New(filepath.Join(dir, c.name))
		for range 2 {
			if _, err := i.Run(t.Context(), "1"); err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		closed(t, i)
	}
}

func BenchmarkRun(b *testing.B) {
	i := New(module(b))
	for b.Loop() {
		if _, err := i.Run(b.Context(), "print(sum(x**2 for x in range(100)))"); err != nil {
			b.Fatal(err)
		}
	}
	closed(b, i)
}
