package wasm

import "fmt"

// Instructions that mean something to a rewriter.
const (
	OpUnreachable  = 0x00
	OpNop          = 0x01
	OpBlock        = 0x02
	OpLoop         = 0x03
	OpIf           = 0x04
	OpElse         = 0x05
	OpEnd          = 0x0b
	OpBr           = 0x0c
	OpBrIf         = 0x0d
	OpBrTable      = 0x0e
	OpReturn       = 0x0f
	OpCall         = 0x10
	OpCallIndirect = 0x11
	OpDrop         = 0x1a
	OpSelect       = 0x1b
	OpLocalGet     = 0x20
	OpLocalSet     = 0x21
	OpLocalTee     = 0x22
	OpGlobalGet    = 0x23
	OpGlobalSet    = 0x24
	OpLoadFirst    = 0x28
	OpLoad8U       = 0x2d // i32.load8_u
	OpLoadLast     = 0x35
	OpStoreFirst   = 0x36
	OpStoreLast    = 0x3e
	OpMemorySize   = 0x3f
	OpMemoryGrow   = 0x40
	OpI32Const     = 0x41
	OpI64Const     = 0x42
	OpF32Const     = 0x43
	OpF64Const     = 0x44
	OpI32LtU       = 0x49
	OpI32Add       = 0x6a
	OpI32Sub       = 0x6b
	OpI64Add       = 0x7c
	OpWrap         = 0xa7 // i32.wrap_i64
	OpExtend       = 0xad // i64.extend_i32_u
	OpLast         = 0xc4 // of those without immediates
	OpPrefix       = 0xfc // conversions that saturate, bulk memory
)

// Behind OpPrefix.
const (
	OpSaturateLast = 7
	OpMemoryCopy   = 10
	OpMemoryFill   = 11
)

// Immediates steps over what follows an opcode. Instructions that reach a table are a fault
// but for calls, and so are those that no Go program has.
func (r *Reader) Immediates(op byte) {
	switch {
	case op == OpBlock || op == OpLoop || op == OpIf: // the type
		r.Int()
	case op == OpBr || op == OpBrIf || op == OpCall || op >= OpLocalGet && op <= OpGlobalSet:
		r.Uint()
	case op == OpBrTable:
		for left := uint64(r.Uint()) + 1; left > 0 && r.err == nil; left-- {
			r.Uint()
		}
	case op == OpCallIndirect: // type and table
		r.Uint()
		r.Uint()
	case op == 0x1c: // select, with types
		r.Bytes()
	case op >= OpLoadFirst && op <= OpStoreLast: // alignment and offset
		r.Uint()
		r.Uint()
	case op == OpMemorySize || op == OpMemoryGrow:
		r.Byte()
	case op == OpI32Const || op == OpI64Const:
		r.Int()
	case op == OpF32Const || op == OpF64Const:
		r.Skip(4 * (1 + int(op) - OpF32Const))
	case op == OpPrefix:
		switch op := r.Uint(); {
		case op <= OpSaturateLast:
		case op == OpMemoryCopy:
			r.Skip(2)
		case op == OpMemoryFill:
			r.Skip(1)
		default:
			r.Fail(fmt.Sprintf("opcode %#x %d", OpPrefix, op))
		}
	case op > OpLast || op > OpElse && op < OpEnd || op > OpCallIndirect && op < OpDrop || op > 0x1c && op < OpLoadFirst:
		r.Fail(fmt.Sprintf("opcode %#x", op))
	}
}
