package answer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind of a token.
type kind byte

const (
	atEnd     kind = iota
	aNumber        // text is a rational for big.Rat: 12, 1.5, 1/2, 1e5
	aSymbol        // a letter with its index, or a named letter
	aFunction      // a named function or one of frac, sqrt, binom
	aWord          // text, not mathematics
	aSign          // an operator or bracket
	aBegin         // begin of a matrix
	anEnd          // end of a matrix
)

type token struct {
	kind  kind
	text  string
	space bool // a gap stands before it
	// upright marks a single letter in text font: a unit behind a number.
	upright bool
	// base of a number with an index: 1011_2.
	base string
	// repeat holds the digits under the bar of a repeating decimal.
	repeat string
}

// lexer cuts a text into tokens.
type lexer struct {
	text      string
	at        int
	tokens    []token
	space     bool
	depth     int  // round, square and set brackets around
	thousands bool // a comma before three digits belongs to the number
	grouped   bool // that happened
}

func (l *lexer) rest() string { return l.text[l.at:] }

func (l *lexer) add(t token) {
	t.space, l.space = l.space, false
	l.tokens = append(l.tokens, t)
}

func (l *lexer) sign(text string) {
	switch text {
	case "(", "[", `\{`:
		l.depth++
	case ")", "]", `\}`:
		l.depth--
	}
	l.add(token{kind: aSign, text: text})
}

// last returns the token before, nil at the start.
func (l *lexer) last() *token {
	if len(l.tokens) == 0 {
		return nil
	}
	return &l.tokens[len(l.tokens)-1]
}

func (l *lexer) run() error {
	for l.at < len(l.text) {
		if len(l.tokens) > maxTokens {
			return ErrLarge
		}
		if err := l.next(); err != nil {
			return err
		}
	}
	return nil
}

// asciiSigns are operators and brackets of one byte.
const asciiSigns = "+-*/^(){}[]|,;:<>=!%&"

func (l *lexer) next() error {
	r, size := utf8.DecodeRuneInString(l.rest())
	switch {
	case r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '~' || r == '\u00a0':
		l.at += size
		l.space = true
	case r >= '0' && r <= '9', r == '.' && l.at+1 < len(l.text) && isDigit(l.text[l.at+1]):
		return l.number()
	case r == '\\':
		return l.command()
	case r < utf8.RuneSelf && unicode.IsLetter(r):
		l.letters()
	case r == '$':
		l.at++
		l.dollar()
	case r == '_':
		return l.index()
	case r == '^' && l.degree():
	case strings.HasPrefix(l.rest(), "**"):
		l.at += 2
		l.sign("^")
	case strings.HasPrefix(l.rest(), "<="), strings.HasPrefix(l.rest(), ">="), strings.HasPrefix(l.rest(), "!="), strings.HasPrefix(l.rest(), "=="):
		l.sign(map[string]string{"<=": "≤", ">=": "≥", "!=": "≠", "==": "="}[l.rest()[:2]])
		l.at += 2
	case r == '\'' && l.last() != nil && l.last().kind == aSymbol:
		l.at++
		l.last().text += "'"
	case r == '.' && strings.TrimSpace(l.rest()[1:]) == "":
		l.at = len(l.text)
	case r < utf8.RuneSelf && strings.ContainsRune(asciiSigns, r):
		l.at++
		l.sign(string(r))
	default:
		if r == utf8.RuneError {
			return fmt.Errorf("%w: a byte that is no text", ErrSyntax)
		}
		l.at += size
		return l.foreign(r)
	}
	return nil
}

// dollar takes a currency sign: one before a number. Others are delimiters.
func (l *lexer) dollar() {
	if rest := strings.TrimLeft(l.rest(), ` \!,`); rest != "" && (isDigit(rest[0]) || rest[0] == '.' || rest[0] == '-') && strings.Count(l.text, "$")%2 == 1 {
		l.sign("$")
	}
}

// degree takes `^\circ` in its spellings.
func (l *lexer) degree() bool {
	rest := strings.TrimLeft(l.rest()[1:], " ")
	for _, form := range []string{`{\circ}`, `{\,\circ}`, `{ \circ }`, `\circ`, `\degree`, "∘", "{°}"} {
		if strings.HasPrefix(rest, form) {
			l.at = len(l.text) - len(rest) + len(form)
			l.sign("°")
			return true
		}
	}
	return false
}

// letters takes a run of letters: a word, a function or a product of symbols.
func (l *lexer) letters() {
	rest := l.rest()
	n := 0
	for n < len(rest) && (rest[n] >= 'a' && rest[n] <= 'z' || rest[n] >= 'A' && rest[n] <= 'Z') {
		n++
	}
	run := rest[:n]
	l.at += n
	switch {
	case l.named(run):
	case isWord(run):
		l.add(token{kind: aWord, text: run})
	default:
		for i := range run {
			l.add(token{kind: aSymbol, text: run[i : i+1]})
		}
	}
}

// named takes a run of letters that means something, with or without a backslash.
func (l *lexer) named(run string) bool {
	if name, ok := symbolNames[run]; ok {
		l.add(token{kind: aSymbol, text: name})
		return true
	}
	if functionNames[run] {
		l.add(token{kind: aFunction, text: run})
		return true
	}
	switch run {
	case "and", "or":
		l.sign("and")
	case "infinity", "inf", "oo", "infty":
		l.sign("∞")
	default:
		return false
	}
	return true
}

// isWord tells words from products of letters: longer than three letters, a unit, or one
// of the usual short answers.
func isWord(run string) bool {
	return len(run) > 3 || len(run) > 1 && (knownUnit(run) || shortWords[strings.ToLower(run)])
}

var shortWords = map[string]bool{"yes": true, "no": true, "odd": true, "sq": true, "per": true, "the": true, "is": true, "all": true, "a.m": true}

// index takes what `_` attaches to: a letter or the base of a number. A logarithm's base
// is left to the parser.
func (l *lexer) index() error {
	l.at++
	last := l.last()
	if last == nil || last.kind != aSymbol && last.kind != aNumber || last.base != "" {
		l.sign("_")
		return nil
	}
	text, err := l.argument()
	if err != nil {
		return err
	}
	text = strings.NewReplacer(" ", "", `\text`, "", "{", "", "}", "").Replace(text)
	if last.kind == aNumber {
		last.base = text
	} else {
		last.text += "_" + text
	}
	return nil
}

// argument takes a raw macro argument: a group without its braces, a command or one
// character.
func (l *lexer) argument() (string, error) {
	l.at = len(l.text) - len(strings.TrimLeft(l.rest(), " "))
	rest := l.rest()
	if rest == "" {
		return "", fmt.Errorf("%w: something is missing at the end", ErrSyntax)
	}
	if rest[0] == '{' {
		end := closing(rest[1:])
		if end < 0 {
			return "", fmt.Errorf("%w: a brace never closes", ErrSyntax)
		}
		l.at += end + 2
		return rest[1 : 1+end], nil
	}
	_, size := utf8.DecodeRuneInString(rest)
	if rest[0] == '\\' {
		size = 1 + letterRun(rest[1:])
	}
	l.at += size
	return rest[:size], nil
}

func letterRun(text string) int {
	n := 0
	for n < len(text) && (text[n] >= 'a' && text[n] <= 'z' || text[n] >= 'A' && text[n] <= 'Z') {
		n++
	}
	return n
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }
