package dispatch

import (
	"bytes"
	"context"
	"testing"

	"github.com/seed-7c27e6b8/whale/sandbox/wasm"
	"github.com/seed-7c27e6b8/whale/sandbox/wasm/wasmtest"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"
)

// indirect is a module with a table of six places, the first two and the last but one empty:
// double, increment and answer, which has another type. "one" calls what an index stands for
// with an argument, "two" without, between instructions with all kinds of immediates.
// extra are more sections by id; more are more exports.
func indirect(extra map[byte][]byte, more ...[]byte) []byte {
	const i32, i64 = 0x7f, 0x7e
	types := wasmtest.Section(1, wasmtest.Vector([]byte{0x60, 1, i32, 1, i32}, []byte{0x60, 0, 1, i32}, []byte{0x60, 2, i32, i32, 1, i32},
		[]byte{0x60, 1, i32, 1, i32})) // the first once more
	functions := wasmtest.Section(3, wasmtest.Vector([]byte{0}, []byte{3}, []byte{1}, []byte{2}, []byte{0}))
	elements := wasmtest.Section(9, wasmtest.Vector(append([]byte{0, 0x41, 2, 0x0b}, wasmtest.Vector([]byte{0}, []byte{1}, []byte{2})...),
		append([]byte{0, 0x41, 6, 0x0b}, wasmtest.Vector([]byte{1})...)))
	bodies := wasmtest.Section(10, wasmtest.Vector(
		wasmtest.Code(0x20, 0, 0x41, 1, 0x74), wasmtest.Code(0x20, 0, 0x41, 1, 0x6a), wasmtest.Code(0x41, 42),
		wasmtest.Code( // of (index, x): through a block, a loop, an if, a branch table, numbers that hold the opcode, and memory
			0x41, 0x91, 0x11, 0x1a, 0x42, 0x11, 0x1a, 0x43, 0x11, 0x11, 0x11, 0x11, 0x1a, 0x44, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x1a,
			0x41, 0x11, 0x41, 0x11, 0x41, 0x00, 0xfc, 11, 0, 0x41, 0x11, 0x41, 0x11, 0x41, 0x00, 0xfc, 10, 0, 0,
			0x02, 0x40, 0x03, 0x40, 0x41, 0, 0x0e, 1, 1, 1, 0x0b, 0x0b, 0x3f, 0, 0x04, 0x40, 0x0b,
			0x41, 0, 0x28, 2, 0x11, 0x1a, 0x41, 0, 0x41, 1, 0x41, 1, 0x1c, 1, i32, 0x1a,
			0x20, 1, 0x20, 0, 0x11, 0, 0),
		wasmtest.Code(0x20, 0, 0x11, 1, 0)))
	exports := wasmtest.Section(7, wasmtest.Vector(append([][]byte{wasmtest.Export("one", 0, 3), wasmtest.Export("two", 0, 4)}, more...)...))
	module := [][]byte{[]byte(wasm.Header), types}
	for _, s := range []struct {
		id   byte
		body []byte
	}{{3, functions}, {4, wasmtest.Section(4, wasmtest.Vector([]byte{0x70, 0, 8}))}, {5, wasmtest.Section(5, wasmtest.Vector([]byte{0, 1}))},
		{7, exports}, {9, elements}, {10, bodies}} {
		if other, ok := extra[s.id]; ok {
			s.body = other
		}
		module = append(module, s.body)
	}
	return bytes.Join(module, nil)
}

// results are what the functions of a module give for indices around those of its table: -1
// where a call ends in a fault.
func results(t *testing.T, module []byte) (all []int64) {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	m, err := r.Instantiate(ctx, module)
	if err != nil {
		t.Fatal(err)
	}
	for index := range uint64(12) {
		for _, args := range [][]uint64{{index, 20}, {index}} {
			name := []string{"two", "one"}[len(args)-1]
			got, err := m.ExportedFunction(name).Call(ctx, args...)
			switch _, exit := err.(*sys.ExitError); {
			case exit:
				t.Fatal(err)
			case err != nil:
				all = append(all, -1)
			default:
				all = append(all, int64(got[0]))
			}
		}
	}
	return all
}

// Indirect calls give what they gave with the table, and fail where they failed.
func TestWithoutTable(t *testing.T) {
	module := indirect(nil)
	out, done := WithoutTable(module)
	if !done {
		t.Fatal("the table was kept")
	}
	without, err := wasm.Split(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range without {
		if s.ID == wasm.SectionTable || s.ID == wasm.SectionElement {
			t.Errorf("section %d is still there", s.ID)
		}
	}
	want, got := results(t, module), results(t, out)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("index %d, call %d: %d, with the table %d", i/2, i%2, got[i], want[i])
		}
	}
	if want[2*2] != 40 || want[2*3] != 21 || want[2*4+1] != 42 || want[2*4] != -1 || want[2*6] != 21 || want[2*7] != -1 {
		t.Errorf("with the table: %v", want)
	}
}

// A table that can be reached otherwise stays.
func TestWithoutTable_kept(t *testing.T) {
	for name, module := range map[string][]byte{
		"exported":          indirect(nil, wasmtest.Export("table", 1, 0)),
		"two tables":        indirect(map[byte][]byte{4: wasmtest.Section(4, wasmtest.Vector([]byte{0x70, 0, 8}, []byte{0x70, 0, 1}))}),
		"passive elements":  indirect(map[byte][]byte{9: wasmtest.Section(9, wasmtest.Vector(append([]byte{1, 0}, wasmtest.Vector([]byte{0})...)))}),
		"no elements":       indirect(map[byte][]byte{9: nil}),
		"far element":       indirect(map[byte][]byte{9: wasmtest.Section(9, wasmtest.Vector(append([]byte{0, 0x41, 0xff, 0xff, 0x3f, 0x0b}, wasmtest.Vector([]byte{0})...)))}),
		"table.set":         indirect(map[byte][]byte{10: wasmtest.Section(10, wasmtest.Vector(wasmtest.Code(), wasmtest.Code(), wasmtest.Code(), wasmtest.Code(), wasmtest.Code(0x26, 0)))}),
		"type out of range": indirect(map[byte][]byte{10: wasmtest.Section(10, wasmtest.Vector(wasmtest.Code(), wasmtest.Code(), wasmtest.Code(), wasmtest.Code(), wasmtest.Code(0x11, 9, 0)))}),
		"cut short":         indirect(map[byte][]byte{10: wasmtest.Section(10, wasmtest.Vector(wasmtest.Code(), wasmtest.Code(), wasmtest.Code(), wasmtest.Code(), []byte{3, 0, 0x41, 0x80}))}),
		"too few bodies":    indirect(map[byte][]byte{10: wasmtest.Section(10, wasmtest.Vector(wasmtest.Code()))}),
	} {
		if out, done := WithoutTable(module); done || !bytes.Equal(out, module) {
			t.Errorf("%s: done without", name)
		}
	}
}

// Whatever the module: what comes out can be read, and there is nothing left to do.
func FuzzWithoutTable(f *testing.F) {
	f.Add(indirect(nil))
	f.Add([]byte(wasm.Header))
	f.Fuzz(func(t *testing.T, module []byte) {
		out, done := WithoutTable(module)
		if !done {
			return
		}
		if _, err := wasm.Split(out); err != nil {
			t.Fatal(err)
		}
		if _, again := WithoutTable(out); again {
			t.Fatal("done twice")
		}
	})
}
