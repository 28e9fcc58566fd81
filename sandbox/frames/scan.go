package frames

import (
	"fmt"
	"slices"

	"github.com/seed-7c27e6b8/whale/sandbox/wasm"
)

// scan follows one function from front to back: how far its stack pointer is from what it
// was on entry, and which of the operands is a stack pointer.
type scan struct {
	module *module
	r      wasm.Reader
	size   int64   // of the frame; unknownSize until it is seen
	points []int64 // the first value of local 0 for the beginning and each resume point
	entry  int     // where the code begins
	hub    int     // where every way into the code comes by
	begin  int     // where the code is that jumps from there come to
	edits  []edit

	moved  int64 // stack pointer less what it was on entry
	sure   bool  // moved is known
	dead   bool  // nothing comes here
	stack  []operand
	labels []label
}

const unknownSize = -1

// operand is a value on the operand stack: a stack pointer and perhaps something added, got
// by the instructions from at to end; or a constant; or, if at is 0, anything.
type operand struct {
	at, end  int
	moved    int64 // of the stack pointer
	added    int64
	wide     bool // made 64 bits
	constant bool
	value    int64
}

// label is an open block.
type label struct {
	kind    byte
	height  int  // of the operand stack
	hub     bool // a resume point, or the loop around them
	point   int  // number of the resume point
	reached bool // by a branch
	moved   int64
	sure    bool
	dead    bool // opened where nothing comes
}

// run scans to the end of the function.
func (s *scan) run() error {
	s.entry, s.sure = s.r.At(), true
	s.labels = []label{{kind: wasm.OpBlock}}
	s.head()
	for s.r.More() && len(s.labels) > 0 {
		s.step()
	}
	if s.r.Err() == nil && (s.r.More() || len(s.labels) > 0) {
		s.r.Fail("end")
	}
	return s.r.Err()
}

// head reads what leads to the resume points: a block for the way out, a loop for jumps, a
// block for each point and a jump to the one that local 0 names.
func (s *scan) head() {
	r := s.r
	var labels []label
	for r.More() {
		at := r.At()
		switch kind := r.Byte(); {
		case (kind == wasm.OpBlock || kind == wasm.OpLoop) && r.Accept(wasm.NoResult):
			labels = append(labels, label{kind: kind, hub: kind == wasm.OpLoop})
			continue
		case kind == wasm.OpLocalGet && r.Accept(localResume, wasm.OpBrTable):
			s.hub = at
			s.labels = append(s.labels, labels...)
			s.r = r
			s.resume()
			return
		}
		break
	}
	s.hub, s.begin = s.entry, s.entry // no resume points: what was read is not the head
}

// resume reads the targets of the head's jump: the beginning for the first values of local 0,
// then the resume points in order.
func (s *scan) resume() {
	last := int64(s.r.Uint())
	for n := int64(0); n <= last && s.r.Err() == nil; n++ {
		target := int(s.r.Uint())
		if n == 0 && target != 0 || target > len(s.labels)-2 || target > len(s.points) || target < len(s.points)-1 {
			s.r.Fail("resume point")
			return
		}
		if target == len(s.points) {
			s.points = append(s.points, int64(n))
		}
		l := &s.labels[len(s.labels)-1-target]
		l.reached, l.sure, l.hub, l.point = true, true, target > 0, target
	}
	s.dead = true
	s.begin = s.r.At()
}

// frame is the size of the frame. Functions that have none don't move the stack pointer.
func (s *scan) frame() int64 { return max(s.size, 0) }

// branch notes that a label is reached from here.
func (s *scan) branch(depth uint32) {
	if int(depth) >= len(s.labels) {
		s.r.Fail("branch")
		return
	}
	l := &s.labels[len(s.labels)-1-int(depth)]
	switch {
	case s.dead:
	case int(depth) == len(s.labels)-1:
		s.r.Fail("branch out of the function")
	case l.hub:
		s.inFrame()
	case l.kind == wasm.OpLoop:
		if !s.sure || s.moved != l.moved {
			s.r.Fail("loop that moves the stack")
		}
	case !l.reached:
		l.reached, l.moved, l.sure = true, s.moved, s.sure
	case !s.sure || s.moved != l.moved:
		l.sure = false
	}
}

// inFrame sees that the stack pointer is where it is at resume points.
func (s *scan) inFrame() {
	if s.size == unknownSize {
		s.size = 0
	}
	if !s.sure || s.moved != -s.size {
		s.r.Fail("stack pointer not at the frame")
	}
}

