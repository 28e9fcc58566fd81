package frames

import "slices"

// step reads one instruction.
func (s *scan) step() {
	switch op := s.r.byte(); {
	case op <= opReturn:
		s.control(op)
	case op == opCall:
		callee := int(s.r.uint())
		sig, ok := s.module.of(callee)
		if !ok {
			s.r.fail("callee")
			return
		}
		s.call(sig, sig.goes && callee >= s.module.imported)
	case op == opCallIndirect:
		typ := int(s.r.uint())
		s.r.byte() // table
		if typ >= len(s.module.types) {
			s.r.fail("callee")
			return
		}
		s.take(1)
		s.call(s.module.types[typ], s.module.types[typ].goes)
	case op == opDrop:
		s.take(1)
	case op == opSelect:
		s.take(3)
		s.push(1)
	case op >= opLocalGet && op <= opGlobalSet:
		s.variable(op)
	case op >= opLoadFirst && op <= opLoadLast:
		s.access(op, s.pop())
		s.push(1)
	case op >= opStoreFirst && op <= opStoreLast:
		s.take(1)
		s.access(op, s.pop())
	default:
		s.compute(op)
	}
}

func (s *scan) control(op byte) {
	switch op {
	case opNop:
	case opUnreachable:
		s.leave()
	case opReturn:
		if !s.dead && (!s.sure || s.moved != returnSize) {
			s.r.fail("return with a moved stack")
		}
		s.take(1)
		s.leave()
	case opBlock, opLoop, opIf:
		if op == opIf {
			s.take(1)
		}
		if s.r.byte() != noResult {
			s.r.fail("block with a result")
		}
		s.labels = append(s.labels, label{kind: op, height: len(s.stack), moved: s.moved, sure: s.sure,
			reached: op == opIf && !s.dead, dead: s.dead})
	case opElse:
		l := &s.labels[len(s.labels)-1]
		moved, sure := l.moved, l.sure
		l.kind = opElse
		s.branch(0)
		s.stack = s.stack[:min(l.height, len(s.stack))]
		s.moved, s.sure, s.dead = moved, sure, l.dead
	case opEnd:
		s.end()
	case opBr:
		s.branch(s.r.uint())
		s.leave()
	case opBrIf:
		s.take(1)
		s.branch(s.r.uint())
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
	index := s.r.uint()
	switch op {
	case opLocalGet:
		s.get(index)
		return
	case opGlobalGet:
		s.push(1)
	case opLocalTee:
		s.take(1)
		s.push(1)
	default:
		s.take(1)
	}
	stackPointer := uint32(localSP)
	if op == opGlobalGet || op == opGlobalSet {
		stackPointer = 0
	}
	if index == stackPointer {
		s.r.fail("stack pointer used in another way")
	}
}

// compute reads what neither branches nor touches variables.
func (s *scan) compute(op byte) {
	switch {
	case op == opMemorySize:
		s.r.byte()
		s.push(1)
	case op == opMemoryGrow:
		s.r.byte()
		s.take(1)
		s.push(1)
	case op == opI32Const:
		if !s.jump() {
			s.r.int()
			s.push(1)
		}
	case op == opI64Const:
		s.stack = append(s.stack, operand{constant: true, value: s.r.int()})
	case op == opExtend || op == opWrap:
		s.convert(op == opExtend)
	case op == opI64Add:
		s.add()
	case op == opF32Const || op == opF64Const:
		for range 4 * (1 + op - opF32Const) {
			s.r.byte()
		}
		s.push(1)
	case unary(op):
		s.take(1)
		s.push(1)
	case op > opF64Const && op <= 0xa6:
		s.take(2)
		s.push(1)
	case op == opPrefix:
		s.prefixed()
	default:
		s.unknown(op)
	}
}

// jump reads a jump to another part of the function: where to is put into local 0, and then
// the head's loop begins again. It can go there at once if that is further on.
func (s *scan) jump() bool {
	r, at := s.r, s.r.at-1
	to := r.int()
	if !r.accept(opLocalSet, localResume, opBr) || s.dead {
		return false
	}
	loop := len(s.labels) - 1 - int(r.uint())
	if loop < 0 || !s.labels[loop].hub || s.labels[loop].kind != opLoop || r.err != nil {
		return false
	}
	point, _ := slices.BinarySearch(s.points, to+1)
	open := loop + len(s.points) - point + 1 // as many labels as there are points are in the loop
	if point < 2 || open >= len(s.labels) || s.labels[open].point != point-1 {
		return false
	}
	s.r = r
	s.edits = append(s.edits, edit{from: at, to: r.at, what: jump, moved: int64(len(s.labels) - 1 - open)})
	s.branch(uint32(len(s.labels) - 1 - open))
	s.leave()
	return true
}

// convert makes 64 bits of 32 or the other way round. An address stays one.
func (s *scan) convert(wide bool) {
	o := s.pop()
	if o.at != 0 && o.wide != wide {
		o.wide, o.end = wide, s.r.at
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
		o.added, o.end = o.added+by.value, s.r.at
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
	const saturating, memoryCopy, memoryFill = 7, 10, 11
	switch op := s.r.uint(); {
	case op <= saturating:
		s.take(1)
		s.push(1)
	case op == memoryCopy:
		s.r.byte()
		s.r.byte()
		s.take(3)
	case op == memoryFill:
		s.r.byte()
		s.take(3)
	default:
		s.unknown(opPrefix)
	}
}
