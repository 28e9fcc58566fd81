package worker

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// Variable is the environment variable that makes a process a worker. Its value is the
// stage, and after a colon what already holds the process.
const Variable = "WHALE_SANDBOX_WORKER"

const (
	stageConfine = "confine"
	stageServe   = "serve"
)

// cacheVariable names the folder of compiled code to the first stage.
const cacheVariable = "WHALE_SANDBOX_CACHE"

// withoutVariable tells the first stage what the kernel is taken to lack.
const withoutVariable = "WHALE_SANDBOX_WITHOUT"

// Descriptors that a worker is started with.
const (
	socketFD  = 3
	runningFD = 4
)

// Environment is what a worker's process is started with; cacheDir is the only folder that
// it will be able to write.
func Environment(cacheDir string, without abi.Lacking) []string {
	return []string{Variable + "=" + stageConfine, cacheVariable + "=" + cacheDir, withoutVariable + "=" + strconv.Itoa(int(without))}
}

// Main does a worker's work and exits if this process is a worker; else it returns at
// once. It must be called before anything else in main.
func Main() {
	stage, held, _ := strings.Cut(os.Getenv(Variable), ":")
	switch stage {
	case stageConfine:
		confine()
	case stageServe:
		var confinement []string
		if held != "" {
			confinement = strings.Split(held, ",")
		}
		os.Exit(run(confinement))
	}
}

// confine takes rights from the process and starts the binary anew. These rights belong
// to threads and are inherited over exec; this process has several threads by now, the
// next one starts with only this one. It doesn't return unless exec fails.
func confine() {
	runtime.LockOSThread()
	var held []string
	if unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == nil {
		held = append(held, "no_new_privs")
	}
	if unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) == nil {
		held = append(held, "no_core")
	}
	if unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: maxFile, Max: maxFile}) == nil &&
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: maxFiles, Max: maxFiles}) == nil {
		held = append(held, "rlimits")
	}
	if dropCapabilities() {
		held = append(held, "no_capabilities")
	}
	if unix.CloseRange(runningFD+1, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC) == nil {
		held = append(held, "fds_closed")
	}
	if signal, err := deathSignal(); err == nil && signal == int(unix.SIGKILL) {
		held = append(held, "dies_with_parent")
	}
	without, err := strconv.Atoi(os.Getenv(withoutVariable))
	if err == nil && abi.Lacking(without)&abi.NoLandlock == 0 && len(held) > 0 && held[0] == "no_new_privs" {
		held = append(held, landlock(os.Getenv(cacheVariable))...)
	}
	env := []string{Variable + "=" + stageServe + ":" + strings.Join(held, ",")}
	err = unix.Exec("/proc/self/exe", os.Args[:1], env)
	// Without /proc the worker works in the process that it is, less confined.
	_, _ = os.Stderr.WriteString("sandbox worker: not started anew: " + err.Error() + "\n")
	os.Exit(run(nil))
}

// Bounds of a worker's process.
const (
	maxFile  = 1 << 30 // bytes of a file or memfd
	maxFiles = 4096    // descriptors; an image takes one
)

// dropCapabilities sees that the process has none after the next exec, even as root, and
// says whether that is so.
func dropCapabilities() bool {
	// Fails without the capability to do it, and then there are none to lose.
	_ = unix.Prctl(unix.PR_SET_SECUREBITS, secureNoRoot|secureNoRoot<<1, 0, 0, 0)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0]) == nil
}

// secureNoRoot is SECBIT_NOROOT (Linux, include/uapi/linux/securebits.h); the next bit
// locks it.
const secureNoRoot = 1

// deathSignal is the signal that this process gets when its parent ends.
func deathSignal() (int, error) {
	var signal int32
	err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0)
	return int(signal), err
}
