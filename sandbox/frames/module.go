package frames

import (
	"encoding/binary"
	"fmt"
)

// Sections of a module (WebAssembly core specification, 5.5.2).
const (
	sectionType     = 1
	sectionImport   = 2
	sectionFunction = 3
	sectionCode     = 10
)

const header = "\x00asm\x01\x00\x00\x00"

// signature is a function's type; go says that it is Go's own, (i32) -> i32.
type signature struct {
	params, results int
	goes            bool
}

// module is what must be known of the functions that are called.
type module struct {
	types    []signature
	imported int   // the first functions
	typeOf   []int // of each function
}

// Rebase gives the module with the frames of its functions addressed from one base each, and
// says how many of its functions are.
func Rebase(wasm []byte) (out []byte, rebased int, err error) {
	if len(wasm) < len(header) || string(wasm[:len(header)]) != header {
		return nil, 0, fmt.Errorf("frames: %w: not a WebAssembly 1.0 binary", errShape)
	}
	out = append(make([]byte, 0, len(wasm)), header...)
	var m module
	r := &reader{b: wasm, at: len(header)}
	for r.more() {
		id := r.byte()
		content := r.bytes()
		body := &reader{b: content}
		switch id {
		case sectionType:
			m.readTypes(body)
		case sectionImport:
			m.readImports(body)
		case sectionFunction:
			for left := body.uint(); left > 0 && body.err == nil; left-- {
				m.typeOf = append(m.typeOf, int(body.uint()))
			}
		case sectionCode:
			content, rebased = m.rebase(body)
		}
		if body.err != nil {
			return nil, 0, fmt.Errorf("frames: section %d: %w", id, body.err)
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(content)))
		out = append(out, content...)
	}
	if r.err != nil {
		return nil, 0, fmt.Errorf("frames: %w", r.err)
	}
	return out, rebased, nil
}

const typeI32 = 0x7f

func (m *module) readTypes(r *reader) {
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		if r.byte() != 0x60 {
			r.fail("type")
		}
		params, results := r.bytes(), r.bytes()
		m.types = append(m.types, signature{len(params), len(results), string(params) == string([]byte{typeI32}) && string(results) == string([]byte{typeI32})})
	}
}

// readImports takes functions only, which is all that Go imports.
func (m *module) readImports(r *reader) {
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		r.bytes()
		r.bytes()
		if r.byte() != 0 {
			r.fail("import that is no function")
		}
		m.typeOf = append(m.typeOf, int(r.uint()))
		m.imported++
	}
}

// of is the type of a function; ok is false when there is none.
func (m *module) of(function int) (s signature, ok bool) {
	if function >= len(m.typeOf) || m.typeOf[function] >= len(m.types) {
		return signature{}, false
	}
	return m.types[m.typeOf[function]], true
}

func (m *module) rebase(r *reader) (section []byte, rebased int) {
	n := int(r.uint())
	section = binary.AppendUvarint(make([]byte, 0, len(r.b)), uint64(n))
	for i := 0; i < n && r.err == nil; i++ {
		body := r.bytes()
		if s, ok := m.of(m.imported + i); ok && s.goes {
			if better, err := m.function(body); err == nil {
				body, rebased = better, rebased+1
			}
		}
		section = binary.AppendUvarint(section, uint64(len(body)))
		section = append(section, body...)
	}
	if r.more() {
		r.fail("bytes left over")
	}
	return section, rebased
}
