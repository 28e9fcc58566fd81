package cuda

/*
#include "whale.h"
*/
import "C"

import "unsafe"

// Floats is a range of float32 in device memory. The zero value holds nothing and stands
// for NULL where an operator allows it. Copies share the memory.
type Floats struct{ memory }

// Ints is a range of int32 in device memory. Copies share the memory.
type Ints struct{ memory }

// memory is n four-byte elements at p. Slices are views; only the range that
// Device.Floats or Device.Ints returned is an owner and may be freed.
type memory struct {
	dev   *Device
	p     unsafe.Pointer
	n     int
	owner bool
}

const elem = 4 // bytes of a float32 and of an int32

// Floats reserves n zeroed floats. The caller frees them. Errors: NoMemory, BadShape (n < 0), Broken.
func (d *Device) Floats(n int) (Floats, error) {
	m, err := d.reserve(n, func(dev *C.whale_device, p *unsafe.Pointer) C.whale_status {
		return C.whale_alloc(dev, C.size_t(n)*elem, p)
	})
	return Floats{m}, err
}

// Ints reserves n zeroed int32. The caller frees them. Errors: NoMemory, BadShape (n < 0), Broken.
func (d *Device) Ints(n int) (Ints, error) {
	m, err := d.reserve(n, func(dev *C.whale_device, p *unsafe.Pointer) C.whale_status {
		return C.whale_alloc_indices(dev, C.size_t(n), (**C.int32_t)(unsafe.Pointer(p)))
	})
	return Ints{m}, err
}

func (d *Device) reserve(n int, alloc func(*C.whale_device, *unsafe.Pointer) C.whale_status) (memory, error) {
	if n < 0 {
		return memory{}, d.badShape("alloc", "%d elements", n)
	}
	var p unsafe.Pointer
	err := d.run("alloc", func(dev *C.whale_device) C.whale_status {
		return alloc(dev, &p)
	})
	if err != nil {
		return memory{}, err
	}
	return memory{dev: d, p: p, n: n, owner: true}, nil
}

// Len is the number of elements.
func (m memory) Len() int { return m.n }

// IsNil reports whether this is the zero value, which stands for NULL.
func (m memory) IsNil() bool { return m.p == nil }

// Free gives the memory back; no view of it may be used afterwards. Freeing the zero
// value, or memory of a closed device, does nothing. Freeing a view panics: it is a
// mistake in the program.
func (m memory) Free() {
	if m.p == nil {
		return
	}
	if !m.owner {
		panic("BUG: cuda: Free of a slice; free the range it was cut from")
	}
	m.dev.mu.Lock()
	defer m.dev.mu.Unlock()
	if m.dev.ptr != nil {
		C.whale_free(m.dev.ptr, m.p)
	}
}

func (m memory) slice(i, j int) memory {
	if i < 0 || j < i || j > m.n {
		panic("BUG: cuda: slice bounds out of range")
	}
	if m.p == nil {
		return memory{}
	}
	return memory{dev: m.dev, p: unsafe.Add(m.p, i*elem), n: j - i}
}

// Slice is the view of elements [i, j). It panics like a Go slice expression when out of range.
func (x Floats) Slice(i, j int) Floats { return Floats{x.slice(i, j)} }

// Slice is the view of elements [i, j). It panics like a Go slice expression when out of range.
func (x Ints) Slice(i, j int) Ints { return Ints{x.slice(i, j)} }

func (m memory) upload(src unsafe.Pointer, n int) error {
	if n == 0 {
		return nil
	}
	if m.p == nil || n > m.n {
		return (&Device{kind: m.kind()}).badShape("upload", "%d elements into %d", n, m.n)
	}
	return m.dev.run("upload", func(dev *C.whale_device) C.whale_status {
		return C.whale_upload(dev, m.p, src, C.size_t(n)*elem)
	})
}

func (m memory) download(dst unsafe.Pointer, n int) error {
	if n == 0 {
		return nil
	}
	if m.p == nil || n > m.n {
		return (&Device{kind: m.kind()}).badShape("download", "%d elements from %d", n, m.n)
	}
	return m.dev.run("download", func(dev *C.whale_device) C.whale_status {
		return C.whale_download(dev, dst, m.p, C.size_t(n)*elem)
	})
}

func (m memory) kind() string {
	if m.dev == nil {
		return "none"
	}
	return m.dev.kind
}

// Upload copies src to the first len(src) elements. Errors: BadShape if src is longer, Broken.
func (x Floats) Upload(src []float32) error {
	return x.upload(unsafe.Pointer(unsafe.SliceData(src)), len(src))
}

// Download copies the first len(dst) elements to dst. Errors: BadShape if dst is longer, Broken.
func (x Floats) Download(dst []float32) error {
	return x.download(unsafe.Pointer(unsafe.SliceData(dst)), len(dst))
}

// Upload copies src to the first len(src) elements. Errors: BadShape if src is longer, Broken.
func (x Ints) Upload(src []int32) error {
	return x.upload(unsafe.Pointer(unsafe.SliceData(src)), len(src))
}

// Download copies the first len(dst) elements to dst. Errors: BadShape if dst is longer, Broken.
func (x Ints) Download(dst []int32) error {
	return x.download(unsafe.Pointer(unsafe.SliceData(dst)), len(dst))
}

// Copy copies the first src.Len() elements of src to dst, on the device. The ranges may
// not overlap. Errors: BadShape if dst is shorter, Broken.
func (d *Device) Copy(dst, src Floats) error {
	if dst.n < src.n {
		return d.badShape("copy", "%d floats into %d", src.n, dst.n)
	}
	return d.run("copy", func(dev *C.whale_device) C.whale_status {
		return C.whale_copy(dev, dst.p, src.p, C.size_t(src.n)*elem)
	})
}

func (x Floats) c() *C.float { return (*C.float)(x.p) }
func (x Ints) c() *C.int32_t { return (*C.int32_t)(x.p) }
