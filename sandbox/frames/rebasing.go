package frames

import (
	"fmt"
	"slices"

	"github.com/seed-7c27e6b8/whale/sandbox/wasm"
)

// rebasing writes a function that was scanned.
type rebasing struct {
	*scan
	body  []byte
	from  int    // where its locals end
	local uint64 // that holds base
}

// write adds the function to out.
func (f rebasing) write(out []byte) ([]byte, error) {
	reach, err := f.reach()
	if err != nil {
		return nil, err
	}
	out = append(out, f.body[f.from:f.entry]...)
	out = append(out, wasm.OpLocalGet, localSP, wasm.OpI32Const)
	out = wasm.AppendInt(out, f.frame()+returnSize)
	if f.frame() > 0 && len(f.points) > 1 {
		out = append(out, wasm.OpI32Const, returnSize, wasm.OpLocalGet, localResume, wasm.OpI32Const)
		out = wasm.AppendInt(out, f.points[1])
		out = append(out, wasm.OpI32LtU, wasm.OpSelect)
	}
	out = append(out, wasm.OpI32Sub, wasm.OpLocalSet)
	out = wasm.AppendUint(out, f.local)
	slices.SortStableFunc(f.edits, func(a, b edit) int { return a.from - b.from })
	out = f.touch(append(out, f.body[f.entry:f.hub]...), reach)
	if len(f.points) > 0 {
		out = f.dispatch(out, 0, len(f.points), 0)
	}
	at := f.begin
	for _, e := range f.edits {
		out = append(out, f.body[at:e.from]...)
		out = f.replace(out, e)
		at = e.to
	}
	return append(out, f.body[at:]...), nil
}

// reach is how many bytes from base the furthest access ends.
func (f rebasing) reach() (reach uint64, err error) {
	for _, e := range f.edits {
		if e.what != access {
			continue
		}
		above := f.above(e.moved)
		if above < 0 || e.offset+uint64(above) >= 1<<31 {
			return 0, fmt.Errorf("%w: access below the frame", errShape)
		}
		reach = max(reach, e.offset+uint64(above)+accessSize(e.opcode))
	}
	if reach == 0 {
		return 0, fmt.Errorf("%w: no access to the frame", errShape)
	}
	return reach, nil
}

// touch is the one look at the bounds. It stands where every way into the code comes by.
func (f rebasing) touch(out []byte, reach uint64) []byte {
	out = append(f.get(out), wasm.OpLoad8U, 0)
	return append(wasm.AppendUint(out, reach-1), wasm.OpDrop)
}

// dispatch jumps to the beginning or to one of the resume points from the first up to the end,
// in place of a table: behind a table wazero has forgotten which bounds are known.
func (f rebasing) dispatch(out []byte, first, end, depth int) []byte {
	if first == end-1 {
		return wasm.AppendUint(append(out, wasm.OpBr), uint64(first+depth))
	}
	middle := (first + end) / 2
	if first == 0 {
		middle = 1 // where calls come in
	}
	out = wasm.AppendInt(append(out, wasm.OpLocalGet, localResume, wasm.OpI32Const), f.points[middle])
	out = f.dispatch(append(out, wasm.OpI32LtU, wasm.OpIf, wasm.NoResult), first, middle, depth+1)
	return append(f.dispatch(append(out, wasm.OpElse), middle, end, depth+1), wasm.OpEnd)
}

func (f rebasing) replace(out []byte, e edit) []byte {
	switch e.what {
	case base:
		return f.get(out)
	case pointer:
		return f.pointer(out, e.moved)
	case adjust:
		return append(f.pointer(out, e.moved), wasm.OpGlobalSet, 0)
	case jump:
		return wasm.AppendUint(append(out, wasm.OpBr), uint64(e.moved))
	case again:
		return wasm.AppendUint(append(f.get(out), wasm.OpLocalSet), f.local)
	case otherwise:
		return append(out, wasm.OpElse)
	case access:
		return wasm.AppendUint(wasm.AppendUint(out, uint64(e.align)), e.offset+uint64(f.above(e.moved)))
	}
	return out
}

func (f rebasing) get(out []byte) []byte {
	return wasm.AppendUint(append(out, wasm.OpLocalGet), f.local)
}

func (f rebasing) pointer(out []byte, moved int64) []byte {
	out = f.get(out)
	if above := f.above(moved); above != 0 {
		out = append(wasm.AppendInt(append(out, wasm.OpI32Const), above), wasm.OpI32Add)
	}
	return out
}

// above is a stack pointer's distance to base.
func (f rebasing) above(moved int64) int64 { return moved + f.frame() + returnSize }

// accessSize is how many bytes a load or store moves, in the order of the opcodes.
func accessSize(opcode byte) uint64 {
	const sizes = "4848" + "1122" + "112244" + "4848" + "12124"
	return uint64(sizes[opcode-wasm.OpLoadFirst] - '0')
}
