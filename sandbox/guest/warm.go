//go:build wasip1

package main

import (
	_ "embed"

	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// warmupSource is a program that does what harnesses do. Running it before the first snapshot
// fills the caches that every run would have to fill anew: of reflect for the functions
// that interpreted code calls, of fmt, of the allocator.
//
//go:embed warmup.txt
var warmupSource string

// warmup loads the program and gives what runs it.
func warmup() (play func()) {
	l, refusal := interpreter.load("warmup", warmupSource)
	if l == nil {
		panic("warmup: " + refusal.Reason) // ours: a build that gets here is broken
	}
	return func() {
		if end := l.run(abi.Start{Domain: "warmup", Input: "x"}, echo{}); end.Status != abi.OK {
			panic("warmup: " + end.Text)
		}
	}
}
