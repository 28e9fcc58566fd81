// Package frames rewrites WebAssembly that Go's compiler made so that it runs faster: the
// variables of a function are addressed from one base, which the function computes once and
// whose bounds are looked at once.
//
// Go keeps its stack in linear memory and its stack pointer in global 0, which a function
// reads anew after every call and changes before one. To the compiler of wazero each such
// reading is another value, so each access to a variable after it is held against the size of
// the memory again, in six instructions and fifty bytes. But a function's frame stays where
// it is (cmd/compile/internal/wasm/ssa.go: a callee pops its own return address; when stacks
// are switched or moved, every function returns 1 and is entered anew). So
//
//	base = SP on entry - size of the frame - 8       at the beginning of the frame: block 0
//	base = SP on entry - 8                           at a resume point
//
// holds until the function returns, and every access has a constant distance to it.
//
// A function that does not look like that is left as it is. Nothing here is trusted: wazero
// checks what comes out as it checks everything, so a mistake could confuse a guest, but
// leads nowhere out of its memory.
//
// frames doesn't know what the module is for. Not covered: other compilers' modules, which
// pass through.
package frames

// Version changes whenever Rebase writes something else.
const Version = 1
