package sandbox

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-7c27e6b8/whale/engine"
)

func BenchmarkResetEmptyRun(b *testing.B) {
	box := open(b, Config{Workers: 1})
	p := load(b, box, head+"func Run(s *kit.Session) error { return nil }")
	var times []float64
	for b.Loop() {
		began := time.Now()
		if _, err := p.Run(context.Background(), engine.Start{Input: "q"}, &script{}); err != nil {
			b.Fatal(err)
		}
		times = append(times, float64(time.Since(began).Nanoseconds()))
	}
	b.ReportMetric(median(times), "median-ns")
}

// median is what a machine with other work on it leaves comparable.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func BenchmarkFourTurnRollout(b *testing.B) { fourTurnRollouts(b, Interpret) }

func BenchmarkFourTurnCompiled(b *testing.B) { fourTurnRollouts(b, Compile) }

func fourTurnRollouts(b *testing.B, by string) {
	box := open(b, Config{Workers: 1, Engine: by})
	p := load(b, box, fourTurns)
	var guest, times []float64
	for b.Loop() {
		began := time.Now()
		use, err := p.Run(context.Background(), engine.Start{Input: "q"}, &script{})
		if err != nil {
			b.Fatal(err)
		}
		times = append(times, float64(time.Since(began).Nanoseconds()))
		guest = append(guest, use.Seconds*1e9)
	}
	b.ReportMetric(median(times), "median-ns")
	b.ReportMetric(median(guest), "median-guest-ns")
}

func BenchmarkLoad(b *testing.B) {
	box := open(b, Config{Workers: 1})
	n := 0
	load(b, box, fourTurns)
	own, theirs := processorTime(b, os.Getpid()), workersTime(b, box)
	for b.Loop() {
		n++
		p := load(b, box, fourTurns+fmt.Sprintf("// %d\n", n))
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processorTime(b, os.Getpid())-own)/float64(b.N), "engine-cpu-ns/op")
	b.ReportMetric(float64(workersTime(b, box)-theirs)/float64(b.N), "worker-cpu-ns/op")
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		if err := openOwn(b, Config{Workers: 1}).Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkThroughput: rollouts of many sessions at once, over one worker and over all, with
// few and with many in flight per processor. Processor time tells what a rollout costs on a
// machine with other work on it too.
func BenchmarkThroughput(b *testing.B) {
	for _, by := range []string{Interpret, Compile} {
		for _, workers := range []int{1, 2} {
			for _, sessions := range []int{4, 16} {
				b.Run(fmt.Sprintf("%s-%dx%d", by, workers, sessions), func(b *testing.B) {
					throughput(b, Config{Workers: workers, Engine: by}, sessions)
				})
			}
		}
	}
}

// throughput measures with that many sessions in flight per processor.
func throughput(b *testing.B, config Config, sessions int) {
	box := open(b, config)
	p := load(b, box, fourTurns)
	rollouts := func(n int) {
		var left atomic.Int64
		left.Store(int64(n))
		var all sync.WaitGroup
		for range sessions * runtime.NumCPU() {
			all.Go(func() {
				for left.Add(-1) >= 0 {
					if _, err := p.Run(context.Background(), engine.Start{Input: "q"}, &script{}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	rollouts(4 * loadingCosts * sessions * runtime.NumCPU()) // every worker is started and has the image
	b.ResetTimer()
	own, theirs := processorTime(b, os.Getpid()), workersTime(b, box)
	rollouts(b.N)
	b.ReportMetric(float64(processorTime(b, os.Getpid())-own)/float64(b.N), "engine-cpu-ns/op")
	b.ReportMetric(float64(workersTime(b, box)-theirs)/float64(b.N), "worker-cpu-ns/op")
}

func workersTime(b *testing.B, box *Sandbox) (sum int64) {
	for _, w := range box.posts() {
		if p := w.peek(); p != nil {
			sum += processorTime(b, p.cmd.Process.Pid)
		}
	}
	return sum
}

func processorTime(b *testing.B, pid int) int64 {
	var used unix.Timespec
	if err := unix.ClockGettime(processClock(pid), &used); err != nil {
		b.Fatal(err)
	}
	return used.Nano()
}
