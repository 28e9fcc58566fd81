package fork_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/seed-7c27e6b8/whale/sandbox/fork"
	"github.com/seed-7c27e6b8/whale/sandbox/image"
)

func realMachine(b testing.TB) *fork.Machine {
	b.Helper()
	runtime.LockOSThread()
	b.Cleanup(runtime.UnlockOSThread)
	guest, err := image.Guest()
	if err != nil {
		b.Skip(err)
	}
	m, err := fork.Open(context.Background(), guest, fork.Config{
		CacheDir: filepath.Join(os.TempDir(), "whale-test-wasm"), MaxMemory: 64 << 20, OneThread: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return m
}

// BenchmarkFork: a new instance of the real guest, one call, and its end.
func BenchmarkFork(b *testing.B) {
	m := realMachine(b)
	for b.Loop() {
		i, err := m.Fork(context.Background(), m.Base())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := i.Call("whale_version"); err != nil {
			b.Fatal(err)
		}
		if err := i.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReset: the same instance, one call, and back to its image.
func BenchmarkReset(b *testing.B) {
	m := realMachine(b)
	i, err := m.Fork(context.Background(), m.Base())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := i.Call("whale_room", 100); err != nil {
			b.Fatal(err)
		}
		if _, ok, err := i.Reset(); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
	if err := i.Close(); err != nil {
		b.Error(err)
	}
}
