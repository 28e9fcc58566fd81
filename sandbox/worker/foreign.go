package worker

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Foreign is a program of this machine, an interpreter of code that models write, which
// runs as confined as a worker: no new privileges, no capabilities, no network, no other
// process, few files. Unlike a guest it is machine code with system calls, so all that
// holds it is the kernel; where the kernel lacks a part of that it does not run.
type Foreign struct {
	Path string
	Args []string // with argv[0]
	Env  []string
	// Read are files and folders that it may read; its binary and the system's libraries
	// need no mention.
	Read []string
	// Write is the folder that it works in, the only one that it may write.
	Write string
	// Memory bounds its writable memory in bytes, Seconds its processor time, File the size
	// of a file.
	Memory, Seconds, File uint64
}

// ErrConfine: this kernel does not offer all that a foreign program needs to be held.
var ErrConfine = errors.New("this system can't confine the program")

// needed must hold before a foreign program starts.
var needed = []string{"no_new_privs", "no_capabilities", "rlimits", "fds_closed", "landlock_files", "seccomp"}

// Exec confines the calling process and replaces it by the program; it returns only with
// an error. Descriptors above 2 are closed. ready is called right before, when all holds.
func (f Foreign) Exec(ready func() error) error {
	runtime.LockOSThread()
	if err := unix.Chdir(f.Write); err != nil {
		return fmt.Errorf("folder of the program: %w", err)
	}
	held := f.confine()
	missing := slices.DeleteFunc(slices.Clone(needed), func(part string) bool { return slices.Contains(held, part) })
	if len(missing) > 0 {
		return fmt.Errorf("%w: no %s", ErrConfine, strings.Join(missing, ", "))
	}
	if err := ready(); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", f.Path, unix.Exec(f.Path, f.Args, f.Env))
}

func (f Foreign) confine() (held []string) {
	if unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != nil {
		return nil
	}
	held = append(held, "no_new_privs")
	if f.bound() == nil {
		held = append(held, "rlimits")
	}
	if dropCapabilities() {
		held = append(held, "no_capabilities")
	}
	if unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC) == nil {
		held = append(held, "fds_closed")
	}
	held = append(held, landlockRestrict(f.rules())...)
	if install(foreignCalls()) {
		held = append(held, "seccomp")
	}
	return held
}

// bound sets the limits of the process.
func (f Foreign) bound() error {
	for _, l := range []struct {
		resource int
		limit    uint64
	}{{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, f.File}, {unix.RLIMIT_NOFILE, 64}, {unix.RLIMIT_CPU, f.Seconds}, {unix.RLIMIT_DATA, f.Memory}} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.limit, Max: l.limit}); err != nil {
			return err
		}
	}
	return nil
}

func (f Foreign) rules() []landlockRule {
	rules := []landlockRule{{f.Path, landlockExecute}, {f.Write, landlockWrite}}
	for _, path := range []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"} {
		rules = append(rules, landlockRule{path, landlockExecute})
	}
	for _, path := range append([]string{"/etc/ld.so.cache", "/dev/null", "/dev/urandom"}, f.Read...) {
		rules = append(rules, landlockRule{path, landlockRead})
	}
	return rules
}
