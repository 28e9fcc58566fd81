//go:build wasip1

// Guest is the program inside the wall: the yaegi interpreter, the packages that a
// harness may import and a kit.Host whose calls leave through one imported function. It
// is built for wasip1 as a reactor (see package image) and only ever run by package
// fork.
//
// What the host sees of it:
//
//	whale_version() u32          abi.Version of its build
//	whale_room(n) ptr            n bytes for the next input
//	whale_load(n) ptr<<32|len    evaluates the source in the room; gives a Refusal
//	whale_run(n) ptr<<32|len     runs it with the Start in the room; gives an End
//	whale_word() ptr             the interpreter's run id: 8 bytes, and writing another
//	                             value there ends interpreted code at its next step
//
// and what it asks of the host: whale.call(request, answer buffer) and whale.take for
// answers that did not fit the buffer.
//
// It doesn't defend itself: limits, time and everything that a hostile source might try
// are the host's business, which throws the whole memory away after every run.
package main
