package tokenizer

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// step cuts one piece of valid UTF-8 into smaller ones, in order, nothing
// lost, and appends them to dst.
type step func(dst []string, piece string) []string

// split runs the pieces of one step through the next.
func split(steps []step, piece string) []string {
	pieces := []string{piece}
	for _, s := range steps {
		var next []string
		for _, p := range pieces {
			next = s(next, p)
		}
		pieces = next
	}
	return pieces
}

// gpt2 is the pattern of ByteLevel with use_regex (spec/models.md 5.3).
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// isolate makes every match of pattern a piece of its own, and every stretch
// between matches too.
func isolate(pattern string) (step, error) {
	// Without this option a long run of spaces fails for want of stack.
	re, err := regexp2.Compile(pattern, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w: %w", pattern, err, ErrUnsupported)
	}
	return func(dst []string, piece string) []string {
		matches, err := re.FindAllStringIndex(piece, -1)
		if err != nil {
			// No time limit and no stack limit is set: nothing is left that can fail.
			panic(fmt.Sprintf("BUG: pattern %q: %v", pattern, err))
		}
		at := 0
		for _, m := range matches {
			if m[0] > at {
				dst = append(dst, piece[at:m[0]])
			}
			if m[1] > m[0] {
				dst = append(dst, piece[m[0]:m[1]])
			}
			at = m[1]
		}
		if at < len(piece) {
			dst = append(dst, piece[at:])
		}
		return dst
	}, nil
}

// digits makes every numeric rune (\p{N}) a piece of its own.
func digits(dst []string, piece string) []string {
	at := 0
	for i, r := range piece {
		if !unicode.Is(unicode.N, r) {
			continue
		}
		if i > at {
			dst = append(dst, piece[at:i])
		}
		at = i + utf8.RuneLen(r)
		dst = append(dst, piece[i:at])
	}
	if at < len(piece) {
		dst = append(dst, piece[at:])
	}
	return dst
}
