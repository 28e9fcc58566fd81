package starlark

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	WorkerMain()
	m.Run()
}

// Programs as models write them, and what they print.
func TestPrograms(t *testing.T) {
	i := New()
	defer closeOf(t, i)
	for _, c := range []struct{ program, want string }{
		{"print(12*12)", "144\n"},
		{"print(2**10, 2 ** -1, -2**2, 2**3**2)", "1024 0.5 -4 512\n"},
		{"x = 3\nprint((x+1)**2 + x**2)", "25\n"},
		{"a = [1, 2]\nprint(a[0]**2, len(a)**2, math.pi**0 )", "1 4 1.0\n"},
		{"def f(x):\n    return (x)**2\nprint(f(3))", "9\n"},
		{"import math\nfrom math import gcd, factorial as fact\nprint(math.sqrt(16), gcd(12, 18), fact(5), math.comb(5, 2), math.isqrt(17))", "4.0 6 120 10 4\n"},
		{"import math as m, itertools\nprint(m.floor(2.5))", "2\n"},
		{"from math import (\n  sqrt,\n  pi)\nprint(sqrt(4))", "2.0\n"},
		{"from math import *\nprint(math.lcm(4, 6))", "12\n"},
		{"import sympy", "Error: line 1: fail: No module named sympy"},
		{"x = 3.14159\nn = 12\nprint(f'{x:.2f} {n} {n+1:03d} {x!r} {{}} {n=}')", "3.14 12 013 3.14159 {} n=12\n"},
		{`print(f"{sum(x for x in range(5))} {'a'}")`, "10 a\n"},
		{"print(f'{1234567:,} {1/3:.1%} {2**3}')", "1,234,567 33.3% 8\n"},
		{"print(sum(x*x for x in range(10) if x % 2 == 0))", "120\n"},
		{"print(any(x > 2 for x in [1, 3]), max(len(s) for s in ['a', 'bc']))", "True 2\n"},
		{"x = None\nprint(x is None, x is not None)", "True False\n"},
		{"i = 0\nwhile i < 3:\n    i += 1\nprint(i, end='!')", "3!"},
		{"def fib(n):\n    return n if n < 2 else fib(n-1) + fib(n-2)\nprint(fib(15))", "610\n"},
		{"from itertools import combinations, permutations, product\nprint(len(combinations(range(6), 3)), len(permutations([1,2,3])), product([1,2], repeat=2))", "20 6 [(1, 1), (1, 2), (2, 1), (2, 2)]\n"},
		{"print(pow(3, 100, 7), pow(3, -1, 7), divmod(17, 5), round(2.5), round(2.675, 2), round(7))", "4 5 (3, 2) 2 2.67 7\n"},
		{"if __name__ == '__main__':\n    print('main')", "main\n"},
		{"print(1)\nprint(1//0)", "1\nError: line 2: floored division by zero"},
		{"def g(**kw):\n    return kw\nprint(g(**{'a': 1}))", `{"a": 1}` + "\n"},
		{"x = 3\nprint(1 < x < 5, 1 < x <= 2, [y for y in range(9) if 2 <= y < 4 != 5], 1 == 1 == 1)", "True False [2, 3] True\n"},
		{"a, b, c = 1, 2, 3\nif a < b < c and c > b > a or a == 7:\n    print('in order')", "in order\n"},
		{"x = 5\nwhile 0 < x < 6: x -= 1\nprint(x, x == 0, x <= 1)", "0 True True\n"},
		{"def f(a=1, b=2): return a<b<3\nprint(f(), f(b=5), {1: 2 < 3 < 4})", "True False {1: True}\n"},
		{`print("{:.2f} and {1:>4} {{}} {n:,}".format(1/3, 7, n=12345))`, "0.33 and    7 {} 12,345\n"},
		{`print("{}-{}".format(1, 2), "no".upper())`, "1-2 NO\n"},
		{"print(", "Error: "},
		{"print('é', \"it's # no comment\") # comment **", "é it's # no comment\n"},
		{"print('''a\nb''' )", "a\nb\n"},
		{"print(isinstance(3, int), list(map(lambda x: x**2, [1, 2])), sum([[1], [2]], []))", "True [1, 4] [1, 2]\n"},
	} {
		got, err := i.Run(t.Context(), c.program)
		if err != nil {
			t.Fatal(err)
		}
		if got != c.want && !(strings.HasSuffix(c.want, ": ") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s\nprints %q, want %q", c.program, got, c.want)
		}
	}
}

