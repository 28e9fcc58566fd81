package searchqa

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		text, want string
		ok         bool
	}{
		{"<answer>Paris</answer>", "Paris", true},
		{"so <answer> Paris \n</answer> is it", " Paris \n", true},
		{"<answer>Rome</answer> no, <answer>Paris</answer>", "Paris", true},
		{"<answer>Paris <answer>Rome</answer></answer>", "Rome", true},
		{"<answer>Paris <answer>Rome</answer>", "Rome", true},
		{"<answer>Paris</answer></answer>", "Paris", true},
		{"<answer>Paris</answer> <answer>Rome", "Paris", true},
		{"<answer>1 < 2</answer>", "1 < 2", true},
		{"<answer></answer>", "", true},
		{"<answer>Paris", "", false},
		{"Paris</answer>", "", false},
		{"</answer>Paris<answer>", "", false},
		{"<Answer>Paris</Answer>", "", false},
		{"", "", false},
	} {
		if got, ok := Answer(c.text); got != c.want || ok != c.ok {
			t.Errorf("%q: %q, %v", c.text, got, ok)
		}
	}
}

// The wanted forms are what SQuAD's evaluation makes of these answers: lower, without
// ASCII punctuation, articles to blanks, split and joined.
func TestNormalise(t *testing.T) {
	for _, c := range [][2]string{
		{"The Lady", "lady"},
		{"  A  lady,\tan Other\nthe ", "lady other"},
		{"Anthem of the Theatre", "anthem of theatre"},
		{"U.S.A.", "usa"},
		{"rock-n-roll", "rocknroll"},
		{"a-b", "ab"}, // punctuation goes first, so this is no article
		{"the–a", "–"},
		{"x–the–y", "x– –y"},
		{"l’a dit", "l’ dit"},
		{"Raúl ESPARZA", "raúl esparza"},
		{"É", "é"},
		{"1,000 £", "1000 £"},
		{"İstanbul", "i̇stanbul"},
		{"a\u00a0b\u2003c\x1cd", "b c d"},
		{"_the_", ""},
		{"the", ""},
		{"?!", ""},
		{"日本 の a", "日本 の"},
		{"a²", "a²"},
		{"a\u0301", "\u0301"}, // a mark ends the word, as in the reference
		{"\xff", "\uFFFD"},
	} {
		if got := Normalise(c[0]); got != c[1] {
			t.Errorf("%q becomes %q, want %q", c[0], got, c[1])
		}
	}
}

func FuzzNormalise(f *testing.F) {
	for _, s := range []string{"The Lady", "x–the–y", "\xff a", "İ\u0301 the", "<answer>a<answer>the b</answer>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Normalise(text)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "ABCXYZ.,;!?'\t\n") || strings.Contains(got, "  ") || got != strings.TrimSpace(got) {
			t.Errorf("%q becomes %q", text, got)
		}
		// Lower case, blanks and punctuation around an answer change nothing.
		if other := Normalise(" \n" + text + " the!"); other != got {
			t.Errorf("%q becomes %q, with an article behind it %q", text, got, other)
		}
		answer, ok := Answer(text)
		if ok != strings.Contains(text[:max(0, strings.LastIndex(text, closeTag))], openTag) || strings.Contains(answer, openTag) || strings.Contains(answer, closeTag) {
			t.Errorf("%q holds the answer %q, %v", text, answer, ok)
		}
	})
}
