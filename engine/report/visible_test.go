package report

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestVisible(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"plain <b> text\n\tline", "plain <b> text\n\tline"},
		{"naïve 漢字 𝄞", "naïve 漢字 𝄞"},
		{"a\x00b\x1b[2Jc\x7f", "a␀b␛[2Jc␡"},
		{"a\rb", "a␍b"},
		{"a\u202eb\u2066", "a⟨U+202E⟩b⟨U+2066⟩"},
		{"\u0085\u2028\ufeff", "⟨U+0085⟩⟨U+2028⟩⟨U+FEFF⟩"},
		{"a\xffb\xc3", "a⟨FF⟩b⟨C3⟩"},
		{"�", "�"},
	} {
		if got := visible(c.in); got != c.want {
			t.Errorf("visible(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a\x00", "\xff", "\u202e", "a\nb"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		v := visible(s)
		if !utf8.ValidString(v) || visible(v) != v {
			t.Errorf("visible(%q) = %q", s, v)
		}
		if line := oneLine(s); strings.ContainsAny(line, "\n\t\r\x1b\x00") {
			t.Errorf("oneLine(%q) = %q", s, line)
		}
		if limit = min(max(limit, 0), 1000); true {
			head, left := cut(s, limit)
			if !strings.HasPrefix(s, head) || utf8.RuneCountInString(head)+left != utf8.RuneCountInString(s) || utf8.RuneCountInString(head) > limit {
				t.Errorf("cut(%q, %d) = %q, %d", s, limit, head, left)
			}
		}
	})
}
