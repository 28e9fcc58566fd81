//go:build wasip1

package main

import (
	_ "embed"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// warmup is a program that does what harnesses do. Running it before the first snapshot
// fills the caches that every run would have to fill anew: of reflect for the functions
// that interpreted code calls, of fmt, of the allocator.
//
//go:embed warmup.txt
var warmup string

// warm runs the program twice: caches that grow with use settle.
func warm() {
	l, refusal := interpreter.load("warmup", warmup)
	if l == nil {
		panic("warmup: " + refusal.Reason) // ours: a build that gets here is broken
	}
	for range 2 {
		if end := l.run(abi.Start{Domain: "warmup", Input: "x"}, echo{}); end.Status != abi.OK {
			panic("warmup: " + end.Text)
		}
	}
}

// echo is the host of the warmup.
type echo struct{}

func (echo) Generate(messages []kit.Message, _ kit.Options) ([]kit.Reply, error) {
	return []kit.Reply{{Handle: 1, Text: messages[0].Content, Stop: kit.StopEnd, Tokens: 1}}, nil
}

func (echo) Tool(_, args string) (string, error) { return args, nil }

func (echo) Note(kit.Note) error { return nil }
