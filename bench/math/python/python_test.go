package python

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/sandbox/worker"
)

func TestMain(m *testing.M) {
	WorkerMain()
	os.Exit(m.Run())
}

// interpreter skips where there is no Python, or where the system can't confine it: then
// that is what Run says.
func interpreter(t *testing.T) *Interpreter {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED: no python3 here")
	}
	i := New("python3")
	if _, err := i.Run(t.Context(), "print(1)"); errors.Is(err, worker.ErrConfine) {
		t.Skipf("SKIPPED: %v", err)
	}
	return i
}

func TestRun(t *testing.T) {
	i := interpreter(t)
	for program, want := range map[string]string{
		"print(2**100)": "1267650600228229401496703205376\n",
		"import math\nfrom fractions import Fraction\nprint(math.comb(10, 3), Fraction(1, 3) + 1)":             "120 4/3\n",
		"class A:\n  def __str__(self): return 'å'\ntry:\n  1/0\nexcept ZeroDivisionError:\n  print(f'{A()}')": "å\n",
		"import random\nprint(random.random())":                                                                "0.8444218515250481\n",
		"print(hash('a') == hash('a'), input.__name__)":                                                        "True input\n",
		"":                        "",
		"import sys; sys.exit(3)": "",
		"open('x', 'w').write('12')\nprint(open('x').read())": "12\n",
	} {
		if got, err := i.Run(t.Context(), program); err != nil || got != want {
			t.Errorf("%s\n%q %v, want %q", program, got, err, want)
		}
	}
	for program, part := range map[string]string{
		"x = 1\nprint(x)\ny = x / 0": "line 3",
		"print(":                     "SyntaxError",
		"input()":                    "EOFError",
		"raise Exception('no')":      "Exception: no",
	} {
		got, err := i.Run(t.Context(), program)
		if err != nil || !strings.Contains(got, part) || strings.Contains(got, "<string>") {
			t.Errorf("%s\n%q %v, want %q in it", program, got, err, part)
		}
	}
}

// What a program must not reach: each prints "held" if it did not.
var probes = map[string]string{
	"a secret":           "open(SECRET)",
	"the password file":  "open('/etc/passwd')",
	"the home folder":    "os.listdir(HOME)",
	"the root folder":    "os.listdir('/')",
	"other processes":    "open('/proc/1/cmdline')",
	"its own memory map": "open('/proc/self/maps')",
	"a file beside it":   "open(SECRET + '2', 'w')",
	"the folder above":   "open('../x', 'w')",
	"a socket":           "socket.socket()",
	"a local socket":     "socket.socket(socket.AF_UNIX)",
	"a pair of sockets":  "socket.socketpair()",
	"a name server":      "socket.getaddrinfo('localhost', 80)[0] and socket.create_connection(('127.0.0.1', 1))",
	"a shell":            "subprocess.run(['/bin/sh', '-c', 'true'])",
	"a fork":             "os.fork()",
	"a signal":           "os.kill(os.getppid(), 0)",
	"more rights":        "os.setuid(12345)",
	"a mount":            "ctypes.CDLL(None, use_errno=True).mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0 or fail()",
	"tracing":            "ctypes.CDLL(None, use_errno=True).ptrace(16, os.getppid(), 0, 0) == 0 or fail()",
	"a link":             "os.symlink('/etc', 'etc') or os.listdir('etc')",
	"a larger limit":     "resource.setrlimit(resource.RLIMIT_CPU, (1000, 1000))",
	"a descriptor":       "os.fstat(3)",
}

func TestConfinement(t *testing.T) {
	i := interpreter(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	before := leftovers(t)
	for name, probe := range probes {
		program := "import os, sys\ndef fail(): raise OSError\nSECRET, HOME = " + `"` + secret + `", "` + home + `"` + `
for m in ("socket", "subprocess", "ctypes", "resource"):
    try: globals()[m] = __import__(m)
    except ImportError: pass
try:
    ` + probe + `
    print("reached")
except (OSError, ValueError, NameError) as e:
    print("held")
`
		if got, err := i.Run(t.Context(), program); err != nil || got != "held\n" {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if after := leftovers(t); after > before {
		t.Errorf("%d folders are left behind", after-before)
	}
}

func leftovers(t *testing.T) int {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(os.TempDir(), "whale-python-*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestLimits(t *testing.T) {
	i := interpreter(t)
	i.net = time.Second
	for name, c := range map[string]struct{ program, want string }{
		"time":   {"while True: pass", "took too long"},
		"sleep":  {"import time\ntime.sleep(100)", "took too long"},
		"memory": {"x = bytearray(1 << 30)", "MemoryError"},
		"output": {"while True: print('x' * 1000)", "bytes printed"},
		"file":   {"f = open('x', 'wb')\nwhile True: f.write(b'x' * 1000000)", "Error"},
		"stack":  {"def f(): f()\nf()", "RecursionError"},
	} {
		got, err := i.Run(t.Context(), c.program)
		if err != nil || !strings.Contains(got, c.want) || len(got) > maxOutput+200 {
			t.Errorf("%s: %.300q %v", name, got, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.Run(ctx, "print(1)"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Without Python, or without what confines it, a program is a fault of the host and never
// an output.
func TestRefusal(t *testing.T) {
	if _, err := New(filepath.Join(t.TempDir(), "python3")).Run(t.Context(), "print(1)"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no Python: %v", err)
	}
	err := refusal(unconfined+": no seccomp", nil)
	if !errors.Is(err, worker.ErrConfine) || !strings.Contains(err.Error(), "no seccomp") {
		t.Errorf("%v", err)
	}
	if err := refusal("", errors.New("exit status 2")); errors.Is(err, worker.ErrConfine) || err == nil {
		t.Errorf("%v", err)
	}
}
