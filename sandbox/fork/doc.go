// Package fork runs the guest program and makes copies of a running one cheaply.
//
//	Machine   the compiled guest, ready to start; one per process
//	Image     the memory and the globals of a guest at rest: a snapshot in a memfd
//	Instance  a running copy of an image: its memory is a private mapping of the memfd
//
// A wasm instance is nothing but its memory, its globals and its table. The table never
// changes in a guest built by Go, so memory and globals are all there is: a copy of both
// is a fork, and putting back the pages that were written is a reset. Package fork
// rewrites the guest's module for that (no data segments that would overwrite a forked
// memory, globals exported by name) and gives it a world without files, environment,
// clock or chance: the same image and the same answers give the same bytes.
//
// fork doesn't know what the guest computes, who asks for it or how long it may take.
// Not covered: guests whose tables change or that hold passive segments (Rewrite refuses
// them), shared memory, anything but Linux on a machine that wazero compiles for.
package fork
