package starlark

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxNesting bounds expressions in strings in expressions.
const maxNesting = 4

// maxPowers bounds how often ** is rewritten; each costs a pass over the program.
const maxPowers = 200

// translate turns habits of Python into Starlark, keeping the lines: imports of known
// modules, f-strings, "..".format, **, `is`, chained comparisons, and generator
// expressions, which become lists.
func translate(program string) (string, error) { return nested(program, 0) }

func nested(program string, depth int) (string, error) {
	if depth > maxNesting {
		return "", errors.New("strings in strings in strings")
	}
	list := imports(scan(strings.ReplaceAll(program, "\r\n", "\n")))
	for i, l := range list {
		if l.kind != atom || !strings.ContainsAny(prefix(l.text), "fFuU") {
			continue
		}
		text, err := formatted(l.text, depth)
		if err != nil {
			return "", err
		}
		list[i].text = text
	}
	list = comparisons(generators(identities(templates(list))))
	list, err := powers(list)
	return join(list), err
}

// prefix is what stands before the quote of a string, "" for other atoms.
func prefix(text string) string {
	if at := strings.IndexAny(text, `"'`); at >= 0 && at <= 2 {
		return text[:at]
	}
	return ""
}

// imports replaces import statements. What is imported is there already; a name of its own
// is assigned, an unknown module fails where it is imported.
func imports(list []lexeme) []lexeme {
	var out []lexeme
	for i := 0; i < len(list); i++ {
		start := i == 0 || list[i-1].kind == newline || list[i-1].is(";") || list[i-1].kind == gap && (i == 1 || list[i-2].kind == newline || list[i-2].is(";"))
		if !start || !list[i].is("import") && !list[i].is("from") {
			out = append(out, list[i])
			continue
		}
		end := i
		for end < len(list) && list[end].kind != newline && !list[end].is(";") {
			if list[end].is("(") {
				if close := partner(list, end); close > 0 {
					end = close
				}
			}
			end++
		}
		statement := join(list[i:end])
		lines := strings.Count(statement, "\n")
		out = append(out, lexeme{atom, importStatement(strings.Fields(strings.NewReplacer("(", " ", ")", " ", ",", " , ").Replace(statement)))})
		for range lines {
			out = append(out, lexeme{newline, "\n"})
		}
		i = end - 1
	}
	return out
}

var modules = map[string]bool{"math": true, "itertools": true, "functools": true}

// importStatement is what an import becomes.
func importStatement(words []string) string {
	var parts []string
	module := ""
	from := words[0] == "from"
	words = words[1:]
	if from {
		if len(words) < 3 || words[1] != "import" {
			return `fail("import not understood")`
		}
		module = words[0]
		words = words[2:]
		if !modules[module] {
			return fmt.Sprintf("fail(%q)", "No module named "+module)
		}
		if words[0] == "*" {
			return "pass"
		}
	}
	for _, item := range strings.Split(strings.Join(words, " "), ",") {
		fields := strings.Fields(item)
		if len(fields) == 0 {
			continue
		}
		called := fields[len(fields)-1]
		switch {
		case from:
			parts = append(parts, called+" = "+module+"."+fields[0])
		case !modules[fields[0]]:
			return fmt.Sprintf("fail(%q)", "No module named "+fields[0])
		case called != fields[0]:
			parts = append(parts, called+" = "+fields[0])
		}
	}
	if parts == nil {
		return "pass"
	}
	return strings.Join(parts, "; ")
}

// formatted turns an f-string into a sum of its parts.
func formatted(text string, depth int) (string, error) {
	before := prefix(text)
	raw := strings.ToLower(strings.Trim(before, "fFuU"))
	body := text[len(before):]
	if !strings.ContainsAny(before, "fF") {
		return raw + body, nil
	}
	quote := body[:1]
	if strings.HasPrefix(body, quote+quote+quote) {
		quote = body[:3]
	}
	if len(body) < 2*len(quote) || !strings.HasSuffix(body, quote) {
		return text, nil
	}
	body = body[len(quote) : len(body)-len(quote)]
	parts := []string{raw + quote + quote}
	literal := ""
	flush := func() {
		if literal != "" {
			parts = append(parts, raw+quote+literal+quote)
			literal = ""
		}
	}
	for len(body) > 0 {
		switch {
		case strings.HasPrefix(body, "{{"), strings.HasPrefix(body, "}}"):
			literal += body[:1]
			body = body[2:]
		case body[0] == '{':
			end := fieldEnd(body)
			if end < 0 {
				return "", errors.New("f-string: a brace never closes")
			}
			field, err := formatField(body[1:end], depth)
			if err != nil {
				return "", err
			}
			flush()
			parts = append(parts, field)
			body = body[end+1:]
		case body[0] == '\\' && len(body) > 1:
			literal += body[:2]
			body = body[2:]
		default:
			literal += body[:1]
			body = body[1:]
		}
	}
	flush()
	return "(" + strings.Join(parts, " + ") + ")", nil
}

// fieldEnd is the index of the brace that closes the field at the start.
func fieldEnd(body string) int {
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '(', '[':
			depth++
		case '}', ')', ']':
			if depth--; depth == 0 {
				return i
			}
		case '"', '\'':
			i += stringLength(body[i:]) - 1
		}
	}
	return -1
}

