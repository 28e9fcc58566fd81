package fork

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/seed-7c27e6b8/whale/sandbox/wasm"
	"github.com/seed-7c27e6b8/whale/sandbox/wasm/wasmtest"
)

func importFunc(module, field string, typ byte) []byte {
	return bytes.Join([][]byte{wasmtest.Name(module), wasmtest.Name(field), {0, typ}}, nil)
}

// smallGuest is written by hand: a counter in memory and one in a global, and functions that
// grow, ask the host, read the clock and draw. The types: 0 ()->i64, 1 ()->(), 2 (i32,i32,i32,i32)->i32, 3 (i32,i32)->(), 4
// (i32,i32)->i32, 5 (i32,i64,i32)->i32, 6 (i32)->().
func smallGuest() []byte {
	types := wasmtest.Section(1, wasmtest.Vector(
		[]byte{0x60, 0, 1, 0x7e}, []byte{0x60, 0, 0}, []byte{0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f},
		[]byte{0x60, 2, 0x7f, 0x7f, 0}, []byte{0x60, 2, 0x7f, 0x7f, 1, 0x7f},
		[]byte{0x60, 3, 0x7f, 0x7e, 0x7f, 1, 0x7f}, []byte{0x60, 1, 0x7f, 0}))
	imports := wasmtest.Section(2, wasmtest.Vector(
		importFunc("whale", "call", 2), importFunc("whale", "take", 3),
		importFunc("wasi_snapshot_preview1", "random_get", 4), importFunc("wasi_snapshot_preview1", "clock_time_get", 5),
		importFunc("wasi_snapshot_preview1", "proc_exit", 6)))
	functions := wasmtest.Section(3, wasmtest.Vector([]byte{1}, []byte{0}, []byte{0}, []byte{0}, []byte{0}, []byte{0}, []byte{0}))
	memory := wasmtest.Section(5, wasmtest.Vector([]byte{0, 2}))
	globals := wasmtest.Section(6, wasmtest.Vector([]byte{0x7f, 0, 0x41, 5, 0x0b}, []byte{0x7f, 1, 0x41, 0, 0x0b}))
	exports := wasmtest.Section(7, wasmtest.Vector(wasmtest.Export("_initialize", 0, 5), wasmtest.Export("bump", 0, 6), wasmtest.Export("grow", 0, 7),
		wasmtest.Export("ask", 0, 8), wasmtest.Export("chance", 0, 9), wasmtest.Export("leave", 0, 10), wasmtest.Export("down", 0, 11), wasmtest.Export("memory", 2, 0)))
	bodies := wasmtest.Section(10, wasmtest.Vector(
		wasmtest.Code(0x41, 0x80, 0x08, 0x41, 7, 0x36, 2, 0), // mem[1024] = 7
		wasmtest.Code( // mem[1024]++, global++; mem[1024]*1000 + global
			0x41, 0x80, 0x08, 0x41, 0x80, 0x08, 0x28, 2, 0, 0x41, 1, 0x6a, 0x36, 2, 0,
			0x23, 1, 0x41, 1, 0x6a, 0x24, 1,
			0x41, 0x80, 0x08, 0x28, 2, 0, 0x41, 0xe8, 0x07, 0x6c, 0x23, 1, 0x6a, 0xad),
		wasmtest.Code(0x41, 1, 0x40, 0, 0xac),                                     // memory.grow(1)
		wasmtest.Code(0x41, 0, 0x41, 4, 0x41, 0x80, 0x10, 0x41, 2, 0x10, 0, 0xad), // call(0, 4, 2048, 2)
		wasmtest.Code(0x41, 0x80, 0x10, 0x41, 8, 0x10, 2, 0x1a, 0x41, 0x80, 0x20, 0x29, 3, 0, // 8 random bytes at 2048; read at 4096
			0x1a, 0x41, 0, 0x42, 0, 0x41, 0x80, 0x20, 0x10, 3, 0x1a, 0x41, 0x80, 0x10, 0x29, 3, 0, 0x41, 0x80, 0x20, 0x29, 3, 0, 0x7c),
		wasmtest.Code(0x41, 3, 0x10, 4, 0x42, 0), // proc_exit(3)
		wasmtest.Code(0x10, 11),                  // itself
	))
	data := wasmtest.Section(11, wasmtest.Vector(append([]byte{0, 0x41, 0, 0x0b}, wasmtest.Name("ping")...)))
	return bytes.Join([][]byte{[]byte(wasm.Header), types, imports, functions, memory, globals, exports, bodies, data}, nil)
}

