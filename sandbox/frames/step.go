package frames

import (
	"slices"

	"github.com/seed-7c27e6b8/whale/sandbox/wasm"
)

// step reads one instruction.
func (s *scan) step() {
	switch op := s.r.Byte(); {
	case op <= wasm.OpReturn:
		s.control(op)
	case op == wasm.OpCall:
		callee := int(s.r.Uint())
		sig, ok := s.module.of(callee)
		if !ok {
			s.r.Fail("callee")
			return
		}
		s.call(sig, sig.goes && callee >= s.module.imported)
	case op == wasm.OpCallIndirect:
		typ := int(s.r.Uint())
		s.r.Byte() // table
		if typ >= len(s.module.types) {
			s.r.Fail("callee")
			return
		}
		s.take(1)
		s.call(s.module.types[typ], s.module.types[typ].goes)
	case op == wasm.OpDrop:
		s.take(1)
	case op == wasm.OpSelect:
		s.take(3)
		s.push(1)
	case op >= wasm.OpLocalGet && op <= wasm.OpGlobalSet:
		s.variable(op)
	case op >= wasm.OpLoadFirst && op <= wasm.OpLoadLast:
		s.access(op, s.pop())
		s.push(1)
	case op >= wasm.OpStoreFirst && op <= wasm.OpStoreLast:
		s.take(1)
		s.access(op, s.pop())
	default:
		s.compute(op)
	}
}

func (s *scan) control(op byte) {
	switch op {
	case wasm.OpNop:
	case wasm.OpUnreachable:
		s.leave()
	case wasm.OpReturn:
		if !s.dead && (!s.sure || s.moved != returnSize) {
			s.r.Fail("return with a moved stack")
		}
		s.take(1)
		s.leave()
	case wasm.OpBlock, wasm.OpLoop, wasm.OpIf:
		if op == wasm.OpIf {
			s.take(1)
		}
		if s.r.Byte() != wasm.NoResult {
			s.r.Fail("block with a result")
		}
		s.labels = append(s.labels, label{kind: op, height: len(s.stack), moved: s.moved, sure: s.sure,
			reached: op == wasm.OpIf && !s.dead, dead: s.dead})
	case wasm.OpElse:
		l := &s.labels[len(s.labels)-1]
		moved, sure := l.moved, l.sure
		l.kind = wasm.OpElse
		s.branch(0)
		s.stack = s.stack[:min(l.height, len(s.stack))]
		s.moved, s.sure, s.dead = moved, sure, l.dead
	case wasm.OpEnd:
		s.end()
	case wasm.OpBr:
		s.branch(s.r.Uint())
		s.leave()
	case wasm.OpBrIf:
		s.take(1)
		s.branch(s.r.Uint())
	default:
		s.unknown(op)
	}
}

func (s *scan) call(sig signature, goes bool) {
	s.take(sig.params)
	s.push(sig.results)
	s.called(goes)
}

func (s *scan) variable(op byte) {
	index := s.r.Uint()
	switch op {
	case wasm.OpLocalGet:
		s.get(index)
		return
	case wasm.OpGlobalGet:
		s.push(1)
	case wasm.OpLocalTee:
		s.take(1)
		s.push(1)
	default:
		s.take(1)
	}
	stackPointer := uint32(localSP)
	if op == wasm.OpGlobalGet || op == wasm.OpGlobalSet {
		stackPointer = 0
	}
	if index == stackPointer {
		s.r.Fail("stack pointer used in another way")
	}
}

// compute reads what neither branches nor touches variables.
func (s *scan) compute(op byte) {
	switch {
	case op == wasm.OpMemorySize:
		s.r.Byte()
		s.push(1)
	case op == wasm.OpMemoryGrow:
		s.r.Byte()
		s.take(1)
		s.push(1)
	case op == wasm.OpI32Const:
		if !s.jump() {
			s.r.Int()
			s.push(1)
		}
	case op == wasm.OpI64Const:
		s.stack = append(s.stack, operand{constant: true, value: s.r.Int()})
	case op == wasm.OpExtend || op == wasm.OpWrap:
		s.convert(op == wasm.OpExtend)
	case op == wasm.OpI64Add:
		s.add()
	case op == wasm.OpF32Const || op == wasm.OpF64Const:
		for range 4 * (1 + op - wasm.OpF32Const) {
			s.r.Byte()
		}
		s.push(1)
	case unary(op):
		s.take(1)
		s.push(1)
	case op > wasm.OpF64Const && op <= 0xa6:
		s.take(2)
		s.push(1)
	case op == wasm.OpPrefix:
		s.prefixed()
	default:
		s.unknown(op)
	}
}

// jump reads a jump to another part of the function: where to is put into local 0, and then
// the head's loop begins again. It can go there at once if that is further on.
func (s *scan) jump() bool {
	r, at := s.r, s.r.At()-1
	to := r.Int()
	if !r.Accept(wasm.OpLocalSet, localResume, wasm.OpBr) || s.dead {
		return false
	}
	loop := len(s.labels) - 1 - int(r.Uint())
	if loop < 0 || !s.labels[loop].hub || s.labels[loop].kind != wasm.OpLoop || r.Err() != nil {
		return false
	}
	point, _ := slices.BinarySearch(s.points, to+1)
	open := loop + len(s.points) - point + 1 // as many labels as there are points are in the loop
	if point < 2 || open >= len(s.labels) || s.labels[open].point != point-1 {
		return false
	}
	s.r = r
	s.edits = append(s.edits, edit{from: at, to: r.At(), what: jump, moved: int64(len(s.labels) - 1 - open)})
	s.branch(uint32(len(s.labels) - 1 - open))
	s.leave()
	return true
}

// convert makes 64 bits of 32 or the other way round. An address stays one.
func (s *scan) convert(wide bool) {
	o := s.pop()
	if o.at != 0 && o.wide != wide {
		o.wide, o.end = wide, s.r.At()
		s.stack = append(s.stack, o)
		return
	}
	s.value(o)
	s.push(1)
}

// add adds two numbers of 64 bits; a constant more than an address is an address.
func (s *scan) add() {
	by, o := s.pop(), s.pop()
	if o.at != 0 && o.wide && by.constant && by.value >= 0 && by.value < 1<<30 && o.added < 1<<30 {
		o.added, o.end = o.added+by.value, s.r.At()
		s.stack = append(s.stack, o)
		return
	}
	s.value(by)
	s.value(o)
	s.push(1)
}

// unary says that an operator has one operand: tests for zero, counts of bits, functions of
// floats, conversions.
func unary(op byte) bool {
	switch {
	case op == 0x45, op == 0x50, op >= 0x67 && op <= 0x69, op >= 0x79 && op <= 0x7b, op >= 0x8b && op <= 0x91, op >= 0x99 && op <= 0x9f,
		op >= 0xa7 && op <= 0xc4:
		return true
	}
	return false
}

func (s *scan) prefixed() {
	switch op := s.r.Uint(); {
	case op <= wasm.OpSaturateLast:
		s.take(1)
		s.push(1)
	case op == wasm.OpMemoryCopy:
		s.r.Byte()
		s.r.Byte()
		s.take(3)
	case op == wasm.OpMemoryFill:
		s.r.Byte()
		s.take(3)
	default:
		s.unknown(wasm.OpPrefix)
	}
}
