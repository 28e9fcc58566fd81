package cuda

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/cpu"
)

// sources are the CUDA kernels and what they include, and the shim that runs them on the CPU.
//
//go:embed *.cu *.cuh kernels.h whale.h simt/*
var sources embed.FS

// kernelsFor is where the device of a kind finds its compiled kernels; "" for the CPU.
func kernelsFor(kind, isa string) (string, error) {
	switch kind {
	case "simt":
	case "cuda":
		c, err := findCard()
		if err != nil {
			return "", err
		}
		defer c.compiler.close()
		return c.where()
	default:
		return "", nil
	}
	return simtKernels(isa == "checked")
}

// SIMTKernels is the library of kernels that the device "simt" runs; it is compiled the first
// time. For package fakecard, whose card runs them too.
func SIMTKernels() (string, error) { return simtKernels(false) }

func simtKernels(checked bool) (string, error) {
	units, err := fs.Glob(sources, "*.cu")
	if err != nil {
		return "", err
	}
	return simtLibrary(simtBuild{sources: sources, units: units, checked: checked})
}

// simtBuild is one compilation of kernels by g++, in a folder of its own.
type simtBuild struct {
	sources       fs.FS
	units         []string // *.cu
	checked       bool     // every access to memory calls simt/check.cpp
	compiler, dir string
}

var simtMu sync.Mutex // one compilation at a time in this process

// simtLibrary is the path of the kernels compiled for this machine. The library is made once and
// kept in the user's cache folder under the hash of all that goes into it.
func simtLibrary(b simtBuild) (string, error) {
	simtMu.Lock()
	defer simtMu.Unlock()
	b.compiler = cmp.Or(os.Getenv("CXX"), "g++")
	version, err := exec.Command(b.compiler, "-dumpfullversion").Output()
	if err != nil {
		return "", fmt.Errorf("simt compiles its kernels with %s: %w", b.compiler, err)
	}
	name, err := b.name(string(version))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "whale")
	path := filepath.Join(cache, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("kernels of simt: %w", err)
	}
	// Another process that wants the same waits here and then finds it.
	lock, err := os.OpenFile(filepath.Join(cache, "simt.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("kernels of simt: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("kernels of simt: %w", err)
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	b.dir, err = os.MkdirTemp(cache, "simt-build-")
	if err != nil {
		return "", fmt.Errorf("kernels of simt: %w", err)
	}
	err = b.run(path)
	return path, errors.Join(err, os.RemoveAll(b.dir))
}

// flags are the compiler's. Strict floating point: what is fused is said in the source.
func (b *simtBuild) flags(source string) []string {
	flags := []string{"-std=c++17", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-fvisibility=hidden", "-w", "-DSIMT", "-I."}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		flags = append(flags, "-mavx2", "-mfma")
	}
	if strings.HasSuffix(source, ".cu") {
		flags = append(flags, "-x", "c++")
		if b.checked {
			flags = append(flags, "-O1", "-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0")
		}
	}
	return flags
}

// name tells builds apart that differ in anything.
func (b *simtBuild) name(version string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, b.compiler, version, b.units, b.flags("x.cu"))
	err := fs.WalkDir(b.sources, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(b.sources, path)
		fmt.Fprintln(h, path, len(data))
		h.Write(data)
		return err
	})
	return "simt-" + hex.EncodeToString(h.Sum(nil)[:12]) + ".so", err
}

// run compiles all sources side by side, links them, and moves the library to path.
func (b *simtBuild) run(path string) error {
	if err := os.CopyFS(b.dir, b.sources); err != nil {
		return fmt.Errorf("kernels of simt: %w", err)
	}
	units := append(slices.Clone(b.units), "simt/run.cpp")
	if b.checked {
		units = append(units, "simt/check.cpp")
	}
	errs := make([]error, len(units))
	var all sync.WaitGroup
	for i, unit := range units {
		all.Go(func() { errs[i] = b.command(append(b.flags(unit), "-c", unit, "-o", object(unit))...) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	link := []string{"-shared", "-o", "kernels.so"}
	for _, unit := range units {
		link = append(link, object(unit))
	}
	if err := b.command(link...); err != nil {
		return err
	}
	return os.Rename(filepath.Join(b.dir, "kernels.so"), path)
}

func object(unit string) string { return strings.ReplaceAll(unit, "/", "-") + ".o" }

func (b *simtBuild) command(args ...string) error {
	c := exec.Command(b.compiler, args...)
	c.Dir = b.dir
	out, err := c.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "error") })
		return fmt.Errorf("kernels of simt: %s: %w: %s", b.compiler, err, lines[max(0, at)])
	}
	return nil
}
