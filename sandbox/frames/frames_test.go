package frames

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/seed-7c27e6b8/whale/sandbox/wasm"
	"github.com/seed-7c27e6b8/whale/sandbox/wasm/wasmtest"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

func sized(b []byte) []byte { return wasm.AppendBytes(nil, b) }

// goModule has the functions outer and inner as Go compiles them. Global 0 is the stack
// pointer; memory 1024 counts the calls of inner, which unwinds the stack if 1032 is not 0.
func goModule(outer []byte) []byte {
	return bytes.Join([][]byte{[]byte(wasm.Header),
		wasmtest.Section(wasm.SectionType, wasmtest.Vector([]byte{0x60, 1, wasm.TypeI32, 1, wasm.TypeI32})),
		wasmtest.Section(wasm.SectionFunction, wasmtest.Vector([]byte{0}, []byte{0})),
		wasmtest.Section(5, wasmtest.Vector([]byte{0, 1})),
		wasmtest.Section(6, wasmtest.Vector([]byte{wasm.TypeI32, 1, wasm.OpI32Const, 0, wasm.OpEnd})),
		wasmtest.Section(7, wasmtest.Vector(append(wasmtest.Name("outer"), 0, 0), append(wasmtest.Name("inner"), 0, 1), append(wasmtest.Name("memory"), 2, 0), append(wasmtest.Name("sp"), 3, 0))),
		wasmtest.Section(wasm.SectionCode, wasmtest.Vector(sized(outer), sized(inner))),
	}, nil)
}

// spAdd moves the stack pointer, spBack takes back what a call left.
func spAdd(by, op byte) []byte {
	return []byte{wasm.OpLocalGet, 1, wasm.OpI32Const, by, op, wasm.OpLocalTee, 1, wasm.OpGlobalSet, 0}
}

var spBack = []byte{wasm.OpGlobalGet, 0, wasm.OpLocalSet, 1}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// inner has neither frame nor resume points.
var inner = join([]byte{1, 1, wasm.TypeI32}, spBack, []byte{wasm.OpBlock, wasm.NoResult},
	[]byte{wasm.OpI32Const, 0x80, 8, wasm.OpI32Const, 0x80, 8, 0x29, 3, 0, wasm.OpI64Const, 1, wasm.OpI64Add, 0x37, 3, 0}, // memory[1024]++
	[]byte{wasm.OpI32Const, 0x80, 8, 0x29, 3, 8, 0x50, 0x45, wasm.OpBrIf, 0},
	[]byte{wasm.OpLocalGet, 1, wasm.OpI64Const, 0xcd, 0, 0x37, 3, 8}, // an argument of its caller's = 77
	spAdd(8, wasm.OpI32Add), []byte{wasm.OpI32Const, 0, wasm.OpReturn, wasm.OpEnd, wasm.OpI32Const, 1, wasm.OpEnd})

