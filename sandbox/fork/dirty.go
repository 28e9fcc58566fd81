package fork

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dirtyPages asks the kernel which pages of a private file mapping were written: those
// that are there and no longer the file's. It belongs to one reset at a time.
type dirtyPages struct {
	fd      int // /proc/self/pagemap
	scans   bool
	counts  bool   // faults of the thread tell whether anything was written
	entries []byte // room for reading pagemap
	ranges  []pageRange
}

// pageRange is the kernel's struct page_region: addresses, end excluded.
type pageRange struct{ start, end, categories uint64 }

// openDirtyPages fails when /proc/self/pagemap can't be read. The PAGEMAP_SCAN call came
// with Linux 6.7; without it the table itself is read, which takes longer.
func openDirtyPages() (*dirtyPages, error) {
	fd, err := unix.Open("/proc/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	d := &dirtyPages{fd: fd, ranges: make([]pageRange, 256)}
	var probe [2 * pageSize]byte
	at := (uintptr(unsafe.Pointer(&probe[0])) + pageSize - 1) &^ (pageSize - 1)
	_, err = d.scan(at, at+pageSize)
	runtime.KeepAlive(&probe)
	d.scans = err == nil
	return d, nil
}

// faults is how many page faults the calling thread had, which grows with every page that
// it writes for the first time; 0 = nobody knows.
func (d *dirtyPages) faults() int64 {
	var use unix.Rusage
	if !d.counts || unix.Getrusage(unix.RUSAGE_THREAD, &use) != nil {
		return 0
	}
	return use.Minflt + use.Majflt
}

func (d *dirtyPages) close() error { return unix.Close(d.fd) }

// in lists the written pages between two page addresses. The list is valid until the next
// call.
func (d *dirtyPages) in(start, end uintptr) ([]pageRange, error) {
	if d.scans {
		return d.scan(start, end)
	}
	return d.read(start, end)
}

// Categories of PAGEMAP_SCAN and its number (Linux, include/uapi/linux/fs.h).
const (
	scanFile    = 1 << 2
	scanPresent = 1 << 3
	scanSwapped = 1 << 4
	pagemapScan = 0xc0606610
)

// scanOrder is the kernel's struct pm_scan_arg.
type scanOrder struct {
	size, flags, start, end, walkEnd uint64
	ranges                           unsafe.Pointer
	rangesLen, maxPages              uint64
	inverted, all, any, report       uint64
}

func (d *dirtyPages) scan(start, end uintptr) ([]pageRange, error) {
	order := scanOrder{start: uint64(start), end: uint64(end), inverted: scanFile, all: scanFile,
		any: scanPresent | scanSwapped, report: scanPresent}
	order.size = uint64(unsafe.Sizeof(order))
	for used := 0; ; {
		order.ranges, order.rangesLen = unsafe.Pointer(&d.ranges[used]), uint64(len(d.ranges)-used)
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd), pagemapScan, uintptr(unsafe.Pointer(&order)))
		if errno != 0 {
			return nil, fmt.Errorf("scan pagemap: %w", errno)
		}
		used += int(n)
		if order.walkEnd >= order.end {
			return d.ranges[:used], nil
		}
		d.ranges = append(d.ranges, make([]pageRange, len(d.ranges))...)
		order.start = order.walkEnd
	}
}

// Bits of an entry of /proc/self/pagemap.
const (
	entryPresent = 1 << 63
	entrySwapped = 1 << 62
	entryShared  = 1 << 61 // still the file's
)

func (d *dirtyPages) read(start, end uintptr) ([]pageRange, error) {
	size := int(end-start) / pageSize * 8
	if cap(d.entries) < size {
		d.entries = make([]byte, size)
	}
	entries := d.entries[:size]
	if n, err := unix.Pread(d.fd, entries, int64(start/pageSize*8)); err != nil || n != size {
		return nil, fmt.Errorf("read pagemap: %d of %d bytes: %w", n, size, err)
	}
	d.ranges = d.ranges[:0]
	for i := 0; i < size; i += 8 {
		e := binary.LittleEndian.Uint64(entries[i:])
		if e&(entryPresent|entrySwapped) == 0 || e&entryShared != 0 {
			continue
		}
		at := uint64(start) + uint64(i/8*pageSize)
		if n := len(d.ranges); n > 0 && d.ranges[n-1].end == at {
			d.ranges[n-1].end += pageSize
		} else {
			d.ranges = append(d.ranges, pageRange{start: at, end: at + pageSize})
		}
	}
	return d.ranges, nil
}