// formatField is one {expression[=][!r][:spec]} of an f-string.
func formatField(field string, depth int) (string, error) {
	list := scan(field)
	level, cut := 0, len(list)
	for i, l := range list {
		if l.kind != sign {
			continue
		}
		if strings.Contains("([{", l.text) {
			level++
		} else if strings.Contains(")]}", l.text) {
			level--
		} else if level == 0 && (l.text == ":" || l.text == "!") {
			cut = i
			break
		}
	}
	expression, rest := join(list[:cut]), join(list[cut:])
	label := ""
	if trimmed := strings.TrimRight(expression, " "); strings.HasSuffix(trimmed, "=") && !strings.HasSuffix(trimmed, "==") {
		label = strconv.Quote(expression) + " + "
		expression = strings.TrimSuffix(trimmed, "=")
	}
	inner, err := nested(expression, depth+1)
	if err != nil {
		return "", err
	}
	inner = "(" + inner + ")"
	if conversion, ok := strings.CutPrefix(rest, "!"); ok {
		if strings.HasPrefix(conversion, "r") {
			inner = "repr" + inner
		}
		rest = strings.TrimLeft(conversion, "rsa")
	}
	return label + "format(" + inner + ", " + strconv.Quote(strings.TrimPrefix(rest, ":")) + ")", nil
}

// identities turns `is` into a comparison.
func identities(list []lexeme) []lexeme {
	for i := range list {
		if !list[i].is("is") {
			continue
		}
		list[i].text = "=="
		if next := after(list, i+1); next < len(list) && list[next].is("not") {
			list[i].text, list[next].text = "!=", ""
		}
	}
	return list
}

// generators puts square brackets into round ones that hold a `for` of their own.
func generators(list []lexeme) []lexeme {
	var open []int // brackets around, by index
	loops := map[int]bool{}
	for i, l := range list {
		switch {
		case l.kind == sign && strings.Contains("([{", l.text):
			open = append(open, i)
		case l.kind == sign && strings.Contains(")]}", l.text) && len(open) > 0:
			open = open[:len(open)-1]
		case l.is("for") && len(open) > 0 && list[open[len(open)-1]].text == "(":
			loops[open[len(open)-1]] = true
		}
	}
	for i := range list {
		if !loops[i] {
			continue
		}
		if end := partner(list, i); end > 0 {
			list[i].text, list[end].text = "([", "])"
		}
	}
	// The signs are scanned again, since they have two characters now.
	var again []lexeme
	for _, l := range list {
		if l.text == "([" || l.text == "])" {
			again = append(again, lexeme{sign, l.text[:1]}, lexeme{sign, l.text[1:]})
			continue
		}
		again = append(again, l)
	}
	return again
}

// powers turns a ** b into pow(a, b), the last one first: it binds to the right and
// stronger than a sign on its left.
func powers(list []lexeme) ([]lexeme, error) {
	count := 0
	for i := len(list) - 1; i >= 0; i-- {
		if !list[i].is("**") {
			continue
		}
		last := before(list, i-1)
		if last < 0 || list[last].is("(") || list[last].is(",") || list[last].is("lambda") { // **kwargs
			continue
		}
		if count++; count > maxPowers {
			return nil, fmt.Errorf("more than %d powers", maxPowers)
		}
		from, to := operandStart(list, last), operandEnd(list, after(list, i+1))
		if from < 0 || to < 0 {
			continue
		}
		text := "pow(" + join(list[from:i]) + "," + join(list[i+1:to]) + ")"
		list = append(append(append([]lexeme{}, list[:from]...), lexeme{atom, text}), list[to:]...)
		i = from
	}
	return list, nil
}

var keywords = map[string]bool{"and": true, "or": true, "not": true, "in": true, "is": true, "if": true, "else": true, "elif": true, "while": true,
	"for": true, "return": true, "lambda": true}

// operandStart is where the operand that ends at i begins: a primary with what is called,
// indexed or selected.
func operandStart(list []lexeme, i int) int {
	for i >= 0 {
		switch {
		case list[i].is(")"), list[i].is("]"), list[i].is("}"):
			if i = partner(list, i); i <= 0 {
				return i
			}
			p := before(list, i-1)
			if list[i].text == "{" || p < 0 || list[p].kind == sign && !strings.Contains(")]", list[p].text) || list[p].kind == name && keywords[list[p].text] || list[i-1].kind == newline {
				return i
			}
			i = p
		case list[i].kind == name || list[i].kind == atom:
			p := before(list, i-1)
			if p < 0 || !list[p].is(".") {
				return i
			}
			i = before(list, p-1)
		default:
			return -1
		}
	}
	return -1
}

// operandEnd is behind the operand that begins at i, signs before it included.
func operandEnd(list []lexeme, i int) int {
	for i < len(list) && (list[i].is("-") || list[i].is("+") || list[i].is("~")) {
		i = after(list, i+1)
	}
	if i >= len(list) {
		return -1
	}
	if list[i].kind == sign && strings.Contains("([{", list[i].text) {
		if i = partner(list, i); i < 0 {
			return -1
		}
	} else if list[i].kind != name && list[i].kind != atom {
		return -1
	}
	i++
	for i < len(list) {
		switch {
		case list[i].is("(") || list[i].is("["):
			if i = partner(list, i); i < 0 {
				return -1
			}
			i++
		case list[i].is(".") && i+1 < len(list) && list[i+1].kind == name:
			i += 2
		default:
			return i
		}
	}
	return i
}
