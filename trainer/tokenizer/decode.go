package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Bytes returns the bytes that ids stand for, added tokens by their content.
// Ids that the tokenizer does not have stand for nothing.
func (t *Tokenizer) Bytes(ids []int32) []byte {
	var b []byte
	for _, id := range ids {
		b = append(b, t.Token(id)...)
	}
	return b
}

// Token returns the bytes of one id, "" for an id that the tokenizer does not have.
func (t *Tokenizer) Token(id int32) string {
	if id < 0 || int(id) >= len(t.text) {
		return ""
	}
	return t.text[id]
}

// Decode returns the text of ids, special tokens verbatim. Bytes that are no
// UTF-8 become U+FFFD, one per maximal part of a broken sequence.
func (t *Tokenizer) Decode(ids []int32) string {
	text, _ := repair(t.Bytes(ids), true)
	return text
}

// DecodeContent is Decode without special tokens.
func (t *Tokenizer) DecodeContent(ids []int32) string {
	kept := make([]int32, 0, len(ids))
	for _, id := range ids {
		if !t.special[id] {
			kept = append(kept, id)
		}
	}
	return t.Decode(kept)
}

// Stream decodes ids as they come. The pieces of all Push calls and the final
// Flush join to what Decode returns for all ids.
type Stream struct {
	t       *Tokenizer
	pending []byte // the beginning of a UTF-8 sequence
}

// Stream returns a new decoder at the start of a text, for one goroutine.
func (t *Tokenizer) Stream() *Stream { return &Stream{t: t} }

// Push returns the text that id completes; "" while a sequence is incomplete.
func (s *Stream) Push(id int32) string {
	text, rest := repair(append(s.pending, s.t.Token(id)...), false)
	s.pending = append([]byte(nil), rest...)
	return text
}

// Flush ends the text: what was withheld becomes U+FFFD.
func (s *Stream) Flush() string {
	text, _ := repair(s.pending, true)
	s.pending = nil
	return text
}

// repair returns b as UTF-8. Unless final, an incomplete sequence at the end
// is returned as rest instead of being replaced.
func repair(b []byte, final bool) (text string, rest []byte) {
	var out strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			if !final && !utf8.FullRune(b) {
				return out.String(), b
			}
			size = brokenLength(b)
		}
		out.WriteRune(r)
		b = b[size:]
	}
	return out.String(), nil
}

// brokenLength returns how many bytes at the start of b, which is no valid
// sequence, could still have begun one; at least 1.
func brokenLength(b []byte) int {
	for n := min(3, len(b)); n > 1; n-- {
		if !utf8.FullRune(b[:n]) {
			return n
		}
	}
	return 1
}
