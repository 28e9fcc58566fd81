package answer

import "strings"

const boxOpen = `\boxed{`

// thoughtEnd closes the part of a message that a reasoning model does not mean as its
// reply; what stands before it is a draft.
const thoughtEnd = "</think>"

// Boxed returns the contents of every `\boxed{}` of a message in order, trimmed, without
// empty ones when there are others. Escaped braces don't count, a box inside a box is
// part of the outer one. It fails with ErrNoBox when there is none or one of them never
// closes and with ErrEmpty when all are empty.
func Boxed(message string) ([]string, error) {
	if end := strings.LastIndex(message, thoughtEnd); end >= 0 {
		message = message[end+len(thoughtEnd):]
	}
	var boxes []string
	found := false
	for {
		at := strings.Index(message, boxOpen)
		if at < 0 {
			break
		}
		found = true
		message = message[at+len(boxOpen):]
		end := closing(message)
		if end < 0 {
			return nil, ErrNoBox
		}
		if box := strings.TrimSpace(message[:end]); box != "" {
			boxes = append(boxes, box)
		}
		message = message[end+1:]
	}
	switch {
	case !found:
		return nil, ErrNoBox
	case boxes == nil:
		return nil, ErrEmpty
	}
	return boxes, nil
}

// closing is the index of the brace that closes an open one before the text, -1 when
// there is none.
func closing(text string) int {
	depth := 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