// outer(n): a frame of 24 bytes, in which inner is called once and n counted down in a loop;
// the result is what inner wrote plus a byte written through an address.
var outer = join([]byte{1, 1, wasm.TypeI32}, spBack,
	[]byte{wasm.OpBlock, wasm.NoResult, wasm.OpLoop, wasm.NoResult, wasm.OpBlock, wasm.NoResult, wasm.OpBlock, wasm.NoResult, wasm.OpBlock, wasm.NoResult},
	[]byte{wasm.OpLocalGet, 0, wasm.OpBrTable, 3, 0, 0, 1, 2, wasm.OpEnd}, // 0 and 1 begin, 2 is behind the call, 3 behind the loop
	frameOf24,
	[]byte{wasm.OpLocalGet, 1, wasm.OpLocalGet, 1, 0x29, 3, 32, 0x37, 3, 16},                                                                             // [16] = n
	[]byte{wasm.OpLocalGet, 1, wasm.OpExtend, wasm.OpI64Const, 9, wasm.OpI64Add, wasm.OpWrap, wasm.OpI64Const, 5, 0x3c, 0, 0},                            // byte [9] = 5
	[]byte{wasm.OpLocalGet, 1, wasm.OpExtend, wasm.OpI64Const, 16, wasm.OpI64Add, wasm.OpWrap, wasm.OpLocalGet, 1, wasm.OpDrop, 0x29, 3, 0, wasm.OpDrop}, // its address and itself, got in turn
	spAdd(8, wasm.OpI32Sub), []byte{wasm.OpLocalGet, 1, wasm.OpI64Const, 42, 0x37, 3, 0},
	[]byte{wasm.OpI32Const, 0, wasm.OpCall, 1}, spBack, []byte{wasm.OpBrIf, 3, wasm.OpEnd}, // 2
	[]byte{wasm.OpLocalGet, 1, wasm.OpLocalGet, 1, 0x29, 3, 16, wasm.OpI64Const, 0x7f, wasm.OpI64Add, 0x37, 3, 16}, // [16]--
	[]byte{wasm.OpBlock, wasm.NoResult, wasm.OpLocalGet, 1, 0x29, 3, 16, 0x50, wasm.OpBrIf, 0, wasm.OpI32Const, 2, wasm.OpLocalSet, 0, wasm.OpBr, 2, wasm.OpEnd},
	[]byte{wasm.OpI32Const, 3, wasm.OpLocalSet, 0, wasm.OpBr, 1, wasm.OpEnd}, // 3
	[]byte{wasm.OpLocalGet, 1, wasm.OpLocalGet, 1, 0x29, 3, 0, wasm.OpLocalGet, 1, 0x31, 0, 9, wasm.OpI64Add, 0x37, 3, 40},
	spAdd(24, wasm.OpI32Add), spAdd(8, wasm.OpI32Add), []byte{wasm.OpI32Const, 0, wasm.OpReturn},
	[]byte{wasm.OpEnd, wasm.OpUnreachable, wasm.OpEnd, wasm.OpI32Const, 1, wasm.OpEnd})

var frameOf24 = spAdd(24, wasm.OpI32Sub)

// running is a module, instantiated.
type running struct{ api.Module }

