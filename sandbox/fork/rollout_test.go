package fork_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit/kittest"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
	"github.com/seed-7c27e6b8/whale/sandbox/compile"
	"github.com/seed-7c27e6b8/whale/sandbox/fork"
	"github.com/seed-7c27e6b8/whale/sandbox/image"
)

// oneReply answers every request with the same reply.
type oneReply []byte

func (o oneReply) Answer([]byte) ([]byte, error) { return o, nil }

// BenchmarkRollout: four turns in an instance that is reset after each rollout, without a
// worker around it: what the guest and the reset take, alone and with eight instances in
// turn, which don't fit the core's cache together.
func BenchmarkRollout(b *testing.B) {
	for _, by := range []string{"interpret", "compile"} {
		b.Run(by, func(b *testing.B) { rollouts(b, by, 1) })
		b.Run(by+"-8-instances", func(b *testing.B) { rollouts(b, by, 8) })
	}
}

func rollouts(b *testing.B, by string, count int) {
	ctx := context.Background()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	config := fork.Config{CacheDir: filepath.Join(os.TempDir(), "whale-test-wasm"), MaxMemory: 64 << 20, OneThread: true}
	guest, err := guestFor(ctx, by)
	if err != nil {
		b.Skip(err)
	}
	m, err := fork.Open(ctx, guest, config)
	if err != nil {
		b.Fatal(err)
	}
	at := m.Base()
	if by == "interpret" {
		at = loaded(b, m, kittest.FourTurns)
	}
	var instances []*fork.Instance
	for range count {
		i, err := m.Fork(ctx, at)
		if err != nil {
			b.Fatal(err)
		}
		i.Host = oneReply(abi.AppendAnswer(nil, abi.Answer{Replies: []abi.Reply{{Handle: 1, Text: `turn 1 answers "q": search(1)`, Stop: "end", Tokens: 7}}}))
		instances = append(instances, i)
	}
	start := abi.AppendStart(nil, abi.Start{Domain: "d", Input: "q"})
	var runs, resets []float64
	for n := 0; b.Loop(); n++ {
		i := instances[n%count]
		began := time.Now()
		if end, err := abi.DecodeEnd(say(b, i, "whale_run", start)); err != nil || end.Status != abi.OK {
			b.Fatal(end, err)
		}
		ran := time.Now()
		host := i.Host
		if _, ok, err := i.Reset(); !ok || err != nil {
			b.Fatal(ok, err)
		}
		i.Host = host
		runs, resets = append(runs, float64(ran.Sub(began))), append(resets, float64(time.Since(ran)))
	}
	slices.Sort(runs)
	slices.Sort(resets)
	b.ReportMetric(runs[len(runs)/2], "median-run-ns")
	b.ReportMetric(resets[len(resets)/2], "median-reset-ns")
	for _, i := range instances {
		err = errors.Join(err, i.Close())
	}
	if err := errors.Join(err, m.Close(ctx)); err != nil {
		b.Error(err)
	}
}

func guestFor(ctx context.Context, by string) ([]byte, error) {
	if by == "interpret" {
		return image.Guest()
	}
	c, err := compile.Open(ctx, filepath.Join(os.TempDir(), "whale-test-compile"))
	if err != nil {
		return nil, err
	}
	return c.Build(ctx, engine.NewHarness(kittest.FourTurns, engine.Meta{}))
}

// loaded is the image of an interpreter that has the source.
func loaded(b testing.TB, m *fork.Machine, source string) *fork.Image {
	b.Helper()
	i, err := m.Fork(context.Background(), m.Base())
	if err != nil {
		b.Fatal(err)
	}
	if refusal, err := abi.DecodeRefusal(say(b, i, "whale_load", []byte(source))); err != nil || refusal.Rule != "" {
		b.Fatal(refusal, err)
	}
	made, err := i.Snapshot()
	if err := errors.Join(err, i.Close()); err != nil {
		b.Fatal(err)
	}
	return made
}

// say puts bytes into a guest and calls a function on them.
func say(b testing.TB, i *fork.Instance, name string, input []byte) []byte {
	at, err := i.Call("whale_room", uint64(len(input)))
	if err != nil {
		b.Fatal(err)
	}
	room, _ := i.Bytes(uint32(at), uint32(len(input)))
	copy(room, input)
	result, err := i.Call(name, uint64(len(input)))
	if err != nil {
		b.Fatal(err)
	}
	output, _ := i.Bytes(uint32(result>>32), uint32(result))
	return output
}

// listener keeps what a guest logs.
type listener struct{ logs []string }

func (l *listener) Answer(request []byte) ([]byte, error) {
	r, err := abi.DecodeRequest(request)
	l.logs = append(l.logs, r.Log)
	return abi.AppendAnswer(nil, abi.Answer{}), err
}

// TestGoroutine: a goroutine that a run left behind goes on in the next one, unless the instance
// was reset. The vet keeps goroutines from the interpreter; here nothing does.
func TestGoroutine(t *testing.T) {
	m := realMachine(t)
	image := loaded(t, m, `package harness

import (
	"strconv"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

var count int

func Run(s *kit.Session) error {
	turn := make(chan bool)
	go func() { turn <- true }()
	<-turn // others have run
	err := s.Log(strconv.Itoa(count))
	go func() { count = count + 100 }()
	return err
}
`)
	i, err := m.Fork(context.Background(), image)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(i.Close(), image.Close()); err != nil {
			t.Error(err)
		}
	}()
	l := &listener{}
	for _, reset := range []bool{false, true, true} {
		i.Host = l
		if end, err := abi.DecodeEnd(say(t, i, "whale_run", abi.AppendStart(nil, abi.Start{}))); err != nil || end.Status != abi.OK {
			t.Fatal(end, err)
		}
		if !reset {
			continue
		}
		if _, ok, err := i.Reset(); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if want := []string{"0", "100", "0"}; !slices.Equal(l.logs, want) {
		t.Errorf("counts %q, not %q", l.logs, want)
	}
}
