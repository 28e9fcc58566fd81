package sensor

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Host is the machine without its cards at one moment.
type Host struct {
	MemoryTotal Reading // bytes this process may use: the machine's, or its cgroup's if less
	MemoryFree  Reading // bytes of these that can still be had without swapping
	Own         Reading // bytes resident in this process
	Cores       Reading // processors' worth of time that the cgroup grants; unsupported = all
	Load        Reading // runnable tasks over the last minute
	Stalled     Reading // share of the last 10 s in which some task waited for memory, in [0,1]
}

// Files are where the kernel says how it is; Root is empty but in tests.
type Files struct{ Root string }

const exa = 1 << 60 // more bytes than any machine has

// Host reads /proc and the cgroup of the process.
func (f Files) Host() Host {
	info := f.read("proc/meminfo")
	h := Host{MemoryTotal: kilobytes(info, "MemTotal:"), MemoryFree: kilobytes(info, "MemAvailable:"),
		Own:  kilobytes(f.read("proc/self/status"), "VmRSS:"),
		Load: number(firstField(f.read("proc/loadavg")), 0, 1e6), Stalled: stalled(f.read("proc/pressure/memory"))}
	group := filepath.Join("sys/fs/cgroup", f.group())
	limit := f.least(group, "memory.max", "memory/memory.limit_in_bytes")
	used := f.least(group, "memory.current", "memory/memory.usage_in_bytes")
	if most, ok := limit.Get(); ok && most < h.MemoryTotal.Or(exa) {
		h.MemoryTotal = limit
		if held, ok := used.Get(); ok {
			h.MemoryFree = Value(min(h.MemoryFree.Or(exa), max(0, most-held)), 0, exa)
		}
	}
	h.Cores = cores(f.read(filepath.Join(group, "cpu.max")))
	return h
}

// group is the process's place in the unified hierarchy, empty for the root.
func (f Files) group() string {
	for line := range bytes.Lines(f.read("proc/self/cgroup")) {
		path, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "0::/")
		if ok && filepath.IsLocal(path) && f.read(filepath.Join("sys/fs/cgroup", path, "cgroup.controllers")) != nil {
			return path // in a container the path may be the host's
		}
	}
	return ""
}

// least reads a limit of the unified hierarchy or, where there is none, of the old one.
func (f Files) least(group, unified, old string) Reading {
	if text := f.read(filepath.Join(group, unified)); text != nil {
		return number(firstField(text), 0, exa)
	}
	return number(firstField(f.read(filepath.Join("sys/fs/cgroup", old))), 0, exa)
}

// read is a small file's text; nil when it can't be read, which is how the kernel says
// that it does not offer something.
func (f Files) read(path string) []byte {
	text, err := os.ReadFile(filepath.Join(f.Root, "/", path))
	if err != nil {
		return nil
	}
	return text
}

func firstField(text []byte) string {
	if fields := strings.Fields(string(text)); len(fields) > 0 {
		return fields[0]
	}
	return ""
}

// number reads a decimal number; the kernel's word for none is empty or "max".
func number(text string, lo, hi float64) Reading {
	if text == "" || text == "max" {
		return Missing("not offered by this kernel")
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Broken(strconv.Quote(text[:min(len(text), 20)]) + " is no number")
	}
	return Value(v, lo, hi)
}

// kilobytes reads a line such as "MemTotal:  1024 kB".
func kilobytes(text []byte, name string) Reading {
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		r := number(firstField(rest), 0, exa/1024)
		if v, ok := r.Get(); ok {
			return Value(v*1024, 0, exa)
		}
		return r
	}
	return Missing("not offered by this kernel")
}

// stalled reads "some avg10=1.50 ..." as a share.
func stalled(text []byte) Reading {
	_, rest, ok := strings.Cut(string(text), "some avg10=")
	if !ok {
		return Missing("not offered by this kernel")
	}
	r := number(firstField([]byte(rest)), 0, 100)
	if v, ok := r.Get(); ok {
		return Value(v/100, 0, 1)
	}
	return r
}

// cores reads "quota period" in microseconds.
func cores(text []byte) Reading {
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return Missing("no limit")
	}
	quota, period := number(fields[0], 0, 1e12), number(fields[1], 1, 1e9)
	q, ok := quota.Get()
	if !ok {
		return quota
	}
	p, ok := period.Get()
	if !ok {
		return period
	}
	return Value(q/p, 0, 1e6)
}