func start(t *testing.T, wasm []byte) running {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	t.Cleanup(func() {
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	m, err := r.Instantiate(ctx, wasm)
	if err != nil {
		t.Fatal(err)
	}
	return running{m}
}

// state is what a call left.
func (r running) call(t *testing.T, function string, resume uint64) string {
	t.Helper()
	results, err := r.ExportedFunction(function).Call(context.Background(), resume)
	if err != nil {
		return err.Error()
	}
	memory, _ := r.Memory().Read(0, r.Memory().Size())
	return fmt.Sprintf("%d, sp %d, %x", results[0], r.ExportedGlobal("sp").Get(), bytes.TrimRight(memory, "\x00"))
}

func (r running) set(t *testing.T, sp uint64, unwind uint64) {
	t.Helper()
	r.ExportedGlobal("sp").(api.MutableGlobal).Set(sp)
	if !r.Memory().WriteUint64Le(1032, unwind) || !r.Memory().WriteUint64Le(uint32(sp)+8, 3) {
		t.Fatal("memory")
	}
}

// TestRebase: a rebased function does what it did before: called, unwound, resumed at either
// point, and with its frame below the memory.
func TestRebase(t *testing.T) {
	wasm := goModule(outer)
	better, n, err := Rebase(wasm)
	if err != nil || n != 2 {
		t.Fatalf("%d functions, %v", n, err)
	}
	was, is := start(t, wasm), start(t, better)
	for _, step := range []struct {
		name       string
		sp, unwind uint64
		resume     uint64
		want       string // how it begins
	}{
		{"called", 512, 0, 0, "0, sp 520, "},
		{"entered by the other number of the beginning", 512, 0, 1, "0, sp 520, "},
		{"unwound", 512, 1, 0, "1, sp 480, "},
		{"resumed behind the call", 488, 0, 2, "0, sp 520, "},
		{"resumed behind the loop", 488, 0, 3, "0, sp 520, "},
		{"no room for the frame", 16, 0, 0, "wasm error: out of bounds memory access"},
	} {
		was.set(t, step.sp, step.unwind)
		is.set(t, step.sp, step.unwind)
		before, after := was.call(t, "outer", step.resume), is.call(t, "outer", step.resume)
		if !bytes.HasPrefix([]byte(before), []byte(step.want)) || after != before && step.sp > 16 || !bytes.HasPrefix([]byte(after), []byte(step.want)) {
			t.Errorf("%s:\nbefore %s\nafter  %s", step.name, before, after)
		}
	}
	was.set(t, 512, 0)
	is.set(t, 512, 0)
	if before, after := was.call(t, "outer", 0), is.call(t, "outer", 0); before != after {
		t.Errorf("result\nbefore %s\nafter  %s", before, after)
	}
	if v, _ := is.Memory().ReadUint64Le(512 + 16); v != 77+5 {
		t.Errorf("outer gives %d", v)
	}
}

// TestOneLook: the bounds are looked at once, where every way into the function comes by, and
// the jump forward goes there at once.
func TestOneLook(t *testing.T) {
	m := module{types: []signature{{1, 1, true}}, typeOf: []int{0, 0}}
	code, err := m.function(outer)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(code, []byte{wasm.OpLoad8U, 0, 55, wasm.OpDrop}); n != 1 { // 8 + 24 + 8 + 16 bytes
		t.Errorf("%d looks", n)
	}
	if n := bytes.Count(code, []byte{wasm.OpLocalSet, localResume}); n != 1 {
		t.Errorf("%d jumps by the loop, one is backwards", n)
	}
}

// TestLeftAlone: what is not Go's shape passes through.
func TestLeftAlone(t *testing.T) {
	replace := func(old, new []byte) []byte {
		if !bytes.Contains(outer, old) {
			t.Fatalf("outer has no %x", old)
		}
		return bytes.Replace(outer, old, new, 1)
	}
	for what, code := range map[string][]byte{
		"a stack pointer from elsewhere":    replace(frameOf24, []byte{wasm.OpI32Const, 8, wasm.OpLocalTee, 1, wasm.OpGlobalSet, 0}),
		"a return with a frame left":        replace(spAdd(24, wasm.OpI32Add), nil),
		"a call that leaves local 1":        replace(join([]byte{wasm.OpCall, 1}, spBack), []byte{wasm.OpCall, 1}),
		"a block with a result":             replace([]byte{wasm.OpBlock, wasm.NoResult, wasm.OpLocalGet, 1}, []byte{wasm.OpBlock, 0x7f, wasm.OpLocalGet, 1}),
		"local 1 that is something else":    replace([]byte{1, 1, wasm.TypeI32}, []byte{1, 1, 0x7e}),
		"a jump out of the function":        replace([]byte{wasm.OpBrIf, 3}, []byte{wasm.OpBrIf, 4}),
		"an instruction that is not known":  replace([]byte{wasm.OpExtend}, []byte{0xfd}),
		"an access before the frame begins": replace(frameOf24, join(spAdd(24, wasm.OpI32Sub), spAdd(24, wasm.OpI32Sub), []byte{wasm.OpLocalGet, 1, 0x29, 3, 0, wasm.OpDrop}, spAdd(24, wasm.OpI32Add))),
	} {
		wasm := goModule(code)
		out, n, err := Rebase(wasm)
		if err != nil || n != 1 || !bytes.Contains(out, code) {
			t.Errorf("%s: %d functions, %v", what, n, err)
		}
	}
	for what, wasm := range map[string][]byte{
		"text":           []byte("no module at all"),
		"a cut one":      goModule(outer)[:60],
		"a memory taken": append([]byte(wasm.Header), wasmtest.Section(wasm.SectionImport, wasmtest.Vector(append(append(wasmtest.Name("m"), wasmtest.Name("m")...), 2, 0, 1)))...),
	} {
		if out, _, err := Rebase(wasm); err == nil {
			t.Errorf("%s: %x", what, out)
		}
	}
}

// FuzzRebase: nothing panics, and what was a valid module stays one.
func FuzzRebase(f *testing.F) {
	f.Add(goModule(outer))
	f.Add(goModule(inner))
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	f.Fuzz(func(t *testing.T, wasm []byte) {
		out, _, err := Rebase(wasm)
		if err != nil {
			return
		}
		if valid(ctx, r, wasm) == nil {
			if err := valid(ctx, r, out); err != nil {
				t.Fatalf("%x became invalid: %v", wasm, err)
			}
		}
	})
}

// valid compiles a module. wazero's own check panics on some that are not valid.
func valid(ctx context.Context, r wazero.Runtime, wasm []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	m, err := r.CompileModule(ctx, wasm)
	if err != nil {
		return err
	}
	return m.Close(ctx)
}
