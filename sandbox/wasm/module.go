package wasm

import "fmt"

// Header is how every module begins.
const Header = "\x00asm\x01\x00\x00\x00"

// Section is one section of a module.
type Section struct {
	ID   byte
	Body []byte
}

// Numbers of sections.
const (
	SectionType      = 1
	SectionImport    = 2
	SectionFunction  = 3
	SectionTable     = 4
	SectionMemory    = 5
	SectionGlobal    = 6
	SectionExport    = 7
	SectionStart     = 8
	SectionElement   = 9
	SectionCode      = 10
	SectionData      = 11
	SectionDataCount = 12
)

// Split gives the sections of a module, which share its bytes.
func Split(module []byte) (list []Section, _ error) {
	if len(module) < len(Header) || string(module[:len(Header)]) != Header {
		return nil, fmt.Errorf("%w: not a WebAssembly 1.0 binary", ErrForm)
	}
	r := NewReader(module)
	for r.Skip(len(Header)); r.More(); {
		list = append(list, Section{r.Byte(), r.Bytes()})
	}
	return list, r.Err()
}

// Join makes a module of sections.
func Join(sections []Section) []byte {
	size := len(Header)
	for _, s := range sections {
		size += len(s.Body) + 6
	}
	out := append(make([]byte, 0, size), Header...)
	for _, s := range sections {
		out = AppendBytes(append(out, s.ID), s.Body)
	}
	return out
}

// Signature is a function type: the types of its parameters and results.
type Signature struct{ Params, Results string }

// Types of values, and of a block without a result.
const (
	TypeI32  = 0x7f
	TypeFunc = 0x60
	NoResult = 0x40
)

// Signatures reads the types of a module, the body of SectionType.
func Signatures(r *Reader) (list []Signature) {
	for left := r.Uint(); left > 0 && r.err == nil; left-- {
		if r.Byte() != TypeFunc {
			r.Fail("type")
		}
		list = append(list, Signature{string(r.Bytes()), string(r.Bytes())})
	}
	return list
}

// Append writes the type.
func (s Signature) Append(b []byte) []byte {
	return AppendBytes(AppendBytes(append(b, TypeFunc), []byte(s.Params)), []byte(s.Results))
}

// Kinds of imports and exports.
const (
	KindFunction = 0
	KindTable    = 1
	KindMemory   = 2
	KindGlobal   = 3
)

// Import reads one import: its kind and, of a function, its type.
func (r *Reader) Import() (kind byte, of uint32) {
	r.Bytes() // module
	r.Bytes() // name
	switch kind = r.Byte(); kind {
	case KindFunction:
		of = r.Uint()
	case KindTable: // element type, limits
		r.Byte()
		r.limits()
	case KindMemory:
		r.limits()
	case KindGlobal: // value type, mutability
		r.Skip(2)
	default:
		r.Fail(fmt.Sprintf("import of kind %d", kind))
	}
	return kind, of
}

func (r *Reader) limits() {
	if r.Byte()&1 != 0 {
		r.Uint()
	}
	r.Uint()
}

// Constant reads a constant expression of one instruction; the result is its value when it
// is an i32.const, else 0.
func (r *Reader) Constant() (v uint32) {
	switch op := r.Byte(); op {
	case OpI32Const:
		v = uint32(r.Int())
	case OpI64Const, OpF32Const, OpF64Const, OpGlobalGet:
		r.Immediates(op)
	case 0xd0: // ref.null
		r.Byte()
	case 0xd2: // ref.func
		r.Uint()
	default:
		r.Fail(fmt.Sprintf("constant with opcode %#x", op))
	}
	if r.err == nil && r.Byte() != OpEnd {
		r.Fail("constant of several instructions")
	}
	return v
}
