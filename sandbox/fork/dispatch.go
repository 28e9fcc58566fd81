package fork

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// withoutTable gives a module in which indirect calls go through functions instead of the
// table. A Go guest has all its functions in the table, and wazero makes the references of a
// table anew for every instance: 48 bytes a function, 340 KB, more than a session has memory
// of its own. For each type of indirect calls there is now one function, common to all
// instances, that takes the index after the arguments and jumps to the call, by br_table.
//
// A module whose table can be reached in another way keeps it: ok is false.
func withoutTable(sections []section) (_ []section, ok bool) {
	t := table{calls: map[uint32]uint32{}}
	for _, s := range sections {
		if !t.read(s) {
			return nil, false
		}
	}
	if len(t.entries) == 0 || len(t.code) != len(t.defined) {
		return nil, false
	}
	for i, body := range t.code {
		r := reader{b: body}
		if t.code[i] = t.direct(&r); r.err != nil {
			return nil, false
		}
	}
	return t.write(sections), true
}

// section is one section of a module.
type section struct {
	id   byte
	body []byte
}

// signature is a function type as it stands in the module: parameters and results, each with
// its number in front.
type signature struct{ params, results []byte }

// table is what stands in the way of doing without one.
type table struct {
	types    []signature
	imported []uint32 // types of imported functions
	defined  []uint32 // types of the module's own
	entries  []uint32 // functions by index of the table; empty where there is none
	code     [][]byte

	calls map[uint32]uint32 // type of indirect calls: the function that makes them
	order []uint32          // its keys, as they were met
}

// empty marks a place of the table without a function.
const empty = 1<<32 - 1

// mostEntries of a table that is done without.
const mostEntries = 1 << 16

// read takes in a section; false when the table has to stay.
func (t *table) read(s section) bool {
	r := reader{b: s.body}
	switch s.id {
	case sectionType:
		for left := r.uint(); left > 0 && r.err == nil; left-- {
			if r.byte() != 0x60 {
				return false
			}
			t.types = append(t.types, signature{r.bytes(), r.bytes()})
		}
	case sectionImport:
		for left := r.uint(); left > 0 && r.err == nil; left-- {
			kind, index := r.imported()
			if kind == kindTable {
				return false
			}
			if kind == kindFunction {
				t.imported = append(t.imported, index)
			}
		}
	case sectionFunction:
		for left := r.uint(); left > 0 && r.err == nil; left-- {
			t.defined = append(t.defined, r.uint())
		}
	case sectionExport:
		for left := r.uint(); left > 0 && r.err == nil; left-- {
			r.bytes()
			if r.byte() == kindTable {
				return false
			}
			r.uint()
		}
	case sectionTable:
		if r.uint() != 1 {
			return false
		}
	case sectionElement:
		return t.readElements(&r)
	case sectionCode:
		for left := r.uint(); left > 0 && r.err == nil; left-- {
			t.code = append(t.code, r.bytes())
		}
	}
	return r.err == nil
}

// readElements takes in what the table holds at the start, which is all that it ever holds.
func (t *table) readElements(r *reader) bool {
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		if r.uint() != 0 { // of the first table, at an offset, functions by index
			return false
		}
		at := r.constant()
		n := r.uint()
		if r.err != nil || uint64(at)+uint64(n) > mostEntries {
			return false
		}
		for uint64(len(t.entries)) < uint64(at)+uint64(n) {
			t.entries = append(t.entries, empty)
		}
		for i := range n {
			t.entries[at+i] = r.uint()
		}
	}
	return r.err == nil
}

// direct gives a function's body with calls of dispatching functions for indirect ones.
func (t *table) direct(r *reader) []byte {
	whole := r.b
	var out []byte
	done := 0 // of whole, what out has
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		r.uint() // locals
		r.byte()
	}
	for len(r.b) > 0 && r.err == nil {
		at := len(whole) - len(r.b)
		op := r.byte()
		if op != opCallIndirect {
			r.immediates(op)
			continue
		}
		kind, of := r.uint(), r.uint()
		if int(kind) >= len(t.types) || of != 0 {
			r.fail("indirect call")
			return nil
		}
		call, ok := t.calls[kind]
		if !ok {
			call = uint32(len(t.imported) + len(t.defined) + len(t.order))
			t.calls[kind], t.order = call, append(t.order, kind)
		}
		out = append(append(out, whole[done:at]...), opCall)
		out = binary.AppendUvarint(out, uint64(call))
		done = len(whole) - len(r.b)
	}
	return append(out, whole[done:]...)
}

// typeOf is the type of a function, if there is one.
func (t *table) typeOf(function uint32) (signature, bool) {
	all := append(t.imported[:len(t.imported):len(t.imported)], t.defined...)
	if uint64(function) >= uint64(len(all)) || uint64(all[function]) >= uint64(len(t.types)) {
		return signature{}, false
	}
	return t.types[all[function]], true
}

