// Package wasmtest makes pieces of WebAssembly modules, for tests that write one by hand.
package wasmtest

import (
	"bytes"

	"github.com/seed-7c27e6b8/whale/sandbox/wasm"
)

// Section is a section with its number and length.
func Section(id byte, parts ...[]byte) []byte {
	return wasm.AppendBytes([]byte{id}, bytes.Join(parts, nil))
}

// Vector is items with their number in front.
func Vector(items ...[]byte) []byte {
	return append(wasm.AppendUint(nil, len(items)), bytes.Join(items, nil)...)
}

// Name is a text with its length.
func Name(s string) []byte { return wasm.AppendBytes(nil, []byte(s)) }

// Export is an entry of the section of exports.
func Export(s string, kind, index byte) []byte { return append(Name(s), kind, index) }

// Code is a function's body without locals, its end added.
func Code(instructions ...byte) []byte {
	return wasm.AppendBytes(nil, append(append([]byte{0}, instructions...), wasm.OpEnd))
}
