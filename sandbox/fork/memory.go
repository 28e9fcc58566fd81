package fork

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const pageSize = 4096 // checked against the kernel's in OpenMachine

// Image is a guest at rest: the content of its memory, its globals and the state of its
// world. Any number of instances start from it; it never changes.
//
// The memory of an image is a list of pieces, each a part of a memfd. The first image
// has one; later ones are the first one's piece with some of their own laid over it, so
// that a loaded source costs what it wrote and not a whole guest.
type Image struct {
	fd       int     // memfd with the image's own pieces, or -1: instances copy pristine
	pieces   []piece // in the order in which they are mapped
	pristine []byte  // the whole memory, read-only
	globals  []uint64
	world    world
}

// piece is a part of a memory, in bytes, and where in a memfd it is kept. The memfd may
// be another image's, which then must last longer.
type piece struct {
	start, end int
	fd         int
	offset     int64
}

// Size is the memory of an instance at its start, in bytes.
func (i *Image) Size() int { return len(i.pristine) }

// newImage freezes a whole memory. Only pages that are not zero are written, so the memfd
// takes no more space than the guest has touched.
func newImage(content []byte, copying bool) (*Image, error) {
	if copying {
		return &Image{fd: -1, pristine: append([]byte(nil), content...)}, nil
	}
	i, err := emptyImage()
	if err != nil {
		return nil, err
	}
	if err := fill(i.fd, content); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	i.pieces = []piece{{end: len(content), fd: i.fd}}
	return i.finish(len(content))
}

// newLayer freezes a memory that began as another image, of which it keeps what was not
// written. Written pages less than mergeGap apart become one piece: every piece costs a
// mapping per instance.
func newLayer(content []byte, under *Image, written []pageRange) (*Image, error) {
	const mergeGap = 32 * pageSize
	i, err := emptyImage()
	if err != nil {
		return nil, err
	}
	i.pieces = append(i.pieces, under.pieces...)
	base, at := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(content)))), int64(0)
	first := len(i.pieces)
	for _, w := range written {
		p := piece{start: int(w.start - base), end: int(w.end - base), fd: i.fd}
		if last := len(i.pieces) - 1; last >= first && p.start-i.pieces[last].end < mergeGap {
			i.pieces[last].end = p.end
		} else {
			i.pieces = append(i.pieces, p)
		}
	}
	if under.Size() < len(content) {
		i.pieces = append(i.pieces, piece{start: under.Size(), end: len(content), fd: i.fd})
	}
	for n := first; n < len(i.pieces); n++ {
		p := &i.pieces[n]
		p.offset = at
		if err := writeAll(i.fd, content[p.start:p.end], at); err != nil {
			return nil, errors.Join(err, i.Close())
		}
		at += int64(p.end - p.start)
	}
	return i.finish(len(content))
}

func emptyImage() (*Image, error) {
	fd, err := unix.MemfdCreate("whale-image", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	return &Image{fd: fd}, nil
}

// finish maps the image's own view of its pieces.
func (i *Image) finish(size int) (*Image, error) {
	view, err := unix.Mmap(-1, 0, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mmap image: %w", err), i.Close())
	}
	i.pristine = view
	if err := i.mapTo(view, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// mapTo maps the pieces over a region.
func (i *Image) mapTo(region []byte, access, sharing int) error {
	for _, p := range i.pieces {
		_, err := unix.MmapPtr(p.fd, p.offset, unsafe.Pointer(&region[p.start]), uintptr(p.end-p.start),
			access, sharing|unix.MAP_FIXED|unix.MAP_NORESERVE)
		if err != nil {
			return fmt.Errorf("map image: %w", err)
		}
	}
	return nil
}

func fill(fd int, content []byte) error {
	if err := unix.Ftruncate(fd, int64(len(content))); err != nil {
		return fmt.Errorf("ftruncate: %w", err)
	}
	for at := 0; at < len(content); {
		end := at
		for end < len(content) && !zero(content[end:end+pageSize]) {
			end += pageSize
		}
		if err := writeAll(fd, content[at:end], int64(at)); err != nil {
			return err
		}
		at = end + pageSize
	}
	return nil
}

func writeAll(fd int, content []byte, offset int64) error {
	for len(content) > 0 {
		n, err := unix.Pwrite(fd, content, offset)
		if err != nil {
			return fmt.Errorf("write image: %w", err)
		}
		content, offset = content[n:], offset+int64(n)
	}
	return nil
}

// zero looks at a whole page, eight bytes at a time.
func zero(page []byte) bool {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(page))), len(page)/8)
	for _, w := range words {
		if w != 0 {
			return false
		}
	}
	return true
}

