package frames

import (
	"encoding/binary"

	"github.com/seed-7c27e6b8/whale/sandbox/wasm"
)

const (
	localResume = 0 // Go's PC_B: where to go on, 0 = at the beginning
	localSP     = 1
	returnSize  = 8 // of a return address; base is that much below the frame
)

// edit replaces a part of a function.
type edit struct {
	from, to int
	what     what
	moved    int64  // of the stack pointer that it is about; depth of a jump
	opcode   byte   // of an access
	align    uint32 // of an access
	offset   uint64 // of an access
}

type what int

const (
	nothing   what = iota // comes in its place
	base                  // the address of an access
	pointer               // a stack pointer
	adjust                // a stack pointer, for the functions called
	access                // alignment and offset of an access
	again                 // base, put where it is: wazero takes it for another value otherwise
	jump                  // to an open block
	otherwise             // an empty else: where an if has none, wazero forgets which bounds are known
)

// function rebases one function; body begins with its locals. An error means that it must
// stay as it is.
func (m *module) function(body []byte) ([]byte, error) {
	r := wasm.NewReader(body)
	groups := r.Uint()
	locals := uint64(1)
	for range groups {
		count, typ := r.Uint(), r.Byte()
		if locals == 1 && typ != wasm.TypeI32 {
			r.Fail("local 1")
		}
		if locals += uint64(count); locals > 1<<16 || r.Err() != nil {
			r.Fail("locals")
			return nil, r.Err()
		}
	}
	declared := r.At()
	if !r.Accept(wasm.OpGlobalGet, 0, wasm.OpLocalSet, localSP) {
		r.Fail("beginning")
		return nil, r.Err()
	}
	s := &scan{module: m, r: r, size: unknownSize}
	err := s.run()
	if err != nil && s.size > 0 { // what looked like a frame was a call's return address
		s = &scan{module: m, r: r}
		err = s.run()
	}
	if err != nil {
		return nil, err
	}
	f := rebasing{body: body, from: declared, scan: s, local: locals}
	out := wasm.AppendUint(nil, uint64(groups)+1)
	out = append(out, body[uvarintLen(body):declared]...)
	return f.write(append(out, 1, wasm.TypeI32))
}

func uvarintLen(b []byte) int {
	_, n := binary.Uvarint(b)
	return n
}
