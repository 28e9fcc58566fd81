package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

// held are sessions of one program that wait in their second turn until they are let go.
type held struct {
	arrived, left sync.WaitGroup
	open          chan struct{}
}

// hold starts sessions and returns when all wait in their second turn.
func hold(tb testing.TB, p engine.Program, sessions int) *held {
	h := &held{open: make(chan struct{})}
	h.arrived.Add(sessions)
	for range sessions {
		h.left.Go(func() {
			host := &script{}
			arrived := sync.OnceFunc(h.arrived.Done)
			defer arrived()
			host.generate = func(m []engine.Message, _ engine.GenerateOptions) ([]engine.Reply, error) {
				if host.turns == 2 {
					arrived()
					<-h.open
				}
				return []engine.Reply{{Handle: host.turns, Text: "search(1)", Stop: engine.StopEnd, Tokens: 7}}, nil
			}
			if _, err := p.Run(context.Background(), engine.Start{Input: "q"}, host); err != nil {
				tb.Error(err)
			}
		})
	}
	h.arrived.Wait()
	return h
}

func (h *held) let() {
	close(h.open)
	h.left.Wait()
}

// memoryOf sums a field of the workers' memory maps, in bytes.
func memoryOf(tb testing.TB, box *Sandbox, field string) (sum int64) {
	tb.Helper()
	for _, w := range box.posts() {
		p := w.peek()
		if p == nil {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.cmd.Process.Pid))
		if err != nil {
			tb.Skip(err)
		}
		var kib int64
		if _, rest, ok := bytes.Cut(text, []byte("\n"+field+":")); ok {
			if _, err := fmt.Sscan(string(rest), &kib); err != nil {
				tb.Fatal(err)
			}
		}
		sum += kib << 10
	}
	return sum
}

// descriptors lists what the workers and this process hold open.
func descriptors(tb testing.TB, box *Sandbox) (open []string) {
	tb.Helper()
	pids := []int{os.Getpid()}
	for _, w := range box.posts() {
		if p := w.peek(); p != nil {
			pids = append(pids, p.cmd.Process.Pid)
		}
	}
	for _, pid := range pids {
		folder := fmt.Sprintf("/proc/%d/fd", pid)
		list, err := os.ReadDir(folder)
		if err != nil {
			tb.Skip(err)
		}
		for _, fd := range list {
			if target, err := os.Readlink(filepath.Join(folder, fd.Name())); err == nil { // else it was ReadDir's own
				open = append(open, target)
			}
		}
	}
	return open
}

// TestLiveMemory: a session between two turns has at most 400 KB of guest memory to itself,
// and takes so little of its worker, wazero's table of functions included, that 2,000 fit
// in 1.5 GB; nothing of it stays.
func TestLiveMemory(t *testing.T) {
	const sessions, most, mostPages = 200, 640 << 10, 100
	if raced {
		t.Skip("the race detector keeps memory of its own for every session")
	}
	box := openOwn(t, Config{Workers: 1})
	defer closeBox(t, box)
	p := load(t, box, fourTurns)
	if use, err := p.Run(context.Background(), engine.Start{Input: "q"}, &script{}); err != nil || use.Pages == 0 || use.Pages > mostPages {
		t.Errorf("%d pages, %v", use.Pages, err)
	}
	open, before := descriptors(t, box), memoryOf(t, box, "Private_Dirty")
	h := hold(t, p, sessions)
	each := (memoryOf(t, box, "Private_Dirty") - before) / sessions
	h.let()
	if each > most || each < 4096 {
		t.Errorf("%d KB each", each>>10)
	}
	if now := descriptors(t, box); len(now) != len(open) {
		t.Errorf("%d descriptors, before %d: %q, before %q", len(now), len(open), now, open)
	}
}

// manyCandidates loads and runs sources that differ in a comment.
func manyCandidates(tb testing.TB, box *Sandbox, from, to int) {
	for n := from; n < to; n++ {
		p := load(tb, box, fourTurns+fmt.Sprintf("// %d\n", n))
		if _, err := p.Run(context.Background(), engine.Start{Input: "q"}, &script{}); err != nil {
			tb.Fatal(err)
		}
		if err := p.Close(); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkLiveSessions: the memory of 2,000 sessions that wait for the model, in all
// workers together (their code, images and heaps included, shared pages counted once).
func BenchmarkLiveSessions(b *testing.B) {
	const sessions = 2000
	for b.Loop() {
		box := openOwn(b, Config{})
		p := load(b, box, fourTurns)
		hold(b, p, 2*len(box.workers)).let()
		before := memoryOf(b, box, "Private_Dirty")
		h := hold(b, p, sessions)
		b.ReportMetric(float64(memoryOf(b, box, "Private_Dirty")-before)/sessions, "bytes/session")
		b.ReportMetric(float64(memoryOf(b, box, "Pss"))/1e6, "MB-workers")
		h.let()
		if err := box.Close(); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkCandidates: candidates one after the other, each loaded, run and closed; what
// the processes grow by meanwhile. -benchtime 20000x is the figure in bench/RESULTS.md.
func BenchmarkCandidates(b *testing.B) {
	box := openOwn(b, Config{Workers: 1})
	defer func() {
		if err := box.Close(); err != nil {
			b.Error(err)
		}
	}()
	manyCandidates(b, box, -1000, 0) // heaps reach their size
	runtime.GC()
	workers, own, open, goroutines := memoryOf(b, box, "Pss"), resident(os.Getpid()), descriptors(b, box), runtime.NumGoroutine()
	b.ResetTimer()
	manyCandidates(b, box, 0, b.N)
	b.ReportMetric(float64(memoryOf(b, box, "Pss")-workers)/1e6, "MB-worker-growth")
	b.ReportMetric(float64(resident(os.Getpid())-own)/1e6, "MB-engine-growth")
	b.ReportMetric(float64(len(descriptors(b, box))-len(open)), "descriptors-growth")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines-growth")
}
