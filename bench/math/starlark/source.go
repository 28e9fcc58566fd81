package starlark

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// lexeme is a piece of a program. All of them together are the program again.
type lexeme struct {
	kind lexemeKind
	text string
}

type lexemeKind byte

const (
	gap     lexemeKind = iota // spaces, comments, joined lines
	newline                   // end of a line
	name
	atom // a number, a string, or an expression already translated
	sign
)

// is tells whether it is this sign or name.
func (l lexeme) is(text string) bool { return (l.kind == sign || l.kind == name) && l.text == text }

// scan cuts a program into lexemes. What it does not know stays as it is: the interpreter
// will complain about it with a line.
func scan(source string) []lexeme {
	var list []lexeme
	for len(source) > 0 {
		kind, n := first(source)
		list = append(list, lexeme{kind, source[:n]})
		source = source[n:]
	}
	return list
}

// first is the kind and length of the first lexeme.
func first(source string) (lexemeKind, int) {
	r, size := utf8.DecodeRuneInString(source)
	switch {
	case r == '\n':
		return newline, 1
	case r == ' ' || r == '\t' || r == '\r' || r == '\f':
		return gap, len(source) - len(strings.TrimLeft(source, " \t\r\f"))
	case r == '#':
		if end := strings.IndexByte(source, '\n'); end >= 0 {
			return gap, end
		}
		return gap, len(source)
	case strings.HasPrefix(source, "\\\n"):
		return gap, 2
	case r >= '0' && r <= '9' || r == '.' && len(source) > 1 && source[1] >= '0' && source[1] <= '9':
		return atom, numberLength(source)
	case r == '_' || unicode.IsLetter(r):
		n := strings.IndexFunc(source, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if n < 0 {
			n = len(source)
		}
		if n <= 2 && n < len(source) && strings.ContainsRune(`"'`, rune(source[n])) && strings.Trim(source[:n], "rRbBfFuU") == "" {
			return atom, n + stringLength(source[n:])
		}
		return name, n
	case r == '"' || r == '\'':
		return atom, stringLength(source)
	case strings.HasPrefix(source, "**=") || strings.HasPrefix(source, "//="):
		return sign, 3
	case strings.HasPrefix(source, "**") || strings.HasPrefix(source, "//"):
		return sign, 2
	}
	if len(source) > 1 && source[1] == '=' && strings.ContainsRune("<>=!+-*/%:", r) {
		return sign, 2
	}
	return sign, size
}

func numberLength(source string) int {
	n := 0
	for n < len(source) {
		c := source[n]
		exponent := n > 0 && (source[n-1] == 'e' || source[n-1] == 'E') && !strings.HasPrefix(source, "0x")
		if c != '.' && c != '_' && (c < '0' || c > '9') && !unicode.IsLetter(rune(c)) && !(exponent && (c == '+' || c == '-')) {
			break
		}
		n++
	}
	return n
}

// stringLength is the length of a string that begins with a quote.
func stringLength(source string) int {
	quote := source[:1]
	if len(source) >= 3 && source[1:2] == quote && source[2:3] == quote {
		quote = source[:3]
	}
	for n := len(quote); n < len(source); n++ {
		switch {
		case source[n] == '\\':
			n++
		case source[n] == '\n' && len(quote) == 1:
			return n
		case strings.HasPrefix(source[n:], quote):
			return n + len(quote)
		}
	}
	return len(source)
}

// blank tells what may stand between the parts of an expression in brackets.
func (l lexeme) blank() bool { return l.kind == gap || l.kind == newline }

// after is the index of the next lexeme from i on that is not blank.
func after(list []lexeme, i int) int {
	for i < len(list) && list[i].blank() {
		i++
	}
	return i
}

// before is the index of the last lexeme up to i that is not blank, -1 when there is none.
func before(list []lexeme, i int) int {
	for i >= 0 && list[i].blank() {
		i--
	}
	return i
}

// partner is the index of the bracket that belongs to the one at i, -1 when it is missing.
func partner(list []lexeme, i int) int {
	step, depth := 1, 0
	if list[i].kind == sign && strings.Contains(")]}", list[i].text) {
		step = -1
	}
	for ; i >= 0 && i < len(list); i += step {
		if list[i].kind != sign {
			continue
		}
		switch list[i].text {
		case "(", "[", "{":
			depth += step
		case ")", "]", "}":
			depth -= step
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}

func join(list []lexeme) string {
	var b strings.Builder
	for _, l := range list {
		b.WriteString(l.text)
	}
	return b.String()
}
