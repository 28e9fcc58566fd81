package kit

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// fake answers every call and counts nothing.
type fake struct {
	notes []Note
	err   error
}

func (f *fake) Generate(_ []Message, o Options) ([]Reply, error) {
	if f.err != nil {
		return nil, f.err
	}
	replies := []Reply{{Handle: 1, Text: "a", Tokens: 3}}
	for len(replies) < o.Samples {
		replies = append(replies, Reply{Handle: len(replies) + 1, Text: "b", Tokens: 2})
	}
	return replies, nil
}

func (f *fake) Tool(name, args string) (string, error) { return name + args, f.err }

func (f *fake) Note(n Note) error {
	f.notes = append(f.notes, n)
	return f.err
}

// The session counts the budget down and hands on everything else unchanged.
func TestSession(t *testing.T) {
	host := &fake{}
	s := NewSession(Start{Task: Task{Domain: "d", Input: "q"}, Tools: []ToolSpec{{Name: "t"}}, Budget: Budget{Tokens: 100, Turns: 5, Tools: 2}}, host)
	if s.Task().Input != "q" || s.Tools()[0].Name != "t" {
		t.Errorf("task %+v, tools %+v", s.Task(), s.Tools())
	}
	reply, err := s.Generate([]Message{{Role: User, Content: "q"}}, Options{Samples: 3})
	if err != nil || reply.Text != "a" || len(reply.Others) != 2 || reply.Others[1].Handle != 3 {
		t.Errorf("reply %+v, %v", reply, err)
	}
	if m := reply.Message(); m != (Message{Role: Assistant, Content: "a", Handle: 1}) {
		t.Errorf("message %+v", m)
	}
	if text, err := s.Tool("t", "{}"); text != "t{}" || err != nil {
		t.Errorf("tool %q, %v", text, err)
	}
	if got := s.Remaining(); got != (Budget{Tokens: 93, Turns: 4, Tools: 1}) {
		t.Errorf("remaining %+v", got)
	}
	if err := errors.Join(s.Log("line"), s.Submit(reply.Others[0])); err != nil {
		t.Error(err)
	}
	if len(host.notes) != 2 || host.notes[0] != (Note{Log: "line"}) || host.notes[1] != (Note{Submit: 2}) {
		t.Errorf("notes %+v", host.notes)
	}
	host.err = ErrBudget
	if _, err := s.Generate(nil, Options{}); !errors.Is(err, ErrBudget) {
		t.Errorf("generate: %v", err)
	}
	if _, err := s.Tool("t", ""); !errors.Is(err, ErrBudget) {
		t.Errorf("tool: %v", err)
	}
	if got := s.Remaining(); got != (Budget{Tokens: 93, Turns: 4, Tools: 1}) {
		t.Errorf("a failed call was counted: %+v", got)
	}
}

// Args writes the JSON that encoding/json reads back.
func FuzzArgs(f *testing.F) {
	f.Add("query", "Gervan", "k", "1")
	f.Add("", "\x00\x1f\x10\"\\\n\t", "é", "\xff\u2028")
	f.Fuzz(func(t *testing.T, name, value, other, last string) {
		if strings.ToValidUTF8(name, "\uFFFD") == strings.ToValidUTF8(other, "\uFFFD") {
			return
		}
		text := Args(name, value, other, last)
		var got map[string]string
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		// Ranging over a string replaces each bad byte, as []rune does.
		clean := func(s string) string { return string([]rune(s)) }
		if len(got) != 2 && clean(name) != clean(other) || got[clean(other)] != clean(last) {
			t.Errorf("%q came back as %q", text, got)
		}
		if clean(name) != clean(other) && got[clean(name)] != clean(value) {
			t.Errorf("%q came back as %q", text, got)
		}
	})
}

// What remains is what the engine will still allow: a bad tool call was paid for, one beyond
// the budget was not made.
func TestSession_badToolCall(t *testing.T) {
	host := &fake{err: ErrTool}
	s := NewSession(Start{Budget: Budget{Tools: 2}}, host)
	for _, c := range []struct {
		err  error
		left int
	}{{ErrTool, 1}, {nil, 0}, {ErrBudget, 0}} {
		host.err = c.err
		if text, err := s.Tool("t", "{"); !errors.Is(err, c.err) || (err != nil) != (text == "") {
			t.Errorf("%v: %q, %v", c.err, text, err)
		}
		if got := s.Remaining().Tools; got != c.left {
			t.Errorf("after %v %d tool calls remain, want %d", c.err, got, c.left)
		}
	}
}
