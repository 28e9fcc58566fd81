package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// silence is how long a worker in which no guest runs may leave sessions waiting.
const silence = 60 * time.Second

// slowLook: what needs files of /proc is looked at every so many looks.
const slowLook = 5

// killOverdue kills the process if one stay in guest code has lasted longer than the
// limits allow, if the worker was stopped, takes too much memory or isn't heard any more.
func (p *process) killOverdue(limits Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil || p.blamed != 0 || p.verdict != "" {
		return
	}
	var used unix.Timespec
	if err := unix.ClockGettime(processClock(p.cmd.Process.Pid), &used); err != nil {
		return // it is gone
	}
	now := time.Duration(used.Nano())
	p.looks++
	stay := p.running.Now()
	changed := stay.Session == 0 || stay != p.stay
	if changed {
		p.stay, p.since = stay, now
	}
	// The limits are processor time, of the whole worker: a busy machine must not make a
	// harness look slow.
	allowed := limits.Time + limits.Grace
	if p.cancelled[stay.Session] {
		allowed = limits.Grace
		p.running.Interrupt(stay.Session)
	}
	switch {
	case !changed && now-p.since > allowed:
		p.blamed = stay.Session
	case p.looks%slowLook != 0:
		return
	case resident(p.cmd.Process.Pid) > limits.Process:
		p.verdict = fmt.Sprintf("it took more than %d MB", limits.Process>>20)
	case stopped(p.cmd.Process.Pid):
		p.verdict = "it was stopped"
	case stay.Session == 0 && p.waiting > 0 && time.Since(p.heard) > silence:
		p.verdict = fmt.Sprintf("it said nothing for %v", silence)
	default:
		return
	}
	p.kill()
}

// stopped says whether a process was stopped by a signal or is being traced. Without
// /proc nobody knows.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return len(state) > 0 && (state[0] == 'T' || state[0] == 't')
}

// resident is the memory that a process has for itself, in bytes; 0 where it can't be known.
// A limit in the kernel would count the address space that instances only reserve, and the
// kernel's count of all resident pages has those of an image once per instance.
func resident(pid int) int64 {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages, shared int64
	if _, err := fmt.Sscan(string(statm), &size, &pages, &shared); err != nil {
		return 0
	}
	return (pages - shared) * int64(os.Getpagesize())
}

// processClock names the processor clock of a process (the kernel's encoding: ones'
// complement of the id, three bits of flags).
func processClock(pid int) int32 { return int32(^pid<<3 | 2) }
