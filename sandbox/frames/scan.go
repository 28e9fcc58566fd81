package frames

import (
	"fmt"
	"slices"
)

// scan follows one function from front to back: how far its stack pointer is from what it
// was on entry, and which of the operands is a stack pointer.
type scan struct {
	module *module
	r      reader
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
	s.entry, s.sure = s.r.at, true
	s.labels = []label{{kind: opBlock}}
	s.head()
	for s.r.more() && len(s.labels) > 0 {
		s.step()
	}
	if s.r.err == nil && (s.r.at < len(s.r.b) || len(s.labels) > 0) {
		s.r.fail("end")
	}
	return s.r.err
}

// head reads what leads to the resume points: a block for the way out, a loop for jumps, a
// block for each point and a jump to the one that local 0 names.
func (s *scan) head() {
	r := s.r
	var labels []label
	for r.more() {
		at := r.at
		switch kind := r.byte(); {
		case (kind == opBlock || kind == opLoop) && r.accept(noResult):
			labels = append(labels, label{kind: kind, hub: kind == opLoop})
			continue
		case kind == opLocalGet && r.accept(localResume, opBrTable):
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
	last := int64(s.r.uint())
	for n := int64(0); n <= last && s.r.err == nil; n++ {
		target := int(s.r.uint())
		if n == 0 && target != 0 || target > len(s.labels)-2 || target > len(s.points) || target < len(s.points)-1 {
			s.r.fail("resume point")
			return
		}
		if target == len(s.points) {
			s.points = append(s.points, int64(n))
		}
		l := &s.labels[len(s.labels)-1-target]
		l.reached, l.sure, l.hub, l.point = true, true, target > 0, target
	}
	s.dead = true
	s.begin = s.r.at
}

// frame is the size of the frame. Functions that have none don't move the stack pointer.
func (s *scan) frame() int64 { return max(s.size, 0) }

// branch notes that a label is reached from here.
func (s *scan) branch(depth uint32) {
	if int(depth) >= len(s.labels) {
		s.r.fail("branch")
		return
	}
	l := &s.labels[len(s.labels)-1-int(depth)]
	switch {
	case s.dead:
	case int(depth) == len(s.labels)-1:
		s.r.fail("branch out of the function")
	case l.hub:
		s.inFrame()
	case l.kind == opLoop:
		if !s.sure || s.moved != l.moved {
			s.r.fail("loop that moves the stack")
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
		s.r.fail("stack pointer not at the frame")
	}
}

// end closes a block.
func (s *scan) end() {
	l := s.labels[len(s.labels)-1]
	s.labels = s.labels[:len(s.labels)-1]
	if l.kind == opIf {
		s.edits = append(s.edits, edit{from: s.r.at - 1, to: s.r.at - 1, what: otherwise})
	}
	if len(s.labels) == 0 {
		return
	}
	s.stack = s.stack[:min(l.height, len(s.stack))]
	switch {
	case l.hub && l.kind == opBlock:
		if !s.dead {
			s.inFrame()
		}
		s.moved, s.sure, s.dead = -s.frame(), true, false
	case l.kind == opLoop || !l.reached:
	case s.dead:
		s.moved, s.sure, s.dead = l.moved, l.sure, false
	default:
		s.sure = s.sure && l.sure && s.moved == l.moved
	}
	if l.reached && !s.dead {
		s.edits = append(s.edits, edit{from: s.r.at, to: s.r.at, what: again})
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
			s.r.fail("operand missing")
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
	from := s.r.at
	align, offset := s.r.uint(), s.r.uint()
	if address.at == 0 || address.wide {
		s.value(address)
		return
	}
	s.edits = append(s.edits, edit{from: address.at, to: address.end, what: base},
		edit{from: from, to: s.r.at, what: access, moved: address.moved, opcode: opcode, align: align, offset: uint64(offset) + uint64(address.added)})
}

// adjust reads a change of the stack pointer that began with getting it: a constant added or
// taken away, and the result put into local 1 and global 0.
func (s *scan) adjust() bool {
	r, at := s.r, s.r.at-2
	if !r.accept(opI32Const) {
		return false
	}
	by := r.int()
	switch r.byte() {
	case opI32Sub:
		by = -by
	case opI32Add:
	default:
		return false
	}
	if !r.accept(opLocalTee, localSP, opGlobalSet, 0) || r.err != nil {
		return false
	}
	s.r = r
	if s.size == unknownSize && by < 0 && !s.inside(opIf) {
		s.size = -by
	}
	s.moved += by
	s.edits = append(s.edits, edit{from: at, to: r.at, what: adjust, moved: s.moved})
	return true
}

// inside says that a block of a kind is open.
func (s *scan) inside(kind byte) bool {
	return slices.ContainsFunc(s.labels, func(l label) bool { return l.kind == kind })
}

// called is what is behind a call: the stack pointer is read again, and is what it was
// before the return address.
func (s *scan) called(goes bool) {
	from := s.r.at
	if !s.r.accept(opGlobalGet, 0, opLocalSet, localSP) {
		s.r.fail("call without the stack pointer behind it")
		return
	}
	s.edits = append(s.edits, edit{from: from, to: s.r.at})
	if goes {
		s.moved += returnSize
	}
}

func (s *scan) get(local uint32) {
	switch {
	case local != localSP || s.dead:
		s.push(1)
	case !s.sure:
		s.r.fail("stack pointer of two ways")
	case s.adjust():
	default:
		s.stack = append(s.stack, operand{at: s.r.at - 2, end: s.r.at, moved: s.moved})
	}
}

func (s *scan) leave() {
	s.dead = true
	s.stack = s.stack[:min(len(s.stack), s.labels[len(s.labels)-1].height)]
}

func (s *scan) unknown(opcode byte) { s.r.fail(fmt.Sprintf("instruction %#x", opcode)) }
