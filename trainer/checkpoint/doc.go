// Package checkpoint reads and writes a model as a folder holds it: tensors in
// safetensors files (one, or shards behind model.safetensors.index.json) and
// the shape of the model in config.json.
//
// It knows names, dtypes, shapes and bytes. It may not know devices, gradients
// or how a forward pass uses a tensor. Files are foreign input: every claim of
// a header is checked against the size of the file before anything is
// allocated for it, and a lie is refused by name with ErrFormat. A feature of
// config.json that the trainer does not compute is refused with
// ErrUnsupported.
//
// Reading goes through fs.FS, so a folder, an embedded model, a test's map and
// a GGUF file (see Folder and GGUF) are the same. Writing is write, fsync, rename: a file that has its final
// name is whole.
//
// Not covered: float8 and integer tensors are carried as bytes but not turned
// into floats; writing shards; downloading. Formats: spec/models.md sections
// 0, 2 and 3.
package checkpoint