func closeOf(t *testing.T, i *Interpreter) {
	t.Helper()
	if err := i.Close(); err != nil {
		t.Error(err)
	}
}

// None of these may cost more than its worker, and the next program runs.
func TestHostile(t *testing.T) {
	i := New()
	defer closeOf(t, i)
	for _, c := range []struct{ name, program, want string }{
		{"endless", "while True:\n    pass", "too many steps"},
		{"doubling text", "x = 'a'\nwhile True:\n    x += x", "too much memory"},
		{"a gigabyte in a step", "x = 'a' * (1 << 29)", "Error: "},
		{"a long list", "x = list(range(1 << 40))", "Error: "},
		{"deep recursion", "def f(n):\n    return f(n + 1)\nf(0)", "Error: "},
		{"much output", "while True:\n    print('a' * 1000)", "bytes printed"},
		{"a big power", "print(9**9**9**9)", "too large"},
		{"a file", "open('/etc/passwd')", "undefined: open"},
		{"a load", "load('x', 'y')", "Error: "},
		{"nothing", "", ""},
		{"no text", "\xff\x00", "Error: "},
	} {
		got, err := i.Run(t.Context(), c.program)
		if err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %.200q, %v; want %q", c.name, got, err, c.want)
		}
		if got, err := i.Run(t.Context(), "print(1)"); got != "1\n" || err != nil {
			t.Fatalf("after %s: %q, %v", c.name, got, err)
		}
	}
}

// One step that does not end is cut by time.
func TestNet(t *testing.T) {
	i := New()
	i.net = 50 * time.Millisecond
	defer closeOf(t, i)
	got, err := i.Run(t.Context(), "x = (1,)\nfor i in range(60):\n    x = (x, x)\nprint({x: 1})")
	if got != "Error: the program took too long" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// An executable that can't be a worker says so instead of starting itself again.
func TestUnregistered(t *testing.T) {
	registered = false
	defer func() { registered = true }()
	if _, err := New().Run(t.Context(), "1"); err == nil || !strings.Contains(err.Error(), "WorkerMain") {
		t.Errorf("error %v", err)
	}
}

// Programs from many goroutines share a few workers and get their own output.
func TestSideBySide(t *testing.T) {
	i := New()
	defer closeOf(t, i)
	var wait sync.WaitGroup
	for n := range 40 {
		wait.Go(func() {
			program, want := fmt.Sprintf("print(%d**2)", n), fmt.Sprintf("%d\n", n*n)
			if n%10 == 9 { // takes its worker along
				program, want = "def f(n):\n    return f(n + 1)\nf(0)", ""
			}
			got, err := i.Run(t.Context(), program)
			if err != nil || want != "" && got != want {
				t.Errorf("%s: %q, %v", program, got, err)
			}
		})
	}
	wait.Wait()
}

// A cancelled run ends at once with the context's error.
func TestCancel(t *testing.T) {
	i := New()
	defer closeOf(t, i)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if text, err := i.Run(ctx, "while True:\n    pass"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%q, error %v", text, err)
	}
}

func FuzzTranslate(f *testing.F) {
	for _, seed := range []string{"print(2**3)", "f'{x:{y}}'", "from math import (a,\nb)", "sum(x for x in (y for y in z))", "a**-b**[c", "f'{", "(((("} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, program string) {
		out, err := translate(program)
		if err == nil && join(scan(out)) != out {
			t.Errorf("scan of %q loses bytes", out)
		}
	})
}

func BenchmarkRun(b *testing.B) {
	i := New()
	for b.Loop() {
		if _, err := i.Run(b.Context(), "print(sum(x**2 for x in range(100)))"); err != nil {
			b.Fatal(err)
		}
	}
	if err := i.Close(); err != nil {
		b.Fatal(err)
	}
}
