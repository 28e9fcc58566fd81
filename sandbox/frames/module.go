package frames

import (
	"errors"
	"fmt"

	"github.com/seed-7c27e6b8/whale/sandbox/wasm"
)

// errShape: a function that is not what Go's compiler makes.
var errShape = errors.New("not Go's shape")

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
func Rebase(binary []byte) (out []byte, rebased int, err error) {
	sections, err := wasm.Split(binary)
	if err != nil {
		return nil, 0, fmt.Errorf("frames: %w", err)
	}
	var m module
	for i, s := range sections {
		r := wasm.NewReader(s.Body)
		switch s.ID {
		case wasm.SectionType:
			m.readTypes(&r)
		case wasm.SectionImport:
			m.readImports(&r)
		case wasm.SectionFunction:
			for left := r.Uint(); left > 0 && r.Err() == nil; left-- {
				m.typeOf = append(m.typeOf, int(r.Uint()))
			}
		case wasm.SectionCode:
			sections[i].Body, rebased = m.rebase(&r)
		}
		if r.Err() != nil {
			return nil, 0, fmt.Errorf("frames: section %d: %w", s.ID, r.Err())
		}
	}
	return wasm.Join(sections), rebased, nil
}

func (m *module) readTypes(r *wasm.Reader) {
	goes := wasm.Signature{Params: string(rune(wasm.TypeI32)), Results: string(rune(wasm.TypeI32))}
	for _, s := range wasm.Signatures(r) {
		m.types = append(m.types, signature{len(s.Params), len(s.Results), s == goes})
	}
}

// readImports takes functions only, which is all that Go imports.
func (m *module) readImports(r *wasm.Reader) {
	for left := r.Uint(); left > 0 && r.Err() == nil; left-- {
		kind, of := r.Import()
		if kind != wasm.KindFunction {
			r.Fail("import that is no function")
		}
		m.typeOf = append(m.typeOf, int(of))
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

func (m *module) rebase(r *wasm.Reader) (section []byte, rebased int) {
	n := int(r.Uint())
	section = wasm.AppendUint(make([]byte, 0, len(r.Rest())), n)
	for i := 0; i < n && r.Err() == nil; i++ {
		body := r.Bytes()
		if s, ok := m.of(m.imported + i); ok && s.goes {
			if better, err := m.function(body); err == nil {
				body, rebased = better, rebased+1
			}
		}
		section = wasm.AppendBytes(section, body)
	}
	if r.More() {
		r.Fail("bytes left over")
	}
	return section, rebased
}