// Close frees the image. No instance of it may be in use any more.
func (i *Image) Close() error {
	if i.fd < 0 {
		i.pristine = nil
		return nil
	}
	err := unix.Close(i.fd)
	if i.pristine != nil {
		err = errors.Join(err, unix.Munmap(i.pristine))
	}
	return err
}

// memory is the linear memory of one instance: max bytes of address space, of which the
// first size are usable. It implements experimental.LinearMemory; it never moves.
type memory struct {
	region  []byte // max bytes; inaccessible behind size
	image   *Image // what the first bytes are a private copy of; nil = zeros
	size    int
	refused int // the size asked for when a growth was refused, 0 = none was

	// What the last look at the page tables found, and the thread's faults before it.
	written []pageRange
	faults  int64 // 0 = never looked, or faults can't be counted
}

// reserve takes address space without memory behind it.
func reserve(max int, image *Image) (*memory, error) {
	region, err := unix.Mmap(-1, 0, max, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes: %w", max, err)
	}
	m := &memory{region: region, image: image}
	if image == nil {
		return m, nil
	}
	if image.fd < 0 {
		if m.Reallocate(uint64(image.Size())) == nil {
			return nil, errors.Join(errors.New("commit memory of an instance"), unix.Munmap(region))
		}
		copy(m.region, image.pristine)
		return m, nil
	}
	if err := image.mapTo(region, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE); err != nil {
		return nil, errors.Join(err, unix.Munmap(region))
	}
	m.size = image.Size()
	return m, nil
}

// become gives the memory the content of another image of its size, and no page of its own.
func (m *memory) become(image *Image) error {
	m.image, m.written, m.faults = image, m.written[:0], 0
	return image.mapTo(m.region, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
}

// Reallocate implements experimental.LinearMemory. It gives at least size bytes, or
// nil when that is more than the guest may have.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.region)) {
		m.refused = int(size)
		return nil
	}
	if n := int(size); n > m.size {
		if unix.Mprotect(m.region[m.size:n], unix.PROT_READ|unix.PROT_WRITE) != nil {
			m.refused = n
			return nil
		}
		m.size = n
	}
	return m.region[:m.size:m.size]
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() {
	if m.region != nil {
		// The mapping is ours and whole: munmap can't fail on it.
		_ = unix.Munmap(m.region)
		m.region = nil
	}
}

// restore puts back the pages that were written since the start and says how many they
// were.
func (m *memory) restore(find *dirtyPages) (pages int, err error) {
	size := m.image.Size()
	if find == nil || m.image.fd < 0 {
		copy(m.region[:size], m.image.pristine)
		return size / pageSize, nil
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(m.region)))
	// A page becomes the instance's own by a fault, and stays it: without a fault since
	// the last look there is nothing new to see.
	if faults := find.faults(); faults == 0 || faults != m.faults {
		ranges, err := find.in(base, base+uintptr(size))
		if err != nil {
			return 0, err
		}
		m.written, m.faults = append(m.written[:0], ranges...), faults
	}
	for _, r := range m.written {
		from, to := r.start-uint64(base), r.end-uint64(base)
		copy(m.region[from:to], m.image.pristine[from:to])
		pages += int(to-from) / pageSize
	}
	return pages, nil
}
