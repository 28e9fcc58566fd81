// Package dispatch rewrites WebAssembly so that indirect calls go through functions instead
// of the table.
//
// A Go guest has all its functions in the table, and wazero makes the references of a table
// anew for every instance: 48 bytes a function, 340 KB, more than a session has memory of its
// own. Here each type of indirect calls gets one function, common to all instances, that takes
// the index after the arguments and jumps to the call, by br_table. An index that the table has
// no function of that type for ends in a trap, as before.
//
// Nothing here is trusted: wazero validates what comes out. A module whose table can be reached
// in another way passes through.
package dispatch

import (
	"slices"

	"github.com/seed-7c27e6b8/whale/sandbox/wasm"
)

// Version changes whenever WithoutTable writes something else.
const Version = 1

// WithoutTable gives the module without its table; done is false, and the module is the same,
// where the table has to stay.
func WithoutTable(module []byte) (out []byte, done bool) {
	sections, err := wasm.Split(module)
	if err != nil {
		return module, false
	}
	t := table{calls: map[uint32]uint32{}}
	for _, s := range sections {
		if !t.read(s) {
			return module, false
		}
	}
	if len(t.entries) == 0 || len(t.code) != len(t.defined) {
		return module, false
	}
	for i, body := range t.code {
		r := wasm.NewReader(body)
		if t.code[i] = t.direct(&r); r.Err() != nil {
			return module, false
		}
	}
	return wasm.Join(t.write(sections)), true
}

// table is what stands in the way of doing without one.
type table struct {
	types    []wasm.Signature
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
func (t *table) read(s wasm.Section) bool {
	r := wasm.NewReader(s.Body)
	switch s.ID {
	case wasm.SectionType:
		t.types = wasm.Signatures(&r)
	case wasm.SectionImport:
		for left := r.Uint(); left > 0 && r.Err() == nil; left-- {
			kind, index := r.Import()
			if kind == wasm.KindTable {
				return false
			}
			if kind == wasm.KindFunction {
				t.imported = append(t.imported, index)
			}
		}
	case wasm.SectionFunction:
		for left := r.Uint(); left > 0 && r.Err() == nil; left-- {
			t.defined = append(t.defined, r.Uint())
		}
	case wasm.SectionExport:
		for left := r.Uint(); left > 0 && r.Err() == nil; left-- {
			r.Bytes()
			if r.Byte() == wasm.KindTable {
				return false
			}
			r.Uint()
		}
	case wasm.SectionTable:
		if r.Uint() != 1 {
			return false
		}
	case wasm.SectionElement:
		return t.readElements(&r)
	case wasm.SectionCode:
		for left := r.Uint(); left > 0 && r.Err() == nil; left-- {
			t.code = append(t.code, r.Bytes())
		}
	}
	return r.Err() == nil
}

// readElements takes in what the table holds at the start, which is all that it ever holds.
func (t *table) readElements(r *wasm.Reader) bool {
	for left := r.Uint(); left > 0 && r.Err() == nil; left-- {
		if r.Uint() != 0 { // of the first table, at an offset, functions by index
			return false
		}
		at := r.Constant()
		n := r.Uint()
		if r.Err() != nil || uint64(at)+uint64(n) > mostEntries {
			return false
		}
		for uint64(len(t.entries)) < uint64(at)+uint64(n) {
			t.entries = append(t.entries, empty)
		}
		for i := range n {
			t.entries[at+i] = r.Uint()
		}
	}
	return r.Err() == nil
}

// direct gives a function's body with calls of dispatching functions for indirect ones.
func (t *table) direct(r *wasm.Reader) []byte {
	whole := r.Rest()
	var out []byte
	done := 0 // of whole, what out has
	for left := r.Uint(); left > 0 && r.Err() == nil; left-- {
		r.Uint() // locals
		r.Byte()
	}
	for r.More() {
		at := r.At()
		op := r.Byte()
		if op != wasm.OpCallIndirect {
			r.Immediates(op)
			continue
		}
		kind, of := r.Uint(), r.Uint()
		if int(kind) >= len(t.types) || of != 0 {
			r.Fail("indirect call")
			return nil
		}
		call, ok := t.calls[kind]
		if !ok {
			call = uint32(len(t.imported) + len(t.defined) + len(t.order))
			t.calls[kind], t.order = call, append(t.order, kind)
		}
		out = append(append(out, whole[done:at]...), wasm.OpCall)
		out = wasm.AppendUint(out, call)
		done = r.At()
	}
	return append(out, whole[done:]...)
}

// typeOf is the type of a function, if there is one.
func (t *table) typeOf(function uint32) (wasm.Signature, bool) {
	all := append(t.imported[:len(t.imported):len(t.imported)], t.defined...)
	if uint64(function) >= uint64(len(all)) || uint64(all[function]) >= uint64(len(t.types)) {
		return wasm.Signature{}, false
	}
	return t.types[all[function]], true
}

// dispatcher is the body of the function that makes the indirect calls of a type: nested
// blocks, one for every function, and behind each the call that its label stands for.
func (t *table) dispatcher(kind wasm.Signature) []byte {
	index := len(kind.Params) // the local that holds it
	var arms []uint32
	place := map[uint32]uint64{}
	labels := make([]uint64, len(t.entries))
	for i, f := range t.entries {
		if other, ok := t.typeOf(f); !ok || other != kind {
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
		out = append(out, wasm.OpBlock, wasm.NoResult)
	}
	out = wasm.AppendUint(append(out, wasm.OpLocalGet), index)
	out = wasm.AppendUint(append(out, wasm.OpBrTable), len(labels))
	trap := uint64(len(arms))
	for _, label := range labels {
		out = wasm.AppendUint(out, min(label, trap))
	}
	out = wasm.AppendUint(out, trap)
	for _, f := range arms {
		out = append(out, wasm.OpEnd)
		for local := range index {
			out = wasm.AppendUint(append(out, wasm.OpLocalGet), local)
		}
		out = append(wasm.AppendUint(append(out, wasm.OpCall), f), wasm.OpReturn)
	}
	return append(out, wasm.OpEnd, wasm.OpUnreachable, wasm.OpEnd)
}

// write gives the sections with the dispatching functions, without table and elements.
func (t *table) write(sections []wasm.Section) []wasm.Section {
	types, defined, code := slices.Clone(t.types), slices.Clone(t.defined), slices.Clone(t.code)
	for _, kind := range t.order {
		s := t.types[kind]
		defined = append(defined, uint32(len(types)))
		types = append(types, wasm.Signature{Params: s.Params + string(rune(wasm.TypeI32)), Results: s.Results})
		code = append(code, t.dispatcher(s))
	}
	var out []wasm.Section
	for _, s := range sections {
		switch s.ID {
		case wasm.SectionTable, wasm.SectionElement:
			continue
		case wasm.SectionType:
			s.Body = wasm.AppendVector(nil, types, func(b []byte, v wasm.Signature) []byte { return v.Append(b) })
		case wasm.SectionFunction:
			s.Body = wasm.AppendVector(nil, defined, wasm.AppendUint[uint32])
		case wasm.SectionCode:
			s.Body = wasm.AppendVector(nil, code, wasm.AppendBytes)
		}
		out = append(out, s)
	}
	return out
}
