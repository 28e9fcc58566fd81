package fork

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/tetratelabs/wazero/api"
)

// Host answers what a guest asks while it runs. The request is only valid during the
// call. An error ends the guest's call: Instance.Call returns it, wrapped.
type Host interface {
	Answer(request []byte) ([]byte, error)
}

// Why a guest's call ended without a result, apart from an error of the Host.
var (
	// ErrMemory: the guest asked for more memory than it may have and died of it.
	ErrMemory = errors.New("guest out of memory")
	// ErrStack: the guest recursed beyond its stack.
	ErrStack = errors.New("guest out of stack")
	// ErrDied: the guest ended itself or trapped.
	ErrDied = errors.New("guest died")
)

// Instance is a running guest. After a Call that returned an error it must be closed.
type Instance struct {
	machine   *Machine
	mod       api.Module
	memory    *memory
	image     *Image
	ctx       *callContext
	functions map[string]api.Function
	globals   []api.MutableGlobal
	world     world
	stack     [4]uint64 // arguments and result of the current call

	// Host answers the guest's requests during a Call.
	Host Host

	answer []byte // the answer that did not fit the guest's buffer, until it takes it
	words  []byte // what the guest wrote to its standard error
	failed error  // the Host's error that ended the current call
	broken bool   // a call has ended with an error
}

// Call runs an exported function of at most one result.
func (i *Instance) Call(name string, args ...uint64) (result uint64, err error) {
	f := i.functions[name]
	if f == nil {
		if f = i.mod.ExportedFunction(name); f == nil {
			return 0, fmt.Errorf("%w: exports no %s", ErrModule, name)
		}
		i.functions[name] = f
	}
	clear(i.stack[copy(i.stack[:], args):])
	if err := f.CallWithStack(i.ctx, i.stack[:]); err != nil {
		return 0, i.death(err)
	}
	return i.stack[0], nil
}

// death says why a call ended; cause is what the wasm runtime made of it.
func (i *Instance) death(cause error) error {
	i.broken = true
	if i.failed != nil {
		return i.failed
	}
	if i.memory.refused > 0 {
		return ErrMemory
	}
	// The Go runtime says why it exits; wasm itself traps, and below the first line of
	// that error comes a trace.
	trap, _, _ := strings.Cut(cause.Error(), "\n")
	said, _, _ := strings.Cut(string(i.words), "\n")
	// Go checks bounds itself, so an address outside is a stack of frames too small for the
	// runtime to check, grown below zero.
	if strings.Contains(string(i.words), "stack overflow") || strings.Contains(trap, "stack overflow") ||
		strings.Contains(trap, "out of bounds memory access") {
		return ErrStack
	}
	if said == "" {
		said = trap
	}
	return fmt.Errorf("%w: %s", ErrDied, said)
}

// Bytes is a part of the guest's memory, valid until the next call; ok is false when the
// guest has no such memory.
func (i *Instance) Bytes(at, size uint32) (b []byte, ok bool) { return i.mod.Memory().Read(at, size) }

// Word is the eight-byte word at an address in the guest's memory, which may be written
// while the guest runs; nil when there is none. It is valid until Close.
func (i *Instance) Word(at uint32) *atomic.Uint64 {
	b, ok := i.Bytes(at, 8)
	if !ok || at%8 != 0 {
		return nil
	}
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(b)))
}

// Size is the instance's memory in bytes.
func (i *Instance) Size() int { return i.memory.size }

// Refused is the size in bytes of the memory that the guest was last refused.
func (i *Instance) Refused() int { return i.memory.refused }

// Snapshot makes an image of a guest that is not in a call. It must be closed before the
// machine is.
func (i *Instance) Snapshot() (*Image, error) {
	image, err := i.freeze()
	if err != nil {
		return nil, err
	}
	for _, g := range i.globals {
		image.globals = append(image.globals, g.Get())
	}
	image.world = i.world
	return image, nil
}

// freeze copies the memory, or only what was written since the machine's first image.
func (i *Instance) freeze() (*Image, error) {
	content, find := i.memory.region[:i.memory.size], i.machine.dirty
	if find == nil || i.image == nil || i.image != i.machine.base || i.image.fd < 0 {
		return newImage(content, i.machine.config.Copying)
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(content)))
	written, err := find.in(base, base+uintptr(i.image.Size()))
	if err != nil {
		return nil, err
	}
	return newLayer(content, i.image, written)
}

// Reset puts the instance back to its image and says how many pages were written since.
// It reports false when that can't be done, because the memory grew: then the instance
// must be closed.
func (i *Instance) Reset() (pages int, ok bool, err error) {
	if i.memory.size != i.image.Size() || i.memory.refused > 0 {
		return 0, false, nil
	}
	if pages, err = i.memory.restore(i.machine.dirty); err != nil {
		return 0, false, err
	}
	i.putGlobals()
	return pages, true, nil
}

// putGlobals restores everything that isn't memory.
func (i *Instance) putGlobals() {
	for n, g := range i.globals {
		g.Set(i.image.globals[n])
	}
	i.world = i.image.world
	i.answer, i.words, i.failed = nil, i.words[:0], nil
}

// Close ends the use of the instance. The machine keeps a sound one for a later fork,
// without anything of its memory.
func (i *Instance) Close() error {
	m := i.machine
	if i.broken || i.memory.refused > 0 || m.base == nil || m.base.fd < 0 || i.memory.size != m.base.Size() || len(m.spare) == maxSpare {
		return i.end()
	}
	if err := i.become(m.base); err != nil {
		return errors.Join(err, i.end())
	}
	m.spare = append(m.spare, i)
	return nil
}

// become makes the instance a fresh one of another image of the same size.
func (i *Instance) become(image *Image) error {
	if err := i.memory.become(image); err != nil {
		return err
	}
	i.image, i.Host = image, nil
	i.putGlobals()
	return nil
}

// end frees the instance.
func (i *Instance) end() error { return i.mod.Close(i.ctx) }

// hostCall: (request, length, buffer, capacity) -> length of the answer. An answer that
// fits the buffer is there already; otherwise the guest takes it.
func hostCall(i *Instance, stack []uint64) {
	request, ok := i.mod.Memory().Read(uint32(stack[0]), uint32(stack[1]))
	if !ok || i.Host == nil {
		i.fail(fmt.Errorf("%w: request outside of its memory", ErrDied))
	}
	answer, err := i.Host.Answer(request)
	if err != nil {
		i.fail(err)
	}
	if len(answer) > int(uint32(stack[3])) {
		i.answer = answer
	} else if !i.mod.Memory().Write(uint32(stack[2]), answer) {
		i.fail(fmt.Errorf("%w: buffer outside of its memory", ErrDied))
	}
	stack[0] = uint64(len(answer))
}

// hostTake: (buffer, length).
func hostTake(i *Instance, stack []uint64) {
	if int(uint32(stack[1])) != len(i.answer) || !i.mod.Memory().Write(uint32(stack[0]), i.answer) {
		i.fail(fmt.Errorf("%w: takes an answer that isn't there", ErrDied))
	}
	i.answer = nil
}

// fail ends the guest's call with an error.
func (i *Instance) fail(err error) {
	i.failed = err
	panic(exit{})
}
