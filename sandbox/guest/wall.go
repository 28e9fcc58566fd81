//go:build wasip1

package main

import (
	"fmt"
	"unsafe"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// wall is the kit.Host of a harness inside the sandbox.
type wall struct {
	request, answer []byte
}

// Generate implements kit.Host.
func (w *wall) Generate(messages []kit.Message, options kit.Options) ([]kit.Reply, error) {
	r := abi.Request{Kind: abi.Generate, Samples: options.Samples, MaxTokens: options.MaxTokens, Tools: options.Tools}
	r.Messages = make([]abi.Message, len(messages))
	for i, m := range messages {
		r.Messages[i] = abi.Message(m)
	}
	answer, err := w.ask(r)
	if err != nil {
		return nil, err
	}
	replies := make([]kit.Reply, len(answer.Replies))
	for i, a := range answer.Replies {
		replies[i] = kit.Reply{Handle: a.Handle, Text: a.Text, Stop: a.Stop, Tokens: a.Tokens}
	}
	return replies, nil
}

// Tool implements kit.Host.
func (w *wall) Tool(name, args string) (string, error) {
	answer, err := w.ask(abi.Request{Kind: abi.Tool, Name: name, Args: args})
	return answer.Text, err
}

// Note implements kit.Host.
func (w *wall) Note(n kit.Note) error {
	_, err := w.ask(abi.Request{Kind: abi.Note, Log: n.Log, Submit: n.Submit})
	return err
}

// ask turns the statuses that a harness may meet into the kit's sentinels. The host
// gives no others: after a fault of its own it doesn't come back at all.
func (w *wall) ask(r abi.Request) (abi.Answer, error) {
	answer, err := w.call(r)
	if err != nil {
		return abi.Answer{}, err
	}
	for _, s := range sentinels {
		if answer.Status == s.status {
			return abi.Answer{}, explain(s.err, answer.Text)
		}
	}
	return answer, nil
}

func explain(sentinel error, text string) error {
	if text == "" {
		return sentinel
	}
	return fmt.Errorf("%w: %s", sentinel, text)
}

var sentinels = []struct {
	status abi.Status
	err    error
}{{abi.Budget, kit.ErrBudget}, {abi.BadTool, kit.ErrTool}, {abi.BadContext, kit.ErrContext}}

//go:wasmimport whale call
func hostCall(request unsafe.Pointer, requestLen uint32, answer unsafe.Pointer, answerCap uint32) uint32

//go:wasmimport whale take
func hostTake(answer unsafe.Pointer, answerLen uint32)

// call sends one request to the host and waits for its answer. The buffers are kept for
// the next call: a decoder copies what it keeps.
func (w *wall) call(r abi.Request) (abi.Answer, error) {
	w.request = abi.AppendRequest(w.request[:0], r)
	n := hostCall(unsafe.Pointer(unsafe.SliceData(w.request)), uint32(len(w.request)),
		unsafe.Pointer(unsafe.SliceData(w.answer)), uint32(len(w.answer)))
	if int(n) > len(w.answer) {
		w.answer = make([]byte, n)
		hostTake(unsafe.Pointer(unsafe.SliceData(w.answer)), n)
	}
	return abi.DecodeAnswer(w.answer[:n])
}
