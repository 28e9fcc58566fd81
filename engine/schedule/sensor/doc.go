// Package sensor says how the machine is: cards, memory, load and energy, each as a reading
// that is a value, unsupported here, or invalid. It feeds package schedule with advice and
// the ledger with joules.
//
// It may know files of the kernel and the plain structs below; cards are read by package
// nvml beside it. Nothing here decides anything, and nothing here blocks the engine: the
// sampler asks on a goroutine of its own and hands out what it last heard.
//
// Not covered: the energy of memory, disks and fans, which nobody counts; sharing joules
// out among processes on one machine, all of which are in the counters.
package sensor
