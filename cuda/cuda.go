// Package cuda is the numeric library of the project: memory and operators of one
// device behind the C interface in whale.h. It is the only package that imports "C"
// (besides the NVML binding).
//
// It knows shapes and floats. It may not know models, tokens, files or schedules; the
// trainer strings its operators together.
//
// Shapes use the alphabet at the head of whale.h: T rows, B sequences, D hidden width,
// I intermediate width, V vocabulary rows, H query heads, K key/value heads, HeadD head
// width (d in whale.h), N and M output and input width of a matrix product (weights are
// [N, M]), P tokens in a cache page.
//
// Forward outputs are overwritten; gradients are added unless the field says otherwise.
// Every output element is computed in one fixed order of operations that depends on its
// own row and the widths only, never on T, on other rows or on the number of threads.
//
// Not covered: precisions below bfloat16 and more than one device in one call. Numbers
// that are not finite are not detected here; they propagate.
package cuda

// The C flags: -std=c11 rather than gnu11 because gcc then never fuses a*b+c on its own; the
// kernels say where they fuse, so that the bits do not depend on the compiler's mood.
// -Wno-psabi: gcc remarks how it would pass a wide vector to a function; all are inlined.

/*
#cgo CFLAGS: -O3 -std=c11 -Wall -Wextra -Wno-psabi -pthread
#cgo LDFLAGS: -lm -lpthread
#include <stdlib.h>
#include "whale.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// Status is the reason a call failed. It is an error, so errors.Is(err, cuda.NoMemory)
// works on everything this package returns.
type Status int

// The values of whale_status.
const (
	NoMemory Status = C.WHALE_NO_MEMORY // the device has no room; nothing was changed
	BadShape Status = C.WHALE_BAD_SHAPE // an argument breaks the contract; nothing was changed
	NoDevice Status = C.WHALE_NO_DEVICE // the kind or instruction set is not available on this machine
	Broken   Status = C.WHALE_BROKEN    // sticky: the device is lost or closed, every later call answers this
)

// Error names the status in words.
func (s Status) Error() string {
	switch s {
	case NoMemory:
		return "no memory"
	case BadShape:
		return "bad shape"
	case NoDevice:
		return "no such device"
	case Broken:
		return "device lost"
	}
	return fmt.Sprintf("status %d", int(s))
}

// Error is the failure of one call on one device.
type Error struct {
	Status Status
	Kind   string // "cpu", "simt", "cuda"
	Op     string // the operator, in lower case: "matmul"
	Text   string // cause, naming the field for BadShape
}

// Error is one line: "device cpu: matmul: x holds 12 floats, needs 16".
func (e *Error) Error() string { return "device " + e.Kind + ": " + e.Op + ": " + e.Text }

// Unwrap returns the status.
func (e *Error) Unwrap() error { return e.Status }

// Device is an open device. Its methods may be called from several goroutines; calls are
// carried out one after the other. The caller closes it.
type Device struct {
	mu   sync.Mutex
	ptr  *C.whale_device // nil once closed
	kind string
	isa  string
}

// Option changes how Open opens a device.
type Option func(*options)

type options struct{ isa, kernels string }

const whyRoom = 256 // bytes for the line that says why Open failed

// WithISA forces an instruction set ("amx", "avx512", "avx2" or "portable" on the CPU; in tests
// "amx-emulated" too) instead
// of the best of the machine, or a way of running the kernels ("reverse", "shuffle",
// "checked", "library" on simt; "own" on cuda, which then multiplies without cuBLASLt; see
// gpu.h). Open answers NoDevice if the machine lacks it.
func WithISA(isa string) Option { return func(o *options) { o.isa = isa } }

// withKernels has simt run a library of its own kernels.
func withKernels(path string) Option { return func(o *options) { o.kernels = path } }

// Open opens the device of a kind that may use the given number of cores, the calling
// thread being one of them. Idle cores are parked. Kinds: "cpu"; "simt", which runs the CUDA
// kernels on the CPU thread by thread and needs g++ the first time; "cuda", an NVIDIA card, whose
// libraries are looked for now and whose kernels are compiled the first time. Errors: NoDevice,
// NoMemory, BadShape (threads < 1).
func Open(kind string, threads int, opts ...Option) (*Device, error) {
	var o options
	for _, f := range opts {
		f(&o)
	}
	if o.kernels == "" {
		var err error
		if o.kernels, err = kernelsFor(kind, o.isa); err != nil {
			return nil, &Error{Status: NoDevice, Kind: kind, Op: "open", Text: err.Error()}
		}
	}
	ckind, cisa, ckernels, why := C.CString(kind), C.CString(o.isa), C.CString(o.kernels), (*C.char)(C.calloc(1, whyRoom))
	defer func() {
		for _, s := range []*C.char{ckind, cisa, ckernels, why} {
			C.free(unsafe.Pointer(s))
		}
	}()
	d := &Device{kind: kind}
	if st := C.whale_open(ckind, C.int(threads), cisa, ckernels, &d.ptr, why, whyRoom); st != C.WHALE_OK {
		text := C.GoString(why)
		if text == "" {
			text = Status(st).Error()
		}
		return nil, &Error{Status: Status(st), Kind: kind, Op: "open", Text: text}
	}
	d.isa = C.GoString(C.whale_isa(d.ptr))
	return d, nil
}

// Close frees the device and its threads. All its memory must have been freed by then;
// later calls answer Broken. Closing twice is harmless.
func (d *Device) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ptr != nil {
		C.whale_close(d.ptr)
		d.ptr = nil
	}
}

// ISA is the instruction set in use: "amx", "avx512", "avx2", "portable", or "simt".
func (d *Device) ISA() string { return d.isa }

// Kind is the kind the device was opened with.
func (d *Device) Kind() string { return d.kind }

// run makes one C call under the device's lock and turns its status into an error.
func (d *Device) run(op string, call func(dev *C.whale_device) C.whale_status) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ptr == nil {
		return &Error{Status: Broken, Kind: d.kind, Op: op, Text: "device is closed"}
	}
	if st := call(d.ptr); st != C.WHALE_OK {
		return &Error{Status: Status(st), Kind: d.kind, Op: op, Text: C.GoString(C.whale_error(d.ptr))}
	}
	return nil
}

// badShape builds the error of an argument that breaks the contract.
func (d *Device) badShape(op, format string, args ...any) error {
	return &Error{Status: BadShape, Kind: d.kind, Op: op, Text: fmt.Sprintf(format, args...)}
}
