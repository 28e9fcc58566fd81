package fork

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// ErrModule is what Rewrite returns, wrapped, for a module that it can't make forkable.
var ErrModule = errors.New("fork: module")

// Segment is a part of the initial memory.
type Segment struct {
	Offset uint32
	Data   []byte // shares the bytes given to Rewrite
}

// Rewritten is a module without initial memory and with every mutable global exported
// as GlobalName(0), GlobalName(1), ...
type Rewritten struct {
	Wasm    []byte
	Data    []Segment
	Globals int
}

// GlobalName is the name under which the n-th mutable global of a rewritten module is
// exported.
func GlobalName(n int) string { return "whale.global." + strconv.Itoa(n) }

// Sections of a module (WebAssembly core specification, 5.5.2).
const (
	sectionType      = 1
	sectionImport    = 2
	sectionFunction  = 3
	sectionTable     = 4
	sectionGlobal    = 6
	sectionExport    = 7
	sectionStart     = 8
	sectionElement   = 9
	sectionCode      = 10
	sectionData      = 11
	sectionDataCount = 12
)

// Rewrite makes a module forkable. It refuses a start section (it would run in every
// fork), passive data and segments at computed offsets.
func Rewrite(module []byte) (Rewritten, error) {
	sections, err := split(module)
	if err != nil {
		return Rewritten{}, err
	}
	if without, ok := withoutTable(sections); ok {
		sections = without
	}
	out := Rewritten{Wasm: make([]byte, 0, len(module))}
	out.Wasm = append(out.Wasm, header...)
	var mutable []uint32
	imported := uint32(0)
	exported := false
	for _, s := range sections {
		body := reader{b: s.body}
		keep := body.b
		switch s.id {
		case sectionImport:
			imported = importedGlobals(&body)
		case sectionGlobal:
			mutable = mutableGlobals(&body, imported)
		case sectionExport:
			keep, exported = withExports(&body, mutable), true
		case sectionStart:
			body.fail("start function")
		case sectionData:
			out.Data, keep = activeData(&body), nil
		case sectionDataCount:
			keep = nil
		}
		if body.err != nil {
			return Rewritten{}, fmt.Errorf("%w: section %d: %w", ErrModule, s.id, body.err)
		}
		if keep == nil {
			continue
		}
		out.Wasm = appendBytes(append(out.Wasm, s.id), keep)
	}
	if !exported {
		return Rewritten{}, fmt.Errorf("%w: exports nothing", ErrModule)
	}
	out.Globals = len(mutable)
	return out, nil
}

const header = "\x00asm\x01\x00\x00\x00"

// split gives the sections of a module, which share its bytes.
func split(module []byte) (list []section, _ error) {
	if len(module) < len(header) || string(module[:len(header)]) != header {
		return nil, fmt.Errorf("%w: not a WebAssembly 1.0 binary", ErrModule)
	}
	for r := (reader{b: module[len(header):]}); len(r.b) > 0; {
		s := section{r.byte(), r.bytes()}
		if r.err != nil {
			return nil, fmt.Errorf("%w: section %d: %w", ErrModule, s.id, r.err)
		}
		list = append(list, s)
	}
	return list, nil
}

// importedGlobals counts the imports that shift the index of the module's own globals.
func importedGlobals(r *reader) (n uint32) {
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		if kind, _ := r.imported(); kind == kindGlobal {
			n++
		}
	}
	return n
}

// Kinds of imports and exports.
const (
	kindFunction = 0
	kindTable    = 1
	kindMemory   = 2
	kindGlobal   = 3
)

// imported reads an import: its kind and, of a function, its type.
func (r *reader) imported() (kind byte, index uint32) {
	r.bytes() // module
	r.bytes() // name
	switch kind = r.byte(); kind {
	case kindFunction:
		index = r.uint()
	case kindTable: // element type, limits
		r.byte()
		r.limits()
	case kindMemory:
		r.limits()
	case kindGlobal: // value type, mutability
		r.byte()
		r.byte()
	default:
		r.fail(fmt.Sprintf("import of kind %d", kind))
	}
	return kind, index
}

// mutableGlobals lists the indices of globals that can change.
func mutableGlobals(r *reader, first uint32) (list []uint32) {
	for i, n := uint32(0), r.uint(); i < n && r.err == nil; i++ {
		r.byte() // value type
		if r.byte() == 1 {
			list = append(list, first+i)
		}
		r.constant()
	}
	return list
}

// withExports gives the export section with the globals added.
func withExports(r *reader, globals []uint32) []byte {
	n := r.uint()
	out := binary.AppendUvarint(nil, uint64(n)+uint64(len(globals)))
	out = append(out, r.b...)
	for i, g := range globals {
		name := GlobalName(i)
		out = binary.AppendUvarint(out, uint64(len(name)))
		out = append(out, name...)
		out = append(out, 3) // global
		out = binary.AppendUvarint(out, uint64(g))
	}
	return out
}

func activeData(r *reader) (list []Segment) {
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		if kind := r.uint(); kind != 0 {
			r.fail(fmt.Sprintf("data segment of kind %d", kind))
			return nil
		}
		offset := r.constant()
		list = append(list, Segment{Offset: offset, Data: r.bytes()})
	}
	return list
}

// reader reads values off the front of b and keeps the first fault.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = errors.New(what)
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("cut short")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uint() uint32 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > 1<<32-1 {
		r.fail("number")
		return 0
	}
	r.b = r.b[n:]
	return uint32(v)
}

func (r *reader) bytes() []byte {
	n := r.uint()
	if uint64(n) > uint64(len(r.b)) {
		r.fail("cut short")
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) limits() {
	if r.byte()&1 != 0 {
		r.uint()
	}
	r.uint()
}

// skipSigned steps over a signed LEB128 number and returns its low 32 bits.
func (r *reader) skipSigned() uint32 {
	var v uint64
	for shift := 0; shift < 70; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			if c&0x40 != 0 && shift < 57 {
				v |= ^uint64(0) << (shift + 7)
			}
			return uint32(v)
		}
	}
	r.fail("number")
	return 0
}

// constant reads a constant expression of one instruction; the result is its value when
// it is an i32.const, else 0.
func (r *reader) constant() (v uint32) {
	switch op := r.byte(); op {
	case 0x41: // i32.const
		v = r.skipSigned()
	case 0x42: // i64.const
		r.skipSigned()
	case 0x43: // f32.const
		r.skip(4)
	case 0x44: // f64.const
		r.skip(8)
	case 0xd0: // ref.null
		r.byte()
	case 0xd2, 0x23: // ref.func, global.get
		r.uint()
	default:
		r.fail(fmt.Sprintf("constant with opcode %#x", op))
	}
	if r.byte() != 0x0b && r.err == nil {
		r.fail("constant of several instructions")
	}
	return v
}

func (r *reader) skip(n int) {
	if n > len(r.b) {
		r.fail("cut short")
		return
	}
	r.b = r.b[n:]
}
