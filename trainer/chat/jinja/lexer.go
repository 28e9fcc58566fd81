package jinja

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// piece is one stretch of a template: text, or the tokens of a {{ }} or {% %}.
type piece struct {
	kind   byte // 't' text, 'v' variable, 'b' block
	text   string
	tokens []token
	line   int
}

// token is a part of an expression. kind: 'n' name, 's' text, 'i' integer, 'f'
// float, 'o' operator, 0 end.
type token struct {
	kind byte
	text string
	line int
}

var (
	opener     = regexp.MustCompile(`\{[{%#]`)
	rawBegin   = regexp.MustCompile(`^\{%[-+]?\s*raw\s*-?%\}`)
	rawEnd     = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*([-+]?)%\}`)
	nameToken  = regexp.MustCompile(`^[\pL_][\pL\pN_]*`)
	floatToken = regexp.MustCompile(`^[0-9](_?[0-9])*(\.[0-9](_?[0-9])*([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)`)
	intToken   = regexp.MustCompile(`^(0|[1-9](_?[0-9])*)`)
)

// operators, longest first.
var operators = []string{"==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "<", ">", "=",
	".", ",", ":", "|", "(", ")", "[", "]", "{", "}"}

// lexer cuts a template into pieces, with the whitespace rules of trim_blocks
// and lstrip_blocks.
type lexer struct {
	rest      string
	line      int
	lineStart bool // the piece before ended a line
	pieces    []piece
}

func lex(source string) []piece {
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	l := &lexer{rest: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for l.rest != "" {
		at := opener.FindStringIndex(l.rest)
		if at == nil {
			l.text(l.rest)
			break
		}
		l.tag(at[0])
	}
	return l.pieces
}

func (l *lexer) text(s string) {
	if s != "" {
		l.pieces = append(l.pieces, piece{kind: 't', text: s, line: l.line})
	}
}

// skip moves over n bytes and counts lines.
func (l *lexer) skip(n int) {
	l.line += strings.Count(l.rest[:n], "\n")
	if n > 0 {
		l.lineStart = l.rest[n-1] == '\n'
	}
	l.rest = l.rest[n:]
}

// tag handles the text before place at and the tag there.
func (l *lexer) tag(at int) {
	text, kind, sign := l.rest[:at], l.rest[at+1], byte(0)
	if at+2 < len(l.rest) {
		sign = l.rest[at+2]
	}
	switch lineAt := strings.LastIndexByte(text, '\n') + 1; {
	case sign == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case sign != '+' && kind != '{' && (lineAt > 0 || l.lineStart) && strings.TrimFunc(text[lineAt:], isSpace) == "":
		text = text[:lineAt]
	}
	l.text(text)
	l.skip(at)
	if m := rawBegin.FindString(l.rest); m != "" {
		l.raw(m)
		return
	}
	switch kind {
	case '#':
		end := strings.Index(l.rest, "#}")
		if end < 0 {
			failf(ErrTemplate, "line %d: comment without end", l.line)
		}
		l.close(l.rest[end-1], end+2, true)
	case '{':
		l.expression('v', "}}")
	default:
		l.expression('b', "%}")
	}
}

// close moves behind the tag that ends at place end, and over the whitespace
// that sign, its last character, or trim_blocks eats.
func (l *lexer) close(sign byte, end int, block bool) {
	l.skip(end)
	switch {
	case sign == '-':
		l.skip(len(l.rest) - len(strings.TrimLeftFunc(l.rest, isSpace)))
	case block && sign != '+' && strings.HasPrefix(l.rest, "\n"):
		l.skip(1)
	}
}

// raw copies what is between raw and endraw.
func (l *lexer) raw(begin string) {
	l.close(begin[len(begin)-3], len(begin), false)
	at := rawEnd.FindStringSubmatchIndex(l.rest)
	if at == nil {
		failf(ErrTemplate, "line %d: raw without endraw", l.line)
	}
	text := l.rest[:at[0]]
	switch lineAt := strings.LastIndexByte(text, '\n') + 1; {
	case l.rest[at[2]:at[3]] == "-":
		text = strings.TrimRightFunc(text, isSpace)
	case l.rest[at[2]:at[3]] == "" && (lineAt > 0 || l.lineStart) && strings.TrimFunc(text[lineAt:], isSpace) == "":
		text = text[:lineAt]
	}
	l.text(text)
	l.close((l.rest[at[4]:at[5]] + " ")[0], at[1], true)
}

// expression reads the tokens up to end.
func (l *lexer) expression(kind byte, end string) {
	p := piece{kind: kind, line: l.line}
	l.skip(2)
	if l.rest != "" && (l.rest[0] == '-' || l.rest[0] == '+') {
		l.skip(1)
	}
	depth := 0
	for {
		l.skip(len(l.rest) - len(strings.TrimLeftFunc(l.rest, isSpace)))
		if l.rest == "" {
			failf(ErrTemplate, "line %d: tag without %s", p.line, end)
		}
		for _, sign := range []string{"-", "+", ""} {
			if depth == 0 && strings.HasPrefix(l.rest, sign+end) && !(sign == "+" && kind == 'v') {
				l.close((sign + " ")[0], len(sign)+2, kind == 'b')
				l.pieces = append(l.pieces, p)
				return
			}
		}
		t := l.token()
		switch t.text {
		case "(", "[", "{":
			if t.kind == 'o' {
				depth++
			}
		case ")", "]", "}":
			if t.kind == 'o' {
				depth--
			}
		}
		if depth > maxNesting {
			failf(ErrTemplate, "line %d: nested deeper than %d", l.line, maxNesting)
		}
		p.tokens = append(p.tokens, t)
	}
}

// token reads one token at the front.
func (l *lexer) token() token {
	line := l.line
	take := func(kind byte, n int) token {
		text := l.rest[:n]
		l.skip(n)
		return token{kind, text, line}
	}
	if m := nameToken.FindString(l.rest); m != "" {
		return take('n', len(m))
	}
	if m := floatToken.FindString(l.rest); m != "" {
		return take('f', len(m))
	}
	if m := intToken.FindString(l.rest); m != "" {
		return take('i', len(m))
	}
	if q := l.rest[0]; q == '\'' || q == '"' {
		for i := 1; i < len(l.rest); i++ {
			if l.rest[i] == '\\' {
				i++
			} else if l.rest[i] == q {
				t := take('s', i+1)
				t.text = unescape(t.text[1 : len(t.text)-1])
				return t
			}
		}
		failf(ErrTemplate, "line %d: text without end", line)
	}
	for _, op := range operators {
		if strings.HasPrefix(l.rest, op) {
			return take('o', len(op))
		}
	}
	r, _ := utf8.DecodeRuneInString(l.rest)
	failf(ErrTemplate, "line %d: unexpected %q", line, r)
	return token{}
}

var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': `"`, 'a': "\a",
	'b': "\b", 'f': "\f", 'v': "\v", '0': "\x00", '\n': ""}

// unescape reads Python's escapes; an unknown one stays as it is.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if by, ok := escapes[s[i]]; ok {
			b.WriteString(by)
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		if digits > 0 && i+digits < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32); err == nil {
				b.WriteRune(rune(n))
				i += digits
				continue
			}
		}
		b.WriteByte('\\')
		b.WriteByte(s[i])
	}
	return b.String()
}