// end closes a block.
func (s *scan) end() {
	l := s.labels[len(s.labels)-1]
	s.labels = s.labels[:len(s.labels)-1]
	if l.kind == wasm.OpIf {
		s.edits = append(s.edits, edit{from: s.r.At() - 1, to: s.r.At() - 1, what: otherwise})
	}
	if len(s.labels) == 0 {
		return
	}
	s.stack = s.stack[:min(l.height, len(s.stack))]
	switch {
	case l.hub && l.kind == wasm.OpBlock:
		if !s.dead {
			s.inFrame()
		}
		s.moved, s.sure, s.dead = -s.frame(), true, false
	case l.kind == wasm.OpLoop || !l.reached:
	case s.dead:
		s.moved, s.sure, s.dead = l.moved, l.sure, false
	default:
		s.sure = s.sure && l.sure && s.moved == l.moved
	}
	if l.reached && !s.dead {
		s.edits = append(s.edits, edit{from: s.r.At(), to: s.r.At(), what: again})
	}
}

func (s *scan) push(n int) {
	for range n {
		s.stack = append(s.stack, operand{})
	}
}

func (s *scan) pop() operand {
	least := s.labels[len(s.labels)-1].height
	if len(s.stack) <= least {
		if !s.dead {
			s.r.Fail("operand missing")
		}
		return operand{}
	}
	o := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	return o
}

// take pops operands that are used for anything but an address.
func (s *scan) take(n int) {
	for range n {
		s.value(s.pop())
	}
}

// value has a stack pointer made from base.
func (s *scan) value(o operand) {
	if o.at != 0 {
		s.edits = append(s.edits, edit{from: o.at, to: o.at + 2, what: pointer, moved: o.moved})
	}
}

// access reads what a load or store has behind its opcode and lets it begin at base.
func (s *scan) access(opcode byte, address operand) {
	from := s.r.At()
	align, offset := s.r.Uint(), s.r.Uint()
	if address.at == 0 || address.wide {
		s.value(address)
		return
	}
	s.edits = append(s.edits, edit{from: address.at, to: address.end, what: base},
		edit{from: from, to: s.r.At(), what: access, moved: address.moved, opcode: opcode, align: align, offset: uint64(offset) + uint64(address.added)})
}

// adjust reads a change of the stack pointer that began with getting it: a constant added or
// taken away, and the result put into local 1 and global 0.
func (s *scan) adjust() bool {
	r, at := s.r, s.r.At()-2
	if !r.Accept(wasm.OpI32Const) {
		return false
	}
	by := r.Int()
	switch r.Byte() {
	case wasm.OpI32Sub:
		by = -by
	case wasm.OpI32Add:
	default:
		return false
	}
	if !r.Accept(wasm.OpLocalTee, localSP, wasm.OpGlobalSet, 0) || r.Err() != nil {
		return false
	}
	s.r = r
	if s.size == unknownSize && by < 0 && !s.inside(wasm.OpIf) {
		s.size = -by
	}
	s.moved += by
	s.edits = append(s.edits, edit{from: at, to: r.At(), what: adjust, moved: s.moved})
	return true
}

// inside says that a block of a kind is open.
func (s *scan) inside(kind byte) bool {
	return slices.ContainsFunc(s.labels, func(l label) bool { return l.kind == kind })
}

// called is what is behind a call: the stack pointer is read again, and is what it was
// before the return address.
func (s *scan) called(goes bool) {
	from := s.r.At()
	if !s.r.Accept(wasm.OpGlobalGet, 0, wasm.OpLocalSet, localSP) {
		s.r.Fail("call without the stack pointer behind it")
		return
	}
	s.edits = append(s.edits, edit{from: from, to: s.r.At()})
	if goes {
		s.moved += returnSize
	}
}

func (s *scan) get(local uint32) {
	switch {
	case local != localSP || s.dead:
		s.push(1)
	case !s.sure:
		s.r.Fail("stack pointer of two ways")
	case s.adjust():
	default:
		s.stack = append(s.stack, operand{at: s.r.At() - 2, end: s.r.At(), moved: s.moved})
	}
}

func (s *scan) leave() {
	s.dead = true
	s.stack = s.stack[:min(len(s.stack), s.labels[len(s.labels)-1].height)]
}

func (s *scan) unknown(opcode byte) { s.r.Fail(fmt.Sprintf("instruction %#x", opcode)) }
