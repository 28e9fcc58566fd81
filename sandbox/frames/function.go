package frames

import "encoding/binary"

// Instructions that mean something here (core specification, 5.4).
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opLoadFirst    = 0x28
	opLoad8U       = 0x2d // i32.load8_u
	opLoadLast     = 0x35
	opStoreFirst   = 0x36
	opStoreLast    = 0x3e
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI32LtU       = 0x49
	opI64Add       = 0x7c
	opWrap         = 0xa7 // i32.wrap_i64
	opExtend       = 0xad // i64.extend_i32_u
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opPrefix       = 0xfc
	noResult       = 0x40 // type of a block
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
	r := &reader{b: body}
	groups := r.uint()
	locals := uint64(1)
	for range groups {
		count, typ := r.uint(), r.byte()
		if locals == 1 && typ != typeI32 {
			r.fail("local 1")
		}
		if locals += uint64(count); locals > 1<<16 || r.err != nil {
			r.fail("locals")
			return nil, r.err
		}
	}
	declared := r.at
	if !r.accept(opGlobalGet, 0, opLocalSet, localSP) {
		r.fail("beginning")
		return nil, r.err
	}
	s := &scan{module: m, r: *r, size: unknownSize}
	err := s.run()
	if err != nil && s.size > 0 { // what looked like a frame was a call's return address
		s = &scan{module: m, r: *r}
		err = s.run()
	}
	if err != nil {
		return nil, err
	}
	f := rebasing{body: body, from: declared, scan: s, local: locals}
	out := binary.AppendUvarint(nil, uint64(groups)+1)
	out = append(out, body[uvarintLen(body):declared]...)
	return f.write(append(out, 1, typeI32))
}

func uvarintLen(b []byte) int {
	_, n := binary.Uvarint(b)
	return n
}
