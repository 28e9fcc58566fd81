package report

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/engine"
)

// What one page shows at most. Whatever is cut leaves a visible mark.
const (
	maxTranscripts = 12
	maxPieces      = 40   // of one transcript
	maxText        = 2400 // runes of one piece of text
	maxResult      = 320  // runes of a tool's result, which the next context repeats
	maxSampled     = 320  // tokens of one call
	sharedPrefix   = 8    // tokens that a call must repeat before they are left out
)

// transcriptView is one rollout laid out for the page.
type transcriptView struct {
	Open    bool
	Moment  string
	State   string // solved, wrong, unparsed, invalid, infra
	Class   string // the same, as one word for the style sheet
	Good    bool
	Trained bool
	Input   string
	Tags    string
	Answer  string
	Facts   string // harness, weights, seed, cost in one line
	Failure string
	Pieces  []piece
	Cut     string // what was left out at the end
}

// piece is one step of a rollout.
type piece struct {
	Kind    string // context, sampled, tool, log, said
	Head    string
	Text    string
	Cut     string
	Failed  bool
	Tokens  []tokenView
	Result  string
	CutMore string // of Result
}

// tokenView is a sampled token, or a few that only together are whole characters.
type tokenView struct {
	Text  string
	Level int // 0 likely … 4 unlikely: how strongly it is marked
	Title string
}

func viewTranscripts(r Run) []transcriptView {
	var views []transcriptView
	for _, t := range r.Transcripts {
		if len(views) == maxTranscripts {
			break
		}
		if t.Rollout == nil {
			continue
		}
		v := viewTranscript(t, r.Decode)
		v.Open = len(views) == 0
		views = append(views, v)
	}
	return views
}

func viewTranscript(t Transcript, decode func([]int32) string) transcriptView {
	o := t.Rollout
	v := transcriptView{
		Moment: oneLine(first(t.Moment, 40)), Trained: t.Trained, Input: first(t.Task.Input, 400),
		Tags: oneLine(first(strings.Join(t.Task.Tags, ", "), 200)), Answer: oneLine(first(o.Verdict.Answer, 200)),
		Failure: oneLine(first(o.Failure, 400)),
	}
	v.State, v.Good = stateOf(o)
	v.Class = classOf(v.State)
	v.Facts = fmt.Sprintf("harness %s · weights %s · sample %d · %s prompt and %s sampled tokens",
		short(string(o.Harness)), short(string(o.Weights)), o.Sample, count(o.Cost.Prompt), count(o.Cost.Sampled))
	var before []int32 // what the last call was conditioned on, with its reply
	for i, e := range o.Events {
		if len(v.Pieces) >= maxPieces {
			v.Cut = fmt.Sprintf("%d more events are not shown", len(o.Events)-i)
			break
		}
		switch {
		case e.Call != nil:
			v.Pieces = append(v.Pieces, viewCall(e.Call, before, decode)...)
			before = append(append([]int32{}, e.Call.Prompt...), e.Call.Sampled...)
		case e.Tool != nil:
			v.Pieces = append(v.Pieces, viewTool(e.Tool))
		case e.Said != nil && decode == nil:
			p := piece{Kind: "context", Head: oneLine(first(e.Said.Role, 40))}
			p.Text, p.Cut = shorten(e.Said.Content, maxText)
			v.Pieces = append(v.Pieces, p)
		case e.Log != "":
			p := piece{Kind: "log", Head: "log"}
			p.Text, p.Cut = shorten(e.Log, maxText)
			v.Pieces = append(v.Pieces, p)
		}
	}
	return v
}

func stateOf(o *engine.Trajectory) (string, bool) {
	switch {
	case o.Outcome != engine.Scored:
		return oneLine(first(string(o.Outcome), 20)), false
	case o.Accepted():
		return "solved", true
	case o.Verdict.Kind == engine.Unparsed:
		return "unparsed", false
	}
	return "wrong", false
}

