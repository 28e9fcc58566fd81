package answer

import (
	"fmt"
	"strings"
	"unicode"
)

// command takes what begins with a backslash.
func (l *lexer) command() error {
	rest := l.rest()
	if len(rest) < 2 {
		l.at = len(l.text)
		return nil
	}
	n := letterRun(rest[1:])
	if n == 0 {
		l.at += 2
		return l.escape(rest[1])
	}
	name := rest[1 : 1+n]
	l.at += 1 + n
	switch {
	case skipped[name]:
		l.space = l.space || strings.HasSuffix(name, "quad")
		return nil
	case signs[name] != "":
		l.sign(signs[name])
		return nil
	case fonts[name]:
		return l.font(name)
	case accents[name]:
		text, err := l.argument()
		if err != nil {
			return err
		}
		l.add(token{kind: aSymbol, text: name + " " + squash(text)})
		return nil
	case name == "begin" || name == "end":
		text, err := l.argument()
		if err != nil {
			return err
		}
		if !strings.HasSuffix(text, "matrix") && text != "array" && text != "cases" {
			return fmt.Errorf("%w: environment %.20s", ErrSyntax, text)
		}
		if name == "begin" && text == "array" {
			if _, err := l.argument(); err != nil { // its columns
				return err
			}
		}
		l.add(token{kind: map[string]kind{"begin": aBegin, "end": anEnd}[name], text: strings.TrimSuffix(text, "matrix")})
		return nil
	case fractions[name] != "":
		l.add(token{kind: aFunction, text: fractions[name]})
		return nil
	case l.named(name):
		return nil
	case greek[strings.ToLower(name)]:
		l.add(token{kind: aSymbol, text: name})
		return nil
	}
	return fmt.Errorf("%w: command %.20s", ErrSyntax, name)
}

// escape takes a backslash with a character that is no letter.
func (l *lexer) escape(c byte) error {
	switch c {
	case ',', '!', ';', ':', ' ', '\n', '>':
		l.space = l.space || c == ' ' || c == '\n'
	case '{', '}':
		l.sign(`\` + string(c))
	case '|':
		l.sign("|")
	case '%':
		l.sign("%")
	case '$':
		l.sign("$")
	case '\\':
		l.sign(`\\`)
	case '(', ')', '[', ']': // delimiters of mathematics
	case '&', '#', '_':
		return fmt.Errorf(`%w: \%c`, ErrSyntax, c)
	default:
		return fmt.Errorf(`%w: a backslash`, ErrSyntax)
	}
	return nil
}

// font takes text in another font: words, a letter, or mathematics again.
func (l *lexer) font(name string) error {
	text, err := l.argument()
	if err != nil {
		return err
	}
	trimmed := strings.Trim(text, " ~\n\t")
	switch {
	case name == "mathbb":
		l.add(token{kind: aSymbol, text: "set " + trimmed})
	case trimmed == "":
		l.space = true
	case len(trimmed) == 1 && unicode.IsLetter(rune(trimmed[0])):
		l.add(token{kind: aSymbol, text: trimmed, upright: true})
	case trimmed == "and" || trimmed == "or" || trimmed == ", and" || trimmed == ", or":
		l.sign("and")
	case (name == "operatorname" || name == "mathrm") && l.named(trimmed):
	case !strings.ContainsFunc(trimmed, unicode.IsLetter) || strings.ContainsRune(`\0123456789.-`, rune(trimmed[0])):
		l.text = trimmed + " " + l.rest()
		l.at = 0
	default:
		l.add(token{kind: aWord, text: trimmed})
	}
	return nil
}

// foreign takes a character beyond ASCII.
func (l *lexer) foreign(r rune) error {
	switch {
	case unicodeSigns[r] != "":
		l.sign(unicodeSigns[r])
	case unicodeHalves[r] != "":
		l.add(token{kind: aNumber, text: unicodeHalves[r]})
	case unicodePowers[r] != 0:
		if last := l.last(); last != nil && last.kind == aNumber && len(l.tokens) > 1 && l.tokens[len(l.tokens)-2].text == "^super" {
			last.text += string(unicodePowers[r])
			return nil
		}
		l.add(token{kind: aSign, text: "^super"})
		l.add(token{kind: aNumber, text: string(unicodePowers[r])})
	case r == '√':
		l.add(token{kind: aFunction, text: "sqrt"})
	case r == 'π':
		l.add(token{kind: aSymbol, text: "pi"})
	case r == 'ℝ':
		l.add(token{kind: aSymbol, text: "set R"})
	case unicode.IsLetter(r):
		n := strings.IndexFunc(l.rest(), func(r rune) bool { return !unicode.IsLetter(r) })
		if n < 0 {
			n = len(l.rest())
		}
		text := string(r) + l.rest()[:n]
		l.at += n
		k := aWord
		if n == 0 {
			k = aSymbol
		}
		l.add(token{kind: k, text: text})
	case unicode.IsSpace(r) || r == '\u200b' || r == '\u2061':
		l.space = true
	default:
		return fmt.Errorf("%w: %q", ErrSyntax, r)
	}
	return nil
}
