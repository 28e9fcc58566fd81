//go:build wasip1

package main

import (
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// softMemory is where the collector begins to work. A rollout ends long before that,
// and its garbage goes away with its memory.
const softMemory = 48 << 20

// settle brings the Go runtime to rest before a snapshot, so that every run begins with a
// stack that need not grow and with room in the allocator's current spans: both would be
// made anew in each run, and written memory has to be restored after it. play is what runs
// will do, without its effects: it fills caches and pools, which the collector empties.
func settle(play func()) {
	runtime.GC()
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(softMemory)
	play()
	deep(64 << 10)
	refill()
}

// refill gives the allocator a new span of each class, of which eight objects, or a quarter, are
// used. A span of small objects with pointers ends with the map of these: there half is used, so
// that a run's objects are on the page of the map, and one page is written for both.
func refill() {
	for _, size := range sizes {
		some := min(8*size, spanSize/4+1)
		fresh(size, some, func() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(make([]byte, size)))) })
		words, used := size/8, spanSize/2+1
		if size > largestWithoutHeader {
			words, used = words-1, some
		}
		fresh(size, used, func() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(make([]*byte, words)))) })
	}
}

// sizes are the allocator's classes of small objects in bytes (Go 1.26,
// internal/runtime/gc/sizeclasses.go). Where they are not, a run allocates a little slower.
var sizes = []int{8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384, 416, 448,
	480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048}

// spanSize is the size in bytes of most spans.
const spanSize = 8 << 10

// largestWithoutHeader: larger objects with pointers begin with a word of the allocator's.
const largestWithoutHeader = 512

// fresh allocates until objects have come one after the other from the beginning of a span and
// use that many bytes of it.
func fresh(size, used int, allocate func() uintptr) {
	const most = 4096
	fromStart, last := false, uintptr(0)
	for n := 0; n < most; n++ {
		at := allocate()
		fromStart = at%spanSize < 16 || fromStart && at == last+uintptr(size)
		if last = at; fromStart && int(at%spanSize)+size >= used {
			return
		}
	}
}

// deep uses about that many bytes of stack.
//
//go:noinline
func deep(bytes int) byte {
	var frame [1 << 10]byte
	if bytes <= 0 {
		return frame[0]
	}
	frame[bytes%len(frame)] = deep(bytes - len(frame))
	return frame[bytes&7]
}

// echo is the host of what is played before the first run.
type echo struct{}

func (echo) Generate(messages []kit.Message, _ kit.Options) ([]kit.Reply, error) {
	return []kit.Reply{{Handle: 1, Text: messages[0].Content, Stop: kit.StopEnd, Tokens: 1}}, nil
}

func (echo) Tool(_, args string) (string, error) { return args, nil }

func (echo) Note(kit.Note) error { return nil }
