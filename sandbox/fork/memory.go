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
type Image struct {
	fd       int    // memfd with the memory, or -1: instances then copy
	pristine []byte // the same bytes, read-only
	globals  []uint64
	world    world
}

// Size is the memory of an instance at its start, in bytes.
func (i *Image) Size() int { return len(i.pristine) }

// newImage freezes a memory. Only the pages that are not zero are written, so a memfd
// takes no more space than the guest has touched.
func newImage(content []byte, copying bool) (*Image, error) {
	if copying {
		return &Image{fd: -1, pristine: append([]byte(nil), content...)}, nil
	}
	fd, err := unix.MemfdCreate("whale-image", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	if err := fill(fd, content); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	pristine, err := unix.Mmap(fd, 0, len(content), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mmap image: %w", err), unix.Close(fd))
	}
	return &Image{fd: fd, pristine: pristine}, nil
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
		for start := at; start < end; {
			n, err := unix.Pwrite(fd, content[start:end], int64(start))
			if err != nil {
				return fmt.Errorf("write image: %w", err)
			}
			start += n
		}
		at = end + pageSize
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
	return errors.Join(unix.Munmap(i.pristine), unix.Close(i.fd))
}

// memory is the linear memory of one instance: max bytes of address space, of which the
// first size are usable. It implements experimental.LinearMemory; it never moves.
type memory struct {
	region  []byte // max bytes; inaccessible behind size
	image   *Image // what the first bytes are a private copy of; nil = zeros
	size    int
	refused int // the size asked for when a growth was refused, 0 = none was
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
	_, err = unix.MmapPtr(image.fd, 0, unsafe.Pointer(unsafe.SliceData(region)), uintptr(image.Size()),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map image: %w", err), unix.Munmap(region))
	}
	m.size = image.Size()
	return m, nil
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
	ranges, err := find.in(base, base+uintptr(size))
	for _, r := range ranges {
		from, to := r.start-uint64(base), r.end-uint64(base)
		copy(m.region[from:to], m.image.pristine[from:to])
		pages += int(to-from) / pageSize
	}
	return pages, err
}
