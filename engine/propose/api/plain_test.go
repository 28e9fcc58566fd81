package api

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// wordy is a model behind a service that has no place for tools and a short context. It
// ends a reply where the context ends.
type wordy struct {
	context int // bytes
	replies []string
	asked   []string
	opened  []Opening
	refusal string
}

func (w *wordy) Open(o Opening) Chat { w.opened = append(w.opened, o); return w }

func (w *wordy) Say(_ context.Context, in Input) (Reply, error) {
	if len(w.opened[len(w.opened)-1].Tools) > 0 {
		return Reply{}, &ServiceError{Status: 500, Err: errors.New(w.refusal)}
	}
	if len(in.Text) > w.context {
		return Reply{}, &ServiceError{Status: 400, Err: errors.New("the prompt exceeds the model's context")}
	}
	w.asked = append(w.asked, in.Text)
	text := w.replies[(len(w.asked)-1)%len(w.replies)]
	if room := w.context - len(in.Text); room < len(text) {
		return Reply{Text: text[:room], Cut: true, Usage: Usage{Input: len(in.Text), Output: room}}, nil
	}
	return Reply{Text: text, Usage: Usage{Input: len(in.Text), Output: len(text)}}, nil
}

// A service without tools is asked in words, shorter and shorter until there is room for a
// whole reply, and what comes are candidates, be they nonsense.
func TestPropose_withoutTools(t *testing.T) {
	for _, c := range []struct {
		context int
		replies []string
		want    []string
		asked   int
	}{
		{1 << 20, []string{"More turns.\n```go\npackage harness // one\n```\n", "```\npackage harness // two\n```"}, []string{"package harness // one\n", "package harness // two\n"}, 2},
		{900, []string{"Dromriee cn</search>", "m" + strings.Repeat("o", 150)}, []string{"Dromriee cn</search>\n", "m" + strings.Repeat("o", 150) + "\n"}, 2},
		{700, []string{"x " + strings.Repeat("y", 300)}, []string{"x " + strings.Repeat("y", 197) + "\n"}, 0},
		{900, []string{""}, nil, 2},
	} {
		w := &wordy{context: c.context, replies: c.replies, refusal: "tools param requires --jinja flag"}
		b := run(t)
		b.Skill = strings.Repeat("advice ", 1000)
		made, err := proposer(w).Propose(t.Context(), b)
		var got []string
		for _, h := range made {
			got = append(got, h.Source)
		}
		if !slices.Equal(got, c.want) || (err == nil) != (len(c.want) > 0) || err != nil && !errors.Is(err, ErrNothing) || c.asked > 0 && len(w.asked) != c.asked {
			t.Errorf("%d: %q, %v after %d questions", c.context, got, err, len(w.asked))
		}
		if len(made) == 2 && c.context == 1<<20 && made[0].Meta.Hypothesis != "More turns." {
			t.Errorf("%+v", made[0].Meta)
		}
		if text := transcript(t, b); !strings.Contains(text, "--jinja") {
			t.Error(text)
		}
	}
}

// Other refusals are what they are.
func TestPropose_refusedOtherwise(t *testing.T) {
	w := &wordy{context: 10, replies: []string{"x"}, refusal: "no place for tools"}
	if _, err := proposer(w).Propose(t.Context(), run(t)); !errors.Is(err, ErrService) || !strings.Contains(err.Error(), "context") {
		t.Error(err)
	}
	for text, want := range map[string]bool{"the chat format of this model has no place for tools": true, "no such model": false} {
		if noTools(&ServiceError{Status: 400, Err: errors.New(text)}) != want || noTools(&ServiceError{Err: errors.New(text)}) {
			t.Error(text)
		}
	}
}
