package cuda

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// usage is what the assembler says of one kernel.
type usage struct {
	kernel                    string
	registers, stack, spilled int // registers of a thread, bytes of a thread
}

var (
	logKernel = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	logSpills = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	logUsed   = regexp.MustCompile(`Used (\d+) registers`)
)

// usages reads the log of one compilation.
func usages(log string) (list []usage) {
	number := func(s string) int {
		n, _ := strconv.Atoi(s) // the pattern lets digits through only
		return n
	}
	for line := range strings.SplitSeq(log, "\n") {
		if m := logKernel.FindStringSubmatch(line); m != nil {
			list = append(list, usage{kernel: m[1]})
		}
		if len(list) == 0 {
			continue
		}
		u := &list[len(list)-1]
		if m := logSpills.FindStringSubmatch(line); m != nil {
			u.stack, u.spilled = number(m[1]), number(m[2])+number(m[3])
		}
		if m := logUsed.FindStringSubmatch(line); m != nil {
			u.registers = number(m[1])
		}
	}
	return list
}

func TestUsages(t *testing.T) {
	const log = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    24 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 24 bytes cumulative stack size
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers`
	want := []usage{{"first", 255, 24, 36}, {"second", 32, 0, 0}}
	if got := usages(log); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// spillBudget is what kernels may spill, in bytes of stores and loads; those that are not named
// may spill nothing.
var spillBudget = map[string]int{}

// Every kernel of the list is in the sources, once, with its number of threads, and the sources
// have no other.
func TestKernelListIsTheSources(t *testing.T) {
	list, err := sources.ReadFile("kernels.h")
	if err != nil {
		t.Fatal(err)
	}
	var listed, there []string
	for _, m := range regexp.MustCompile(`KERNEL\((\w+), (\w+), (\d+)\)`).FindAllStringSubmatch(string(list), -1) {
		listed = append(listed, m[1]+".cu "+m[2]+" "+m[3])
	}
	units, err := fs.Glob(sources, "*.cu")
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range units {
		text, err := sources.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^KERNEL\((\d+), (\w+), \w+\)`).FindAllStringSubmatch(string(text), -1) {
			there = append(there, unit+" "+m[2]+" "+m[1])
		}
	}
	slices.Sort(listed)
	slices.Sort(there)
	if len(there) == 0 || !slices.Equal(listed, there) {
		t.Errorf("kernels.h lists\n%s\nthe sources have\n%s", strings.Join(listed, "\n"), strings.Join(there, "\n"))
	}
}

// The sources compile with the real compiler for three generations of cards, without a warning,
// and spill no more than their budget. It needs the library and no card: .ci/nvrtc fetches it.
func TestKernelsCompileForCards(t *testing.T) {
	path := os.Getenv("WHALE_NVRTC")
	if path == "" {
		t.Skip("WHALE_NVRTC names no libnvrtc: .ci/nvrtc fetches one")
	}
	n, err := openNVRTC(path)
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	fmt.Printf("nvrtc %d.%d\n%-8s %-26s %9s %6s %8s\n", n.version/1000, n.version%1000, "card", "kernel", "registers", "stack", "spilled")
	units, err := fs.Glob(sources, "*.cu")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	var mu sync.Mutex
	for _, arch := range []string{"sm_80", "sm_90", "sm_100"} {
		for _, unit := range units {
			all.Go(func() {
				slots <- struct{}{}
				cubin, log, err := n.compile(unit, arch)
				<-slots
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("%v\n%s", err, log)
					return
				}
				if !bytes.HasPrefix(cubin, []byte("\x7fELF")) {
					t.Errorf("%s for %s: %d bytes that are no cubin", unit, arch, len(cubin))
				}
				checkLog(t, unit, arch, log)
			})
		}
	}
	all.Wait()
}

func checkLog(t *testing.T, unit, arch, log string) {
	if strings.Contains(log, "warning") {
		t.Errorf("%s for %s:\n%s", unit, arch, log)
	}
	list := usages(log)
	if len(list) == 0 {
		t.Errorf("%s for %s: the log names no kernel:\n%s", unit, arch, log)
	}
	for _, u := range list {
		fmt.Printf("%-8s %-26s %9d %6d %8d\n", arch, u.kernel, u.registers, u.stack, u.spilled)
		if u.registers == 0 || u.spilled > spillBudget[u.kernel] {
			t.Errorf("%s for %s: %d registers, spills %d bytes, may spill %d", u.kernel, arch, u.registers, u.spilled, spillBudget[u.kernel])
		}
	}
}

func TestNVRTCThatIsNotThere(t *testing.T) {
	if _, err := openNVRTC("/no/such/libnvrtc.so"); err == nil || !strings.Contains(err.Error(), "libnvrtc") {
		t.Errorf("%v, want an error that names the library", err)
	}
	if _, err := openNVRTC("libm.so.6"); err == nil || !strings.Contains(err.Error(), "lacks nvrtc") {
		t.Errorf("%v, want an error that names what libm lacks", err)
	}
}
