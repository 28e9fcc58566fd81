package report

import (
	"math"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

// bytePieces decodes each id as one byte, so characters span several ids.
func bytePieces(ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = append(b, byte(id))
	}
	return string(b)
}

func byteIDs(s string) []int32 {
	var ids []int32
	for i := range len(s) {
		ids = append(ids, int32(s[i]))
	}
	return ids
}

func TestTokensAreWholeCharacters(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"ab", "a|b"},
		{"aé→x", "a|é|→|x"},
		{"𝄞", "𝄞"},
		{"\xff\xfea", "⟨FF⟩|⟨FE⟩|a"},
		{"a\n", "a|⏎\n"},
		{"é\xc3", "é|⟨C3⟩"},
		{"\u202e", "⟨U+202E⟩"},
	} {
		views, left := viewTokens(&engine.Call{Sampled: byteIDs(c.text)}, bytePieces)
		var got []string
		for _, v := range views {
			got = append(got, v.Text)
		}
		if strings.Join(got, "|") != c.want || left != "" {
			t.Errorf("%q: %q %q, want %q", c.text, got, left, c.want)
		}
	}
}

func TestTokensCarryTheirProbability(t *testing.T) {
	logs := []float32{0, float32(math.Log(.6)), float32(math.Log(.2)), float32(math.Log(.02)), -20, float32(math.NaN())}
	views, _ := viewTokens(&engine.Call{Sampled: byteIDs("abcdef"), LogProbs: logs}, bytePieces)
	for i, want := range []int{0, 1, 2, 3, 4, 4} {
		if views[i].Level != want {
			t.Errorf("token %d: level %d, want %d", i, views[i].Level, want)
		}
	}
	if !strings.Contains(views[1].Title, "id 98") || !strings.Contains(views[1].Title, "p 0.600") {
		t.Errorf("title %q", views[1].Title)
	}
	views, _ = viewTokens(&engine.Call{Sampled: byteIDs("é"), LogProbs: []float32{-1, -2}}, bytePieces)
	if len(views) != 1 || !strings.Contains(views[0].Title, "log p -3.000") {
		t.Errorf("a character of two ids: %+v", views)
	}
}

func TestCallsShowOnlyWhatIsNewInTheirContext(t *testing.T) {
	o := &engine.Trajectory{Events: []engine.Event{
		{Call: &engine.Call{Handle: 1, Prompt: byteIDs("a question"), Sampled: byteIDs("search")}},
		{Call: &engine.Call{Handle: 2, Prompt: byteIDs("a questionsearch\nresult"), Sampled: byteIDs("answer")}},
		{Call: &engine.Call{Handle: 3, Prompt: byteIDs("rewritten"), Sampled: byteIDs("again")}},
	}}
	v := viewTranscript(Transcript{Rollout: o}, bytePieces)
	var got []string
	for _, p := range v.Pieces {
		if p.Kind == "context" {
			got = append(got, p.Head+": "+p.Text)
		}
	}
	want := "context: a question|context, after 16 tokens as above: result|context: rewritten"
	if strings.Join(got, "|") != want {
		t.Errorf("got %q", got)
	}
}

func TestWithoutDecodeThereAreTexts(t *testing.T) {
	o := &engine.Trajectory{Events: []engine.Event{
		{Said: &engine.Turn{Role: "user", Content: "a question"}},
		{Call: &engine.Call{Handle: 1, Prompt: []int32{1}, Sampled: []int32{2}, Text: "an answer"}},
	}}
	v := viewTranscript(Transcript{Rollout: o}, nil)
	if len(v.Pieces) != 2 || v.Pieces[0].Text != "a question" || v.Pieces[1].Text != "an answer" {
		t.Errorf("%+v", v.Pieces)
	}
}

func TestStates(t *testing.T) {
	for _, c := range []struct {
		o    engine.Trajectory
		want string
		good bool
	}{
		{engine.Trajectory{Outcome: engine.Scored, Verdict: engine.Verdict{Reward: 1}}, "solved", true},
		{engine.Trajectory{Outcome: engine.Scored, Verdict: engine.Verdict{Reward: 0.5}}, "wrong", false},
		{engine.Trajectory{Outcome: engine.Scored, Verdict: engine.Verdict{Kind: engine.Unparsed}}, "unparsed", false},
		{engine.Trajectory{Outcome: engine.Invalid, Verdict: engine.Verdict{Reward: 1}}, "invalid", false},
		{engine.Trajectory{Outcome: engine.Infra}, "infra", false},
	} {
		if got, good := stateOf(&c.o); got != c.want || good != c.good {
			t.Errorf("%+v: %s %v", c.o, got, good)
		}
	}
}
