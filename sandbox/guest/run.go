//go:build wasip1

package main

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// maxText bounds what a failing harness may say about its failure.
const maxText = 4 << 10

// runHarness is one run of a candidate.
func runHarness(main func(*kit.Session) error, start abi.Start, host kit.Host) (end abi.End) {
	defer func() {
		if r := recover(); r != nil {
			end = abi.End{Status: abi.Panic, Text: shorten(describe(r))}
		}
	}()
	s := kit.Start{
		Task:   kit.Task{Domain: start.Domain, Input: start.Input},
		Budget: kit.Budget{Tokens: start.Tokens, Turns: start.Turns, Tools: start.Calls},
	}
	for _, t := range start.Tools {
		s.Tools = append(s.Tools, kit.ToolSpec(t))
	}
	return classify(main(kit.NewSession(s, host)))
}

func classify(err error) abi.End {
	if err == nil {
		return abi.End{}
	}
	text := shorten(describe(err))
	for _, s := range sentinels {
		if wraps(err, s.err) {
			return abi.End{Status: s.status, Text: text}
		}
	}
	return abi.End{Status: abi.Error, Text: text}
}

// wraps is errors.Is for errors that may be interpreted values, on which it panics.
func wraps(err, sentinel error) (is bool) {
	defer func() {
		if recover() != nil {
			is = false
		}
	}()
	return errors.Is(err, sentinel)
}

// describe prints a value of the harness, whose methods may panic again.
func describe(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = "a value that can't be printed: " + reflect.TypeOf(v).String()
		}
	}()
	return fmt.Sprint(v)
}

func shorten(text string) string {
	if len(text) > maxText {
		return text[:maxText] + " ..."
	}
	return text
}
