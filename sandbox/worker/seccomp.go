//go:build amd64 || arm64

package worker

import (
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is a system call that a worker may make, at most with a condition on the low half
// of one argument: equal, or all bits of a mask set or clear.
type call struct {
	number    uint32
	condition condition
	argument  uint32 // its place, from 0
	value     uint32
}

type condition int

const (
	always condition = iota
	equal
	allSet
	allClear
)

// calls are all that a worker needs once its guest is compiled: the Go runtime, memory
// for instances and images, its socket. No file can be opened, no process started, no
// code made. A worker that compiles guests makes code and opens files, of which Landlock
// leaves it only the cache.
func calls(compiles bool) []call {
	allowed := []call{
		{unix.SYS_CLONE, allSet, 0, unix.CLONE_THREAD | unix.CLONE_VM},
		{unix.SYS_TGKILL, equal, 0, uint32(unix.Getpid())}, // preemption
		{unix.SYS_IOCTL, equal, 1, 0xc0606610},             // PAGEMAP_SCAN
		{unix.SYS_MMAP, allClear, 2, unix.PROT_EXEC},
		{unix.SYS_MPROTECT, allClear, 2, unix.PROT_EXEC},
	}
	if compiles {
		fstatat := uint32(262)
		if runtime.GOARCH == "arm64" {
			fstatat = 79
		}
		for _, number := range []uint32{unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_OPENAT, fstatat, unix.SYS_MKDIRAT,
			unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_GETDENTS64, unix.SYS_FSYNC} {
			allowed = slices.DeleteFunc(allowed, func(c call) bool { return c.number == number })
			allowed = append(allowed, call{number: number})
		}
	}
	for _, number := range []uint32{
		unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_CLOSE, unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_FCNTL,
		unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_MREMAP, unix.SYS_BRK, unix.SYS_MEMFD_CREATE, unix.SYS_FTRUNCATE,
		unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_SCHED_YIELD,
		unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRUSAGE, unix.SYS_GETRANDOM, unix.SYS_RESTART_SYSCALL,
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
		unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_SETITIMER,
		unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2,
		unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	} {
		allowed = append(allowed, call{number: number})
	}
	return allowed
}

// foreignCalls are what an interpreter with machine code of its own needs: besides a
// compiling worker's, to be started, to look for files and to read about itself. There are
// no sockets, no processes besides threads of its own, and no signals to others.
func foreignCalls() []call {
	allowed := append(calls(true), call{unix.SYS_IOCTL, equal, 1, unix.TCGETS}, call{unix.SYS_PRLIMIT64, equal, 0, 0})
	allowed = slices.DeleteFunc(allowed, func(c call) bool { return c.number == unix.SYS_IOCTL && c.value != unix.TCGETS })
	for _, number := range append([]uint32{
		unix.SYS_EXECVE, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_READLINKAT, unix.SYS_GETCWD, unix.SYS_DUP, unix.SYS_DUP3,
		unix.SYS_UNAME, unix.SYS_SYSINFO, unix.SYS_STATX, unix.SYS_FADVISE64, unix.SYS_PPOLL, unix.SYS_PSELECT6,
		unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETPPID, unix.SYS_UMASK,
		unix.SYS_SET_TID_ADDRESS, unix.SYS_CLOCK_GETRES, unix.SYS_TIMES, unix.SYS_READV, unix.SYS_WRITEV,
	}, foreignByArchitecture()...) {
		allowed = append(allowed, call{number: number})
	}
	return allowed
}

// foreignByArchitecture are the calls of old that x86 still has.
func foreignByArchitecture() []uint32 {
	if runtime.GOARCH != "amd64" {
		return nil
	}
	const open, stat, lstat, poll, access, dup2, archPrctl, readlink, mkdir, unlink, rmdir, rename, sysSelect = 2, 4, 6, 7, 21, 33, 158, 89, 83, 87, 84, 82, 23
	return []uint32{open, stat, lstat, poll, access, dup2, archPrctl, readlink, mkdir, unlink, rmdir, rename, sysSelect}
}

// Places in the kernel's struct seccomp_data.
const (
	seccompNumber   = 0
	seccompArch     = 4
	seccompArgument = 16
)

// filter is the program that the kernel runs before every system call. What is not
// allowed fails with EPERM; clone3 as if it didn't exist, so that clone is tried, whose
// flags can be seen.
func filter(allowed []call) []unix.SockFilter {
	const loadWord, jumpEqual, jumpSet, and, result = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS,
		unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K,
		unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	allow := unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ALLOW}
	refuse := unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	program := []unix.SockFilter{
		{Code: loadWord, K: seccompArch},
		{Code: jumpEqual, K: arch, Jt: 1},
		{Code: result, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: loadWord, K: seccompNumber},
		{Code: jumpEqual, K: unix.SYS_CLONE3, Jf: 1},
		{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	}
	for _, c := range allowed {
		load := unix.SockFilter{Code: loadWord, K: seccompArgument + 8*c.argument}
		var body []unix.SockFilter
		switch c.condition {
		case always:
			body = []unix.SockFilter{allow}
		case equal:
			body = []unix.SockFilter{load, {Code: jumpEqual, K: c.value, Jf: 1}, allow, refuse}
		case allClear:
			body = []unix.SockFilter{load, {Code: jumpSet, K: c.value, Jt: 1}, allow, refuse}
		case allSet:
			body = []unix.SockFilter{load, {Code: and, K: c.value}, {Code: jumpEqual, K: c.value, Jf: 1}, allow, refuse}
		}
		program = append(program, unix.SockFilter{Code: jumpEqual, K: c.number, Jf: uint8(len(body))})
		program = append(program, body...)
	}
	return append(program, refuse)
}

// seccomp confines all threads of the process for good and says whether it did. No new
// privileges must be settled before.
func seccomp(compiles bool) bool { return install(calls(compiles)) }

func install(allowed []call) bool {
	program := filter(allowed)
	order := unix.SockFprog{Len: uint16(len(program)), Filter: unsafe.SliceData(program)}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&order)))
	runtime.KeepAlive(program)
	return errno == 0
}
