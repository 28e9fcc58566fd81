//go:build wasip1

package main

import (
	"runtime/debug"
	"unsafe"

	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// What the guest holds between the calls of the host. All of it is part of a snapshot.
var (
	interpreter = newInterpreter()
	program     *loaded
	room        = make([]byte, 64<<10) // input from the host
	out         []byte                 // output to the host, valid until the next call
	host        = &wall{answer: make([]byte, 32<<10)}
)

const (
	// maxStack ends recursion early, while little memory has been touched. Package worker
	// reports it.
	maxStack = 8 << 20
	// headroom is heap that is there before a run starts: an instance whose memory grew
	// can't be reset.
	headroom = 7 << 20
)

func init() {
	debug.SetMaxStack(maxStack)
	out = make([]byte, headroom)
	out = nil
	play := warmup()
	play()
	settle(play)
}

// main is never called: the guest is a reactor.
func main() {}

//go:wasmexport whale_version
func version() uint32 { return abi.Version }

//go:wasmexport whale_word
func word() unsafe.Pointer { return interpreter.word() }

//go:wasmexport whale_room
func makeRoom(n uint32) unsafe.Pointer {
	if int(n) > cap(room) {
		room = make([]byte, n)
	}
	return unsafe.Pointer(unsafe.SliceData(room))
}

//go:wasmexport whale_load
func load(n uint32) uint64 {
	var refusal abi.Refusal
	program, refusal = interpreter.load("harness", string(room[:n]))
	return give(abi.AppendRefusal(nil, refusal))
}

//go:wasmexport whale_run
func run(n uint32) uint64 {
	start, err := abi.DecodeStart(room[:n])
	if err != nil {
		return give(abi.AppendEnd(nil, abi.End{Status: abi.Error, Text: err.Error()}))
	}
	return give(abi.AppendEnd(nil, program.run(start, host)))
}

func give(b []byte) uint64 {
	out = b
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(out))))<<32 | uint64(len(out))
}
