package answer

import "strings"

// number takes digits with separators of thousands, a fraction part, a repeating part and
// an exponent.
func (l *lexer) number() error {
	var digits strings.Builder
	n := l.digits(&digits)
	if n > 0 && n <= 3 {
		for l.thousand(&digits) {
		}
	}
	t := token{kind: aNumber}
	if rest := l.rest(); strings.HasPrefix(rest, ".") && len(rest) > 1 && (isDigit(rest[1]) || overBar(rest[1:]) > 0) {
		l.at++
		if digits.Len() == 0 {
			digits.WriteByte('0')
		}
		digits.WriteByte('.')
		if l.digits(&digits) == 0 {
			digits.WriteByte('0') // 0.\overline{3}: moves the bar one digit, undone below
			t.repeat = "."
		}
		if n := overBar(l.rest()); n > 0 {
			l.at += n
			bar, err := l.argument()
			if err != nil {
				return err
			}
			t.repeat += bar
		}
	}
	l.exponent(&digits)
	t.text = strings.TrimLeft(digits.String(), "0") // 025 is no octal number
	if t.text == "" || t.text[0] == '.' || t.text[0] == 'e' || t.text[0] == 'E' {
		t.text = "0" + t.text
	}
	l.add(t)
	return nil
}

// digits takes a run of digits and returns its length.
func (l *lexer) digits(to *strings.Builder) int {
	n := 0
	for rest := l.rest(); n < len(rest) && isDigit(rest[n]); n++ {
		to.WriteByte(rest[n])
	}
	l.at += n
	return n
}

// overBar is the length of the command of a repeating part.
func overBar(text string) int {
	for _, command := range []string{`\overline`, `\bar`, `\dot`} {
		if strings.HasPrefix(text, command) {
			return len(command)
		}
	}
	return 0
}

// certain separators can't be anything else, the others may separate a list.
var certain = []string{`{,}\!`, `{,}`, `,\!`, `\!,`, `\,`, `\!`}
var uncertain = []string{`,`, ` `, `\ `, `~`}

// thousand takes a separator with exactly three digits.
func (l *lexer) thousand(to *strings.Builder) bool {
	rest := l.rest()
	for i, list := range [][]string{certain, uncertain} {
		if i == 1 && (!l.thousands || l.depth > 0) {
			break
		}
		for _, separator := range list {
			tail, ok := strings.CutPrefix(rest, separator)
			if !ok || len(tail) < 3 || !isDigit(tail[0]) || !isDigit(tail[1]) || !isDigit(tail[2]) || len(tail) > 3 && isDigit(tail[3]) {
				continue
			}
			if len(tail) > 3 && tail[3] == '/' && separator != "," {
				continue // 3 100/200
			}
			to.WriteString(tail[:3])
			l.at += len(separator) + 3
			l.grouped = l.grouped || i == 1
			return true
		}
	}
	return false
}

// exponent takes the e+05 of a printed number.
func (l *lexer) exponent(to *strings.Builder) {
	rest := l.rest()
	if len(rest) < 2 || rest[0] != 'e' && rest[0] != 'E' {
		return
	}
	n := 1
	if rest[n] == '+' || rest[n] == '-' {
		n++
	}
	from := n
	for n < len(rest) && isDigit(rest[n]) {
		n++
	}
	if n == from || n-from > 4 {
		return
	}
	to.WriteString(rest[:n])
	l.at += n
}
