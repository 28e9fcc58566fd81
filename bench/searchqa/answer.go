package searchqa

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	openTag, closeTag = "<answer>", "</answer>"

	// maxAnswer bounds what is normalised. Nothing longer can be a golden answer: a row
	// is read from a line, but answers of these data sets have at most some hundred bytes.
	maxAnswer = 16 << 10

	// maxShown bounds what a verdict quotes.
	maxShown = 200
)

// Answer reads the answer from what a model wrote: the text of the last complete pair of
// answer tags, the inner one where pairs are nested; false when there is none. It takes
// time in proportion to the text.
func Answer(text string) (string, bool) {
	end := strings.LastIndex(text, closeTag)
	if end < 0 {
		return "", false
	}
	open := strings.LastIndex(text[:end], openTag)
	if open < 0 {
		return "", false
	}
	answer := text[open+len(openTag):]
	return answer[:strings.Index(answer, closeTag)], true
}

// Normalise is the form in which answers are compared, that of SQuAD's evaluation, which
// Search-R1 uses: lower case, without ASCII punctuation, without the words a, an and the,
// white space as single blanks. Unicode forms are left as they are.
func Normalise(answer string) string {
	var out strings.Builder
	out.Grow(len(answer))
	gap := false // white space or a dropped article since the last word
	begin := 0   // of the word being read, in bare
	bare := strip(answer)
	flush := func(end int) {
		if word := bare[begin:end]; word != "" {
			if article(word) {
				gap = true
				return
			}
			if gap && out.Len() > 0 {
				out.WriteByte(' ')
			}
			gap = false
			out.WriteString(word)
		}
	}
	for i, r := range bare {
		if wordRune(r) {
			continue
		}
		flush(i)
		begin = i + utf8.RuneLen(r)
		if space(r) {
			gap = true
			continue
		}
		if gap && out.Len() > 0 {
			out.WriteByte(' ')
		}
		gap = false
		out.WriteRune(r)
	}
	flush(len(bare))
	return out.String()
}

// strip lowers a text and drops its ASCII punctuation; bad UTF-8 becomes U+FFFD.
func strip(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	for _, r := range text {
		switch {
		case r >= 'A' && r <= 'Z':
			out.WriteByte(byte(r) + 'a' - 'A')
		case r < 0x80 && !punctuation(r):
			out.WriteByte(byte(r))
		case r >= 0x80:
			out.WriteString(lower(r))
		}
	}
	return out.String()
}

// lower is the lower case of one rune. Only U+0130 has one of two runes.
func lower(r rune) string {
	if r == 0x130 {
		return "i̇"
	}
	return string(unicode.ToLower(r))
}

func punctuation(r rune) bool {
	return r >= '!' && r <= '/' || r >= ':' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~'
}

// wordRune tells what has no word boundary inside: letters and numbers, as in the regular
// expression of the reference. The underscore is punctuation and gone by then.
func wordRune(r rune) bool {
	if r < 0x80 {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r)
}

// space is what the reference splits at: Unicode's white space and four old separators.
func space(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func article(word string) bool { return word == "a" || word == "an" || word == "the" }

// clip cuts a text for a message, at a whole rune, and shows that it did.
func clip(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
