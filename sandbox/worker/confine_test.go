package worker

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// escape is the environment variable that makes this test binary try to break out.
const escape = "WHALE_TEST_ESCAPE"

func TestMain(m *testing.M) {
	if folder := os.Getenv(escape); folder != "" {
		tryEscapes(folder)
		return
	}
	os.Exit(m.Run())
}

// attempts are what a worker must not be able to do. Each says whether it was done.
var attempts = []struct {
	name  string
	after string // the confinement that must stop it
	try   func(folder string) error
}{
	{"read a file", "landlock_files", func(string) error { _, err := os.ReadFile("/etc/hostname"); return err }},
	{"list the root", "landlock_files", func(string) error { _, err := os.ReadDir("/"); return err }},
	{"write beside the cache", "landlock_files", func(folder string) error {
		return os.WriteFile(filepath.Join(filepath.Dir(folder), "out"), []byte("x"), 0o644)
	}},
	{"read the parent's environment", "landlock_files", func(string) error {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
		return err
	}},
	{"signal the parent", "landlock_signals", func(string) error { return syscall.Kill(os.Getppid(), 0) }},
	{"connect", "landlock_tcp", func(string) error { return canConnect() }},
	{"open a file of the cache", "seccomp", func(folder string) error {
		_, err := os.ReadFile(filepath.Join(folder, "kept"))
		return err
	}},
	{"start a program", "seccomp", func(string) error { return exec.Command("/proc/self/exe").Run() }},
	{"make code", "seccomp", func(string) error {
		_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
		return err
	}},
	{"make a socket", "seccomp", func(string) error { _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err }},
	{"trace", "seccomp", func(string) error { return syscall.PtraceAttach(os.Getppid()) }},
	{"signal itself as another process", "seccomp", func(string) error { return unix.Tgkill(os.Getppid(), os.Getppid(), 0) }},
	{"fork", "seccomp", func(string) error {
		pid, _, errno := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
		if errno != 0 {
			return errno
		}
		if pid == 0 {
			syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		}
		return nil
	}},
}

// canConnect is nil unless the kernel forbids connecting; nobody listens on port 1.
func canConnect() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: 1, Addr: [4]byte(net.IPv4(127, 0, 0, 1).To4())}); err == unix.EACCES {
		return err
	}
	return nil
}

// tryEscapes confines this process step by step and prints what holds and what it could do.
func tryEscapes(folder string) {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fmt.Println("fault", err)
		return
	}
	print := func(stage string) {
		fmt.Println("holds", stage)
		for _, a := range attempts {
			if a.after == stage {
				fmt.Printf("%s: %v\n", a.name, a.try(folder))
			}
		}
	}
	held := landlock(folder)
	for _, h := range held {
		print(h)
	}
	if slices.Contains(held, "landlock_files") {
		fmt.Println("cache:", os.WriteFile(filepath.Join(folder, "kept"), []byte("x"), 0o644))
	}
	if seccomp(false) {
		print("seccomp")
	}
	// The runtime must go on working: threads, memory, the collector.
	done := make(chan []byte)
	for range 8 {
		go func() { runtime.LockOSThread(); done <- make([]byte, 1<<20) }()
	}
	for range 8 {
		<-done
	}
	runtime.GC()
	fmt.Println("done")
}

// TestConfined: what the kernel says that it holds, it holds, and what a worker needs
// still works.
func TestConfined(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cache")
	c := exec.Command("/proc/self/exe")
	c.Env = []string{escape + "=" + folder}
	out, err := c.CombinedOutput()
	text := string(out)
	if err != nil || !strings.Contains(text, "done") {
		t.Fatalf("%v\n%s", err, text)
	}
	t.Log(text)
	if strings.Contains(text, "cache:") && !strings.Contains(text, "cache: <nil>") {
		t.Error("the cache can't be written")
	}
	for _, a := range attempts {
		if strings.Contains(text, "holds "+a.after+"\n") && strings.Contains(text, a.name+": <nil>") {
			t.Errorf("under %s it could %s", a.after, a.name)
		}
	}
}

// TestFilter: conditions jump to where they should, for every call of the list.
func TestFilter(t *testing.T) {
	program := filter(calls(false))
	const native = 0
	arch := program[1].K
	for _, c := range calls(false) {
		good, bad := c.value, c.value+1
		switch c.condition {
		case allClear:
			good, bad = ^c.value, c.value
		case allSet:
			good, bad = c.value|1<<31, 0
		case always:
			bad = good
		}
		if got := decide(program, arch, c.number, int(c.argument), good); got != unix.SECCOMP_RET_ALLOW {
			t.Errorf("call %d with %#x: %#x", c.number, good, got)
		}
		if got := decide(program, arch, c.number, int(c.argument), bad); got == unix.SECCOMP_RET_ALLOW && c.condition != always {
			t.Errorf("call %d with %#x is allowed", c.number, bad)
		}
	}
	for _, number := range []uint32{unix.SYS_EXECVE, unix.SYS_SOCKET, unix.SYS_OPENAT, unix.SYS_PTRACE, unix.SYS_CLONE3, 1<<30 | unix.SYS_READ} {
		if decide(program, arch, number, 0, native) == unix.SECCOMP_RET_ALLOW {
			t.Errorf("call %d is allowed", number)
		}
	}
	if decide(program, arch+1, unix.SYS_READ, 0, 0) != unix.SECCOMP_RET_KILL_PROCESS {
		t.Error("calls of another architecture")
	}
}

// decide runs a filter as the kernel does.
func decide(program []unix.SockFilter, arch, number uint32, argument int, value uint32) uint32 {
	var a uint32
	for at := 0; at < len(program); at++ {
		step := program[at]
		var jump bool
		switch step.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			switch step.K {
			case seccompNumber:
				a = number
			case seccompArch:
				a = arch
			default:
				if a = 0; step.K == uint32(seccompArgument+8*argument) {
					a = value
				}
			}
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= step.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return step.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump = a == step.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump = a&step.K != 0
		}
		if jump {
			at += int(step.Jt)
		} else {
			at += int(step.Jf)
		}
	}
	return 0
}