// dispatcher is the body of the function that makes the indirect calls of a type: nested
// blocks, one for every function, and behind each the call that its label stands for.
func (t *table) dispatcher(kind signature) []byte {
	params := reader{b: kind.params}
	index := uint64(len(params.b)) // the local that holds it
	var arms []uint32
	place := map[uint32]uint64{}
	labels := make([]uint64, len(t.entries))
	for i, f := range t.entries {
		other, ok := t.typeOf(f)
		if !ok || string(other.params) != string(kind.params) || string(other.results) != string(kind.results) {
			labels[i] = empty
			continue
		}
		arm, ok := place[f]
		if !ok {
			arm = uint64(len(arms))
			place[f], arms = arm, append(arms, f)
		}
		labels[i] = arm
	}
	out := []byte{0} // no locals
	for range len(arms) + 1 {
		out = append(out, opBlock, blockOfNothing)
	}
	out = binary.AppendUvarint(append(out, opLocalGet), index)
	out = binary.AppendUvarint(append(out, opBranchTable), uint64(len(labels)))
	trap := uint64(len(arms))
	for _, label := range labels {
		out = binary.AppendUvarint(out, min(label, trap))
	}
	out = binary.AppendUvarint(out, trap)
	for _, f := range arms {
		out = append(out, opEnd)
		for local := range index {
			out = binary.AppendUvarint(append(out, opLocalGet), local)
		}
		out = append(binary.AppendUvarint(append(out, opCall), uint64(f)), opReturn)
	}
	return append(out, opEnd, opUnreachable, opEnd)
}

// write gives the sections with the dispatching functions, without table and elements.
func (t *table) write(sections []section) []section {
	types, defined, code := slices.Clone(t.types), slices.Clone(t.defined), slices.Clone(t.code)
	for _, kind := range t.order {
		s := t.types[kind]
		defined = append(defined, uint32(len(types)))
		types = append(types, signature{append(slices.Clone(s.params), typeI32), s.results})
		code = append(code, t.dispatcher(s))
	}
	var out []section
	for _, s := range sections {
		switch s.id {
		case sectionTable, sectionElement:
			continue
		case sectionType:
			s.body = vector(types, func(b []byte, v signature) []byte {
				return appendBytes(appendBytes(append(b, 0x60), v.params), v.results)
			})
		case sectionFunction:
			s.body = vector(defined, func(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) })
		case sectionCode:
			s.body = vector(code, appendBytes)
		}
		out = append(out, s)
	}
	return out
}

func vector[E any](list []E, add func([]byte, E) []byte) []byte {
	out := binary.AppendUvarint(nil, uint64(len(list)))
	for _, e := range list {
		out = add(out, e)
	}
	return out
}

func appendBytes(b, more []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(more))), more...)
}

// Instructions (WebAssembly core specification, 5.4) that are written or looked for.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opEnd          = 0x0b
	opBranchTable  = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opLocalGet     = 0x20
	blockOfNothing = 0x40
	typeI32        = 0x7f
)

// immediates steps over what follows an opcode. Instructions that could reach a table are a
// fault, and so are those that no Go program has.
func (r *reader) immediates(op byte) {
	switch {
	case op == 0x02 || op == 0x03 || op == 0x04: // block, loop, if: its type
		r.skipSigned()
	case op == 0x0c || op == 0x0d || op == opCall || op >= 0x20 && op <= 0x24: // a label, function, local or global
		r.uint()
	case op == opBranchTable:
		for left := uint64(r.uint()) + 1; left > 0 && r.err == nil; left-- {
			r.uint()
		}
	case op == 0x1c: // select of types
		r.bytes()
	case op >= 0x28 && op <= 0x3e: // load or store: alignment and offset
		r.uint()
		r.uint()
	case op == 0x3f || op == 0x40: // memory.size, memory.grow
		r.byte()
	case op == 0x41 || op == 0x42: // i32.const, i64.const
		r.skipSigned()
	case op == 0x43: // f32.const
		r.skip(4)
	case op == 0x44: // f64.const
		r.skip(8)
	case op == 0xfc:
		r.prefixed()
	case op > 0xc4 || op > 0x11 && op < 0x1a || op > 0x1c && op < 0x20 || op > 0x05 && op < 0x0b || op == 0x25 || op == 0x26 || op == 0x27:
		r.fail(fmt.Sprintf("opcode %#x", op))
	}
}

// prefixed steps over an instruction of the group of conversions and bulk memory.
func (r *reader) prefixed() {
	switch op := r.uint(); {
	case op <= 7: // conversions that saturate
	case op == 10: // memory.copy
		r.skip(2)
	case op == 11: // memory.fill
		r.skip(1)
	default:
		r.fail(fmt.Sprintf("opcode 0xfc %d", op))
	}
}
