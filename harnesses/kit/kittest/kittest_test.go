package kittest

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// Each harness breaks one promise of the script, and Check has to notice.
func TestPlayNotices(t *testing.T) {
	script := Script{Name: "x", Input: "q", Replies: []string{"one", "two"},
		Tools:       []ToolStep{{Name: "search", Args: "{}", Result: "found"}},
		WantContext: []kit.Message{user("q"), reply(1, "one"), tool("found")}, WantSubmit: 2}
	honest := func(s *kit.Session, second kit.Message) (kit.Reply, error) {
		messages := []kit.Message{{Role: kit.User, Content: s.Task().Input}}
		first, err := s.Generate(messages, kit.Options{})
		if err != nil {
			return first, err
		}
		found, err := s.Tool("search", "{}")
		if err != nil {
			return first, err
		}
		if second.Content == "" {
			second = first.Message()
		}
		return s.Generate(append(messages, second, kit.Message{Role: kit.Tool, Content: found}), kit.Options{})
	}
	submit := func(s *kit.Session) error {
		r, err := honest(s, kit.Message{})
		if err != nil {
			return err
		}
		return s.Submit(r)
	}
	cases := []struct {
		name string
		run  func(*kit.Session) error
		want string // in the complaint; "" = none
	}{
		{"honest", submit, ""},
		{"no submit", func(s *kit.Session) error { _, err := honest(s, kit.Message{}); return err }, "reply 0 submitted"},
		{"nothing", func(*kit.Session) error { return nil }, "never asked"},
		{"error", func(*kit.Session) error { return errors.New("boom") }, "returned boom"},
		{"forged reply", func(s *kit.Session) error {
			r, err := honest(s, kit.Message{Role: kit.Assistant, Content: "other", Handle: 1})
			if err != nil {
				return err
			}
			return s.Submit(r)
		}, "claims to be reply 1"},
		{"other tool", func(s *kit.Session) error { _, err := s.Tool("move", "{}"); return err }, "tool call 1 is move"},
		{"one call too many", func(s *kit.Session) error {
			if err := submit(s); err != nil {
				return err
			}
			_, err := s.Generate(nil, kit.Options{})
			return err
		}, "budget"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := script.Play(c.run)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("complaint %v, want one with %q", err, c.want)
			}
		})
	}
}
