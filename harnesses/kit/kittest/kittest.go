// Package kittest runs a harness without an engine: the model is a list of replies, the
// tools are a list of results. The scripts of the seed harnesses are data, so that the
// same conversations can be played natively (go test, a debugger) and in the sandbox.
//
// It does not know domains: a script says itself what a tool answers.
package kittest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// Script is one conversation and what a harness has to make of it.
type Script struct {
	Name   string
	Domain string
	Input  string // the question
	// Replies are what the model writes, in order. When they are used up, Generate
	// returns kit.ErrBudget. A call for several samples takes several replies.
	Replies []string
	// Tools are the tool calls that the harness has to make, in order.
	Tools []ToolStep

	// WantContext is the context of the last call of Generate.
	WantContext []kit.Message
	// WantReplies is how many replies have to be used; 0 = all.
	WantReplies int
	// WantSubmit is the number of the reply submitted, from 1; 0 = none is.
	WantSubmit int
	// WantError is the error that Run has to return, compared with errors.Is natively;
	// behind a wall compare its text. nil = none.
	WantError error
}

// ToolStep is one expected tool call and its result.
type ToolStep struct {
	Name, Args string
	Result     string
}

// Start is what the session begins with.
func (s Script) Start() kit.Start {
	return kit.Start{
		Task:   kit.Task{Domain: s.Domain, Input: s.Input},
		Budget: kit.Budget{Tokens: 10000, Turns: len(s.Replies), Tools: 100},
	}
}

// Play runs a harness natively through the script and returns what is wrong, nil when
// nothing is.
func (s Script) Play(run func(*kit.Session) error) error {
	host := &Host{Script: s}
	err := run(kit.NewSession(s.Start(), host))
	return host.Check(err)
}

// Host is the scripted other side of a session; it notes what the harness does. It
// serves one session.
type Host struct {
	Script Script

	Contexts  [][]kit.Message // of each call of Generate
	Submitted int
	Logs      []string
	used      int      // replies
	steps     int      // tool calls
	wrong     []string // calls that the script does not have
}

var _ kit.Host = (*Host)(nil)

// Generate returns the next replies of the script; their handles count from 1.
func (h *Host) Generate(messages []kit.Message, options kit.Options) ([]kit.Reply, error) {
	h.Contexts = append(h.Contexts, append([]kit.Message{}, messages...))
	for _, m := range messages {
		if m.Handle != 0 && (m.Handle < 0 || m.Handle > h.used || m.Content != h.Script.Replies[m.Handle-1]) {
			h.wrong = append(h.wrong, fmt.Sprintf("message %q claims to be reply %d", m.Content, m.Handle))
		}
	}
	samples := max(1, options.Samples)
	if h.used+samples > len(h.Script.Replies) {
		return nil, kit.ErrBudget
	}
	var replies []kit.Reply
	for range samples {
		text := h.Script.Replies[h.used]
		h.used++
		replies = append(replies, kit.Reply{Handle: h.used, Text: text, Stop: kit.StopEnd, Tokens: 1 + len(strings.Fields(text))})
	}
	return replies, nil
}

// Tool returns the next result when the call is the next one of the script.
func (h *Host) Tool(name, args string) (string, error) {
	if h.steps < len(h.Script.Tools) {
		step := h.Script.Tools[h.steps]
		if step.Name == name && step.Args == args {
			h.steps++
			return step.Result, nil
		}
	}
	h.wrong = append(h.wrong, fmt.Sprintf("tool call %d is %s %s", h.steps+1, name, args))
	return "", kit.ErrTool
}

// Note takes log lines and the submitted handle.
func (h *Host) Note(n kit.Note) error {
	if n.Submit != 0 {
		h.Submitted = n.Submit
		return nil
	}
	h.Logs = append(h.Logs, n.Log)
	return nil
}

// Check compares what happened with the script, given what Run returned. Behind a wall
// only the text of an error survives, so an error that mentions the wanted one will do.
func (h *Host) Check(got error) error {
	s := h.Script
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, text := range h.wrong {
		fault("%s", text)
	}
	if !sameError(got, s.WantError) {
		fault("Run returned %v, want %v", got, s.WantError)
	}
	wantReplies := s.WantReplies
	if wantReplies == 0 {
		wantReplies = len(s.Replies)
	}
	if h.used != wantReplies {
		fault("%d replies used, want %d", h.used, wantReplies)
	}
	if h.steps != len(s.Tools) {
		fault("%d tool calls, want %d", h.steps, len(s.Tools))
	}
	if h.Submitted != s.WantSubmit {
		fault("reply %d submitted, want %d", h.Submitted, s.WantSubmit)
	}
	if len(h.Contexts) == 0 {
		fault("the model was never asked")
	} else if diff := difference(h.Contexts[len(h.Contexts)-1], s.WantContext); diff != "" {
		fault("last context: %s", diff)
	}
	if faults == nil {
		return nil
	}
	return errors.New("script " + s.Name + ": " + strings.Join(faults, "; "))
}

func sameError(got, want error) bool {
	if want == nil || got == nil {
		return got == nil && want == nil
	}
	return errors.Is(got, want) || strings.Contains(got.Error(), want.Error())
}

// difference names the first message in which two contexts differ, "" when they don't.
func difference(got, want []kit.Message) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("message %d is missing: %s %q", i+1, want[i].Role, want[i].Content)
		case i >= len(want):
			return fmt.Sprintf("message %d is too much: %s %q", i+1, got[i].Role, got[i].Content)
		case got[i] != want[i]:
			return fmt.Sprintf("message %d is %s %q (reply %d), want %s %q (reply %d)", i+1, got[i].Role, got[i].Content, got[i].Handle, want[i].Role, want[i].Content, want[i].Handle)
		}
	}
	return ""
}
