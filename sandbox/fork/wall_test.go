package fork

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/seed-7c27e6b8/whale/sandbox/abi"
	"github.com/seed-7c27e6b8/whale/sandbox/wasm"
	"github.com/seed-7c27e6b8/whale/sandbox/wasm/wasmtest"
)

// reached are the functions that a guest can call, and how the hostile guest passes its
// four arguments on. Its types are those of smallGuest, and 7 (i32,i32,i32,i32)->i32.
var reached = []struct {
	module, name string
	typ          byte
	pass         []byte // instructions before the call; after it there is an i32
	silent       bool   // gives no result
}{
	{"whale", "call", 2, []byte{0x20, 0, 0x20, 1, 0x20, 2, 0x20, 3}, false},
	{"whale", "take", 3, []byte{0x20, 0, 0x20, 1}, true},
	{"wasi_snapshot_preview1", "random_get", 4, []byte{0x20, 0, 0x20, 1}, false},
	{"wasi_snapshot_preview1", "clock_time_get", 5, []byte{0x20, 0, 0x20, 1, 0xad, 0x20, 2}, false},
	{"wasi_snapshot_preview1", "proc_exit", 6, []byte{0x20, 0}, true},
	{"wasi_snapshot_preview1", "fd_write", 2, []byte{0x20, 0, 0x20, 1, 0x20, 2, 0x20, 3}, false},
	{"wasi_snapshot_preview1", "poll_oneoff", 2, []byte{0x20, 0, 0x20, 1, 0x20, 2, 0x20, 3}, false},
	{"wasi_snapshot_preview1", "args_sizes_get", 4, []byte{0x20, 0, 0x20, 1}, false},
	{"wasi_snapshot_preview1", "environ_get", 4, []byte{0x20, 0, 0x20, 1}, false},
	{"wasi_snapshot_preview1", "fd_read", 2, []byte{0x20, 0, 0x20, 1, 0x20, 2, 0x20, 3}, false},
	{"wasi_snapshot_preview1", "path_open", 2, []byte{0x20, 0, 0x20, 1, 0x20, 2, 0x20, 3}, false},
}

// hostileGuest exports "f0", "f1" and so on: each calls one of the functions with the
// arguments that it is given.
func hostileGuest() []byte {
	types := wasmtest.Section(1, wasmtest.Vector(
		[]byte{0x60, 0, 1, 0x7e}, []byte{0x60, 0, 0}, []byte{0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f},
		[]byte{0x60, 2, 0x7f, 0x7f, 0}, []byte{0x60, 2, 0x7f, 0x7f, 1, 0x7f},
		[]byte{0x60, 3, 0x7f, 0x7e, 0x7f, 1, 0x7f}, []byte{0x60, 1, 0x7f, 0}))
	var imports, functions, exports, bodies [][]byte
	functions, bodies = append(functions, []byte{1}), append(bodies, wasmtest.Code())
	exports = append(exports, wasmtest.Export("_initialize", 0, byte(len(reached))), wasmtest.Export("memory", 2, 0))
	for n, r := range reached {
		imports = append(imports, importFunc(r.module, r.name, r.typ))
		functions = append(functions, []byte{2})
		exports = append(exports, wasmtest.Export("f"+string(rune('0'+n)), 0, byte(len(reached)+1+n)))
		body := append(append([]byte{}, r.pass...), 0x10, byte(n))
		if r.silent {
			body = append(body, 0x41, 0)
		}
		bodies = append(bodies, wasmtest.Code(body...))
	}
	return bytes.Join([][]byte{[]byte(wasm.Header), types, wasmtest.Section(2, wasmtest.Vector(imports...)), wasmtest.Section(3, wasmtest.Vector(functions...)),
		wasmtest.Section(5, wasmtest.Vector([]byte{0, 2})), wasmtest.Section(6, wasmtest.Vector([]byte{0x7f, 1, 0x41, 0, 0x0b})), wasmtest.Section(7, wasmtest.Vector(exports...)), wasmtest.Section(10, wasmtest.Vector(bodies...))}, nil)
}

// parrot is a Host that reads a request as the sandbox does and answers what it was told.
type parrot struct{ answer []byte }

func (p parrot) Answer(request []byte) ([]byte, error) {
	if _, err := abi.DecodeRequest(request); err != nil {
		return nil, err
	}
	return p.answer, nil
}

// FuzzWall: a guest that sends any message and any pointer to any function of the host ends
// with a result or an error; the guest beside it keeps its memory, and after a reset nothing
// is left.
func FuzzWall(f *testing.F) {
	for n := range reached {
		f.Add(uint8(n), uint32(0), uint32(16), uint32(64), uint32(32), abi.AppendRequest(nil, abi.Request{Kind: abi.Tool, Name: "t"}), []byte("answer"))
		f.Add(uint8(n), uint32(1<<31), uint32(1<<31), uint32(1<<32-1), uint32(1<<32-1), []byte{0xff}, bytes.Repeat([]byte("x"), 200))
		f.Add(uint8(n), uint32(2<<16-4), uint32(8), uint32(2<<16-2), uint32(1<<20), []byte{}, []byte{})
	}
	m, err := Open(context.Background(), hostileGuest(), Config{MaxMemory: 3 << 16})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, n uint8, a, b, c, d uint32, message, answer []byte) {
		i, beside := fork(t, m, m.Base()), fork(t, m, m.Base())
		i.Host = parrot{answer}
		room, ok := i.Bytes(0, uint32(min(len(message), 2<<16)))
		if !ok {
			t.Fatal("no memory")
		}
		copy(room, message)
		if len(message) >= 16 { // so that lists point somewhere
			binary.LittleEndian.PutUint32(room[4:], uint32(len(message)))
		}
		for range 2 {
			_, err := i.Call("f"+string(rune('0'+int(n)%len(reached))), uint64(a), uint64(b), uint64(c), uint64(d))
			if err != nil && !errors.Is(err, ErrDied) && !errors.Is(err, ErrMemory) && !errors.Is(err, abi.ErrMalformed) {
				t.Fatal(err)
			}
			if err != nil {
				break
			}
		}
		other, ok := beside.Bytes(0, 2<<16)
		if !ok || len(bytes.Trim(other, "\x00")) != 0 {
			t.Fatal("the guest beside it changed")
		}
		if _, ok, err := i.Reset(); !ok || err != nil {
			t.Fatal("no reset", err)
		}
		if left, _ := i.Bytes(0, 2<<16); len(bytes.Trim(left, "\x00")) != 0 || i.world != m.Base().world || i.answer != nil || len(i.words) != 0 {
			t.Fatal("something is left")
		}
	})
}
