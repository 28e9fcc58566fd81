package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible makes untrusted text safe to look at: what would hide, reorder or overwrite
// other text is written out. Line feeds and tabs stay. Control characters become their
// pictures (␀, ␛), other format characters such as bidirectional overrides, zero-width
// marks and line separators become ⟨U+202E⟩, bytes that are no UTF-8 become ⟨FF⟩.
func visible(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "⟨%02X⟩", s[0])
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune(0x2400 + r)
		case r == 0x7f:
			b.WriteRune('␡')
		case hidden(r):
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

func hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Noncharacter_Code_Point)
}

// plain reports whether s is ordinary ASCII text, the usual case.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= 0x7f || (c < 0x20 && c != '\n' && c != '\t') {
			return false
		}
	}
	return true
}

// oneLine makes untrusted text fit for a line of a log: visible, without breaks.
func oneLine(s string) string {
	return strings.NewReplacer("\n", "⏎", "\t", " ").Replace(visible(s))
}

// cut shortens a text to at most limit runes and says how many it left out; 0 = none.
func cut(s string, limit int) (head string, left int) {
	n := 0
	for i := range s {
		if n == limit {
			return s[:i], utf8.RuneCountInString(s[i:])
		}
		n++
	}
	return s, 0
}
