package fork

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/seed-7c27e6b8/whale/sandbox/wasm"
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

// Rewrite makes a module forkable. It refuses a start section (it would run in every
// fork), passive data and segments at computed offsets.
func Rewrite(module []byte) (Rewritten, error) {
	sections, err := wasm.Split(module)
	if err != nil {
		return Rewritten{}, fmt.Errorf("%w: %w", ErrModule, err)
	}
	var out Rewritten
	var mutable []uint32
	var kept []wasm.Section
	imported := uint32(0)
	exported := false
	for _, s := range sections {
		r := wasm.NewReader(s.Body)
		switch s.ID {
		case wasm.SectionImport:
			imported = importedGlobals(&r)
		case wasm.SectionGlobal:
			mutable = mutableGlobals(&r, imported)
		case wasm.SectionExport:
			s.Body, exported = withExports(&r, mutable), true
		case wasm.SectionStart:
			r.Fail("start function")
		case wasm.SectionData:
			out.Data = activeData(&r)
		}
		if r.Err() != nil {
			return Rewritten{}, fmt.Errorf("%w: section %d: %w", ErrModule, s.ID, r.Err())
		}
		if s.ID != wasm.SectionData && s.ID != wasm.SectionDataCount {
			kept = append(kept, s)
		}
	}
	if !exported {
		return Rewritten{}, fmt.Errorf("%w: exports nothing", ErrModule)
	}
	out.Wasm, out.Globals = wasm.Join(kept), len(mutable)
	return out, nil
}

// importedGlobals counts the imports that shift the index of the module's own globals.
func importedGlobals(r *wasm.Reader) (n uint32) {
	for left := r.Uint(); left > 0 && r.Err() == nil; left-- {
		if kind, _ := r.Import(); kind == wasm.KindGlobal {
			n++
		}
	}
	return n
}

// mutableGlobals lists the indices of globals that can change.
func mutableGlobals(r *wasm.Reader, first uint32) (list []uint32) {
	for i, n := uint32(0), r.Uint(); i < n && r.Err() == nil; i++ {
		r.Byte() // value type
		if r.Byte() == 1 {
			list = append(list, first+i)
		}
		r.Constant()
	}
	return list
}

// withExports gives the export section with the globals added.
func withExports(r *wasm.Reader, globals []uint32) []byte {
	out := wasm.AppendUint(nil, uint64(r.Uint())+uint64(len(globals)))
	out = append(out, r.Rest()...)
	for i, g := range globals {
		out = append(wasm.AppendBytes(out, []byte(GlobalName(i))), wasm.KindGlobal)
		out = wasm.AppendUint(out, g)
	}
	return out
}

func activeData(r *wasm.Reader) (list []Segment) {
	for left := r.Uint(); left > 0 && r.Err() == nil; left-- {
		if kind := r.Uint(); kind != 0 {
			r.Fail(fmt.Sprintf("data segment of kind %d", kind))
			return nil
		}
		offset := r.Constant()
		list = append(list, Segment{Offset: offset, Data: r.Bytes()})
	}
	return list
}
