// Package wasm reads and writes WebAssembly modules as far as those need it that rewrite
// them: sections, numbers, the instructions that Go's compiler writes (core specification,
// chapter 5).
//
// It checks form, not types: what comes out of a rewrite is validated by whoever runs it. It
// doesn't know what a module is for. Not covered: SIMD, threads, exceptions, memories of 64 bits.
package wasm
