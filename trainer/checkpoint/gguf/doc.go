// Package gguf reads GGUF files, versions 2 and 3, little-endian: metadata, the
// list of tensors, and tensors as float32 out of their blocks.
//
// It knows the container and the block formats F32, F16, BF16, Q8_0, Q4_0,
// Q4_1, Q4_K and Q6_K. It may not know what a key or a tensor means to a model;
// package checkpoint does. Files are foreign input: every count, length and
// offset is checked against the size of the file before anything is allocated
// for it, and a lie is refused by name with ErrFormat. What is well formed but
// not read here (other block formats, big-endian files, version 1, arrays of
// arrays) is ErrUnsupported.
//
// Not covered: writing, split files, importance-weighted block formats (IQ*).
// Layouts: the format's own description and that of its block types; each is
// written out at its decoder in block.go.
package gguf