// classOf is a state that the style sheet knows.
func classOf(state string) string {
	switch state {
	case "solved", "wrong", "unparsed", string(engine.Invalid), string(engine.Infra):
		return state
	}
	return "other"
}

// viewCall shows what a call adds to the context and what the model wrote.
func viewCall(c *engine.Call, before []int32, decode func([]int32) string) []piece {
	sampled := piece{Kind: "sampled", Head: fmt.Sprintf("call %d", c.Handle)}
	if decode == nil {
		sampled.Text, sampled.Cut = shorten(c.Text, maxText)
		return []piece{sampled}
	}
	same := 0
	for same < len(before) && same < len(c.Prompt) && before[same] == c.Prompt[same] {
		same++
	}
	context := piece{Kind: "context", Head: "context"}
	if same >= sharedPrefix {
		context.Head = fmt.Sprintf("context, after %s tokens as above", count(same))
	} else {
		same = 0
	}
	context.Text, context.Cut = shorten(strings.TrimLeft(decode(c.Prompt[same:]), "\n"), maxText)
	sampled.Tokens, sampled.Cut = viewTokens(c, decode)
	if c.Stop == engine.StopLength {
		sampled.Head += ", cut by the token limit"
	}
	return []piece{context, sampled}
}

// viewTokens gives each sampled id its text. Ids whose bytes are only a part of a
// character are joined with the following ones until the text is whole.
func viewTokens(c *engine.Call, decode func([]int32) string) (views []tokenView, left string) {
	ids := c.Sampled
	if len(ids) > maxSampled {
		left = fmt.Sprintf("%s more tokens", count(len(ids)-maxSampled))
		ids = ids[:maxSampled]
	}
	for i := 0; i < len(ids); {
		n := 1
		text := decode(ids[i : i+1])
		for whole := text; !utf8.ValidString(whole) && n < 4 && i+n < len(ids); {
			n++
			if whole = decode(ids[i : i+n]); utf8.ValidString(whole) {
				text = whole
			}
		}
		if !utf8.ValidString(text) {
			n = 1
		}
		views = append(views, viewToken(c, i, n, text))
		i += n
	}
	return views, left
}

func viewToken(c *engine.Call, at, n int, text string) tokenView {
	v := tokenView{Text: strings.ReplaceAll(visible(text), "\n", "⏎\n")}
	if at+n > len(c.LogProbs) {
		v.Title = fmt.Sprintf("id %d, no probability recorded", c.Sampled[at])
		return v
	}
	total := 0.0
	for _, l := range c.LogProbs[at : at+n] {
		total += float64(l)
	}
	v.Level = level(total / float64(n))
	v.Title = fmt.Sprintf("id %d · p %s · log p %s", c.Sampled[at], share(math.Exp(total)), share(total))
	return v
}

// level sorts log-probabilities into five classes, from expected to surprising.
func level(logprob float64) int {
	for i, p := range []float64{0.9, 0.5, 0.1, 0.01} {
		if logprob >= math.Log(p) {
			return i
		}
	}
	return 4
}

func viewTool(u *engine.ToolUse) piece {
	p := piece{Kind: "tool", Head: oneLine(first(u.Name, 40)), Failed: u.Failed}
	p.Text, p.Cut = shorten(u.Args, maxText)
	p.Result, p.CutMore = shorten(u.Result, maxResult)
	return p
}

// shorten makes text visible, and cuts it with a note about how much is missing.
func shorten(s string, limit int) (text, note string) {
	head, left := cut(s, limit)
	if left > 0 {
		note = fmt.Sprintf("%s more characters", count(left))
	}
	return visible(head), note
}

// first is the beginning of a text, with an ellipsis when something is missing.
func first(s string, limit int) string {
	head, left := cut(s, limit)
	if left > 0 {
		head += "…"
	}
	return visible(head)
}

// short is an id as people compare it.
func short(id string) string {
	if id == "" {
		return missing
	}
	head, _ := cut(id, 9)
	return oneLine(head)
}
