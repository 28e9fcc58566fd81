package tokenizer

import (
	"slices"
	"strings"
)

// marks finds the added tokens that content may contain: leftmost first,
// longest first. Per first byte, the candidates in order of falling length.
type marks [256][]AddedToken

func newMarks(added []AddedToken) marks {
	var m marks
	for _, a := range added {
		if !a.Special {
			m[a.Content[0]] = append(m[a.Content[0]], a)
		}
	}
	for _, list := range m {
		slices.SortFunc(list, func(a, b AddedToken) int { return len(b.Content) - len(a.Content) })
	}
	return m
}

// find returns the place and id of the first added token in text; begin is
// len(text) when there is none.
func (m *marks) find(text string) (begin, end int, id int32) {
	for i := range len(text) {
		for _, a := range m[text[i]] {
			if strings.HasPrefix(text[i:], a.Content) {
				return i, i + len(a.Content), a.ID
			}
		}
	}
	return len(text), len(text), 0
}