func machine(t *testing.T, config Config) *Machine {
	t.Helper()
	if config.MaxMemory == 0 {
		config.MaxMemory = 3 << 16
	}
	m, err := Open(context.Background(), smallGuest(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

func fork(t *testing.T, m *Machine, image *Image) *Instance {
	t.Helper()
	i, err := m.Fork(context.Background(), image)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}

func call(t *testing.T, i *Instance, name string) uint64 {
	t.Helper()
	v, err := i.Call(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var ways = map[string]Config{"forking": {}, "copying": {Copying: true}}

// TestFork: a fork begins where its image was taken and touches neither the image nor
// its siblings; a reset leads back there.
func TestFork(t *testing.T) {
	for way, config := range ways {
		m := machine(t, config)
		first := fork(t, m, m.Base())
		if v := call(t, first, "bump"); v != 8001 {
			t.Errorf("%s: first bump %d", way, v)
		}
		image, err := first.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		a, b := fork(t, m, image), fork(t, m, image)
		if v, w := call(t, a, "bump"), call(t, a, "bump"); v != 9002 || w != 10003 {
			t.Errorf("%s: fork counts %d, %d", way, v, w)
		}
		if v := call(t, b, "bump"); v != 9002 {
			t.Errorf("%s: sibling counts %d", way, v)
		}
		for range 3 {
			pages, ok, err := a.Reset()
			if err != nil || !ok || pages < 1 || !config.Copying && pages != 1 {
				t.Errorf("%s: reset of %d pages, %v, %v", way, pages, ok, err)
			}
			if v := call(t, a, "bump"); v != 9002 {
				t.Errorf("%s: after a reset %d", way, v)
			}
		}
		if v := call(t, first, "bump"); v != 9002 {
			t.Errorf("%s: the original counts %d", way, v)
		}
		t.Cleanup(func() {
			if err := image.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLayer: an image of a fork keeps what was written and, in the same places, the rest of
// the first image; also when the memory has grown, and when the fork of a fork is frozen.
func TestLayer(t *testing.T) {
	m := machine(t, Config{MaxMemory: 8 << 16})
	i := fork(t, m, m.Base())
	call(t, i, "bump")
	call(t, i, "grow")
	last, _ := i.Bytes(3<<16-4, 4)
	copy(last, "last")
	for range 2 {
		image, err := i.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := image.Close(); err != nil {
				t.Error(err)
			}
		}()
		next := fork(t, m, image)
		if !bytes.Equal(next.memory.region[:next.Size()], i.memory.region[:i.Size()]) || next.Size() != 3<<16 {
			t.Errorf("a fork of %d bytes differs", next.Size())
		}
		before := append([]byte(nil), next.memory.region[:next.Size()]...)
		call(t, next, "bump")
		last, _ := next.Bytes(3<<16-4, 4)
		copy(last, "over")
		if _, ok, err := next.Reset(); !ok || err != nil || !bytes.Equal(before, next.memory.region[:next.Size()]) {
			t.Errorf("reset of a layer: %v, %v", ok, err)
		}
		i = next
	}
}

// TestFindDirty: all ways to find written pages lead to the same memory, and copy as much
// as they must.
func TestFindDirty(t *testing.T) {
	for way, want := range map[string]int{"scan": 1, "read": 1, "copy": 32} {
		m := machine(t, Config{})
		if m.dirty == nil || way == "scan" && !m.dirty.scans {
			t.Skip("this kernel can't ", way)
		}
		i := fork(t, m, m.Base())
		real := m.dirty
		switch way {
		case "read":
			m.dirty.scans = false
		case "copy":
			m.dirty = nil
		}
		for range 2 {
			if v := call(t, i, "bump"); v != 8001 {
				t.Errorf("%s: %d", way, v)
			}
			if pages, ok, err := i.Reset(); pages != want || !ok || err != nil {
				t.Errorf("%s: %d pages, %v, %v", way, pages, ok, err)
			}
		}
		m.dirty = real
	}
}

// TestManyRanges: more separate pages than the list of ranges holds at first.
func TestManyRanges(t *testing.T) {
	const pages = 3000
	image, err := newImage(make([]byte, pages*pageSize), false)
	if err != nil {
		t.Skip(err)
	}
	m, err := reserve(pages*pageSize, image)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	find, err := openDirtyPages()
	if err != nil {
		t.Skip(err)
	}
	for _, scans := range []bool{find.scans, false} {
		find.scans = scans
		for at := 0; at < pages; at += 2 {
			m.region[at*pageSize] = 1
		}
		if n, err := m.restore(find); n != pages/2 || err != nil {
			t.Errorf("%d pages, %v", n, err)
		}
		for at := range pages {
			if m.region[at*pageSize] != 0 {
				t.Fatalf("page %d was not restored", at)
			}
		}
	}
	if err := errors.Join(find.close(), image.Close()); err != nil {
		t.Error(err)
	}
}

// TestWorld: clock and chance are the same in every fork and after every reset, and go on
// within one.
func TestWorld(t *testing.T) {
	m := machine(t, Config{})
	a, b := fork(t, m, m.Base()), fork(t, m, m.Base())
	first, second := call(t, a, "chance"), call(t, a, "chance")
	if first == second {
		t.Error("the world stands still")
	}
	if v := call(t, b, "chance"); v != first {
		t.Errorf("a sibling draws %d, not %d", v, first)
	}
	if _, _, err := a.Reset(); err != nil {
		t.Fatal(err)
	}
	if v := call(t, a, "chance"); v != first {
		t.Errorf("after a reset %d, not %d", v, first)
	}
}

// answers is a Host that gives one answer or error and keeps the request.
type answers struct {
	answer  []byte
	err     error
	request string
}

func (a *answers) Answer(request []byte) ([]byte, error) {
	a.request = string(request)
	return a.answer, a.err
}

// TestHost: requests arrive, answers are written, an error of the host comes back as it
// is.
func TestHost(t *testing.T) {
	m := machine(t, Config{})
	i := fork(t, m, m.Base())
	h := &answers{answer: []byte("ok")}
	i.Host = h
	if n := call(t, i, "ask"); n != 2 || h.request != "ping" {
		t.Errorf("%d, %q", n, h.request)
	}
	if b, _ := i.Bytes(2048, 2); string(b) != "ok" {
		t.Errorf("answer %q", b)
	}
	h.answer = []byte("too long")
	if n := call(t, i, "ask"); n != 8 || string(i.answer) != "too long" {
		t.Errorf("%d, kept %q", n, i.answer)
	}
	h.err = errors.New("no more")
	if _, err := i.Call("ask"); err != h.err {
		t.Errorf("%v, want %v", err, h.err)
	}
}

// TestDeath: each way to die has its error, and a grown memory can't be reset.
func TestDeath(t *testing.T) {
	m := machine(t, Config{})
	grown := fork(t, m, m.Base())
	if v := call(t, grown, "grow"); v != 2 || grown.Size() != 3<<16 {
		t.Errorf("grow gave %d, size %d", v, grown.Size())
	}
	if _, ok, err := grown.Reset(); ok || err != nil {
		t.Errorf("reset of a grown memory: %v, %v", ok, err)
	}
	if v := call(t, grown, "grow"); int64(v) != -1 || grown.Refused() != 4<<16 {
		t.Errorf("grow beyond the limit gave %d, refused %d", int64(v), grown.Refused())
	}
	if _, err := grown.Call("leave"); !errors.Is(err, ErrMemory) {
		t.Errorf("death after a refusal: %v", err)
	}
	for name, want := range map[string]error{"leave": ErrDied, "down": ErrStack, "nothing": ErrModule} {
		if _, err := fork(t, m, m.Base()).Call(name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// TestCache: compiled code is found again; a broken cache is made anew and one that can't
// be made is done without, both said aloud.
func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	if m := machine(t, Config{CacheDir: dir}); len(m.Fallbacks()) != 0 {
		t.Errorf("fallbacks %v", m.Fallbacks())
	}
	damaged := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		damaged++
		return os.WriteFile(path, []byte("not compiled code"), 0o600)
	})
	if err != nil || damaged == 0 {
		t.Fatal(err, damaged)
	}
	m := machine(t, Config{CacheDir: dir})
	if v := call(t, fork(t, m, m.Base()), "bump"); v != 8001 {
		t.Errorf("with a damaged cache %d", v)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m = machine(t, Config{CacheDir: filepath.Join(file, "cache")})
	if v := call(t, fork(t, m, m.Base()), "bump"); v != 8001 || len(m.Fallbacks()) == 0 {
		t.Errorf("without a cache %d, fallbacks %v", v, m.Fallbacks())
	}
}

// TestRewrite: what is exported, taken out and refused.
func TestRewrite(t *testing.T) {
	r, err := Rewrite(smallGuest())
	if err != nil || r.Globals != 1 || len(r.Data) != 1 || string(r.Data[0].Data) != "ping" {
		t.Fatalf("%+v, %v", r.Data, err)
	}
	if !bytes.Contains(r.Wasm, []byte(GlobalName(0))) || bytes.Contains(r.Wasm, []byte("ping")) {
		t.Error("the global is not exported or the data is still there")
	}
	module := func(sections ...[]byte) []byte {
		return append([]byte(wasm.Header), bytes.Join(sections, nil)...)
	}
	for what, b := range map[string][]byte{
		"nothing":         nil,
		"another version": []byte("\x00asm\x02\x00\x00\x00"),
		"no exports":      module(),
		"start function":  module(wasmtest.Section(7, wasmtest.Vector()), wasmtest.Section(8, []byte{0})),
		"passive data":    module(wasmtest.Section(7, wasmtest.Vector()), wasmtest.Section(11, wasmtest.Vector(append([]byte{1}, wasmtest.Name("x")...)))),
		"computed offset": module(wasmtest.Section(7, wasmtest.Vector()), wasmtest.Section(11, wasmtest.Vector(append([]byte{0, 0x41, 1, 0x41, 1, 0x6a, 0x0b}, wasmtest.Name("x")...)))),
		"cut short":       smallGuest()[:100],
	} {
		if _, err := Rewrite(b); !errors.Is(err, ErrModule) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzRewrite: no module makes the rewriter panic, and what it accepts it can read again.
func FuzzRewrite(f *testing.F) {
	f.Add(smallGuest())
	f.Add([]byte(wasm.Header))
	f.Fuzz(func(t *testing.T, module []byte) {
		r, err := Rewrite(module)
		if err != nil {
			return
		}
		again, err := Rewrite(r.Wasm)
		if err != nil || len(again.Data) != 0 || again.Globals != r.Globals {
			t.Fatalf("rewritten twice: %d globals, %d segments, %v", again.Globals, len(again.Data), err)
		}
	})
}

// TestSpare: the next fork gets an instance that was closed, with nothing of its memory;
// one that died is not kept.
func TestSpare(t *testing.T) {
	m := machine(t, Config{MaxMemory: 8 << 16})
	first := fork(t, m, m.Base())
	call(t, first, "bump")
	image, err := first.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for round, want := range []*Image{image, m.Base(), image, image, m.Base()} {
		i, err := m.Fork(context.Background(), want)
		if err != nil {
			t.Fatal(err)
		}
		if round > 0 && len(m.spare) != 0 {
			t.Errorf("round %d: the spare instance was not taken", round)
		}
		if !bytes.Equal(i.memory.region[:i.Size()], want.pristine) {
			t.Errorf("round %d: not the memory of the image", round)
		}
		count := map[*Image]uint64{image: 9002, m.Base(): 8001}[want]
		if v := call(t, i, "bump"); v != count {
			t.Errorf("round %d: %d, want %d", round, v, count)
		}
		if _, ok, err := i.Reset(); !ok || err != nil || !bytes.Equal(i.memory.region[:i.Size()], want.pristine) {
			t.Errorf("round %d: reset: %v, %v", round, ok, err)
		}
		call(t, i, "bump")
		if err := i.Close(); err != nil || len(m.spare) != 1 {
			t.Errorf("round %d: %d spares, %v", round, len(m.spare), err)
		}
	}
	for way, end := range map[string]string{"died": "leave", "grew": "grow"} {
		i, err := m.Fork(context.Background(), image)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Call(end); (err != nil) != (way == "died") {
			t.Fatal(way, err)
		}
		if err := i.Close(); err != nil || len(m.spare) != 0 {
			t.Errorf("one that %s was kept: %v", way, err)
		}
	}
	if err := image.Close(); err != nil {
		t.Error(err)
	}
}

// TestFaults: where page faults tell whether there are new pages to put back, every page is
// put back, of many instances in turn.
func TestFaults(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m := machine(t, Config{OneThread: true, MaxMemory: 8 << 16})
	if m.dirty == nil || !m.dirty.counts {
		t.Skip("this kernel can't")
	}
	instances := []*Instance{fork(t, m, m.Base()), fork(t, m, m.Base())}
	looked := 0
	for round := range 40 {
		i := instances[round%2]
		call(t, i, "bump")
		for page := range round / 4 {
			b, _ := i.Bytes(uint32(page*3%32*pageSize+8), 1)
			b[0] = byte(round)
		}
		before := i.memory.faults
		pages, ok, err := i.Reset()
		if !ok || err != nil || pages < 1 || !bytes.Equal(i.memory.region[:i.Size()], m.Base().pristine) {
			t.Fatalf("round %d: %d pages, %v, %v", round, pages, ok, err)
		}
		if i.memory.faults != before {
			looked++
		}
	}
	if looked == 40 {
		t.Error("looked at every page table in each round")
	}
}

// TestCorruptCache: compiled code that was cut short or changed is made again, and nothing
// else in the folder is touched.
func TestCorruptCache(t *testing.T) {
	folder := t.TempDir()
	other := filepath.Join(folder, "other")
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	machine(t, Config{CacheDir: folder})
	for name, spoil := range map[string]func(b []byte) []byte{
		"short":   func(b []byte) []byte { return b[:len(b)/2] },
		"empty":   func(b []byte) []byte { return nil },
		"changed": func(b []byte) []byte { b[len(b)-9] ^= 0xff; return b },
	} {
		files, err := filepath.Glob(filepath.Join(folder, "wazero-*", "*"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, spoil(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		m := machine(t, Config{CacheDir: folder})
		if v := call(t, fork(t, m, m.Base()), "bump"); v != 8001 {
			t.Errorf("%s: %d", name, v)
		}
		if _, err := os.Stat(other); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
