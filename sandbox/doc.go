// Package sandbox runs candidate harnesses: Go source that nobody has looked at, written
// by a language model. It implements engine.Sandbox.
//
//	box, err := sandbox.Open(ctx, sandbox.Config{})
//	program, err := box.Load(ctx, engine.NewHarness(source, engine.Meta{}))
//	use, err := program.Run(ctx, start, host)
//
// A source is lowered and checked (package vet), then interpreted by yaegi inside
// WebAssembly (package guest), or compiled to WebAssembly where the interpreter would get
// it wrong and there is a Go toolchain (package compile). It runs in worker processes
// (package worker); every run starts from the same snapshot of the loaded source (package
// fork), so nothing passes from one rollout to the next. The host's methods are called in
// this process.
//
// main must call WorkerMain before anything else, and so must TestMain of every test that
// opens a sandbox: workers are this binary, started again.
//
// # What is covered
//
// Files, network, environment, clock, processes, other sessions' memory: the guest has no
// way to name them. Time, memory, stack, host calls and bytes sent have limits that end
// the run as *engine.LimitError. What can't be interrupted is killed with its worker; runs
// that were on the same worker come back as a fault of the host (*engine.Failure) and may
// be tried again.
//
// # What is not covered
//
// A hole in wazero's compiler would give a guest the rights of a worker process: no
// descriptors but its socket, no capabilities, and, where the kernel has Landlock and
// seccomp, no files, programs, network, signals or new code; Level says what holds. It
// could still read and forge what other sessions on the same worker do. Guest and host
// share caches and cores: timing between rollouts is not hidden. What a harness does with
// the engine's answers (wasting its budget, say) is the engine's to judge. Linux only.
package sandbox
