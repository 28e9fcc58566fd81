package starlark

// comparing are the signs that Python chains.
var comparing = map[string]bool{"<": true, ">": true, "<=": true, ">=": true, "==": true, "!=": true}

// parting ends an operand of a comparison on the level of its brackets.
var parting = map[string]bool{",": true, ":": true, ";": true, "=": true, "and": true, "or": true, "not": true, "if": true, "else": true,
	"elif": true, "while": true, "for": true, "in": true, "return": true, "lambda": true, "+=": true, "-=": true, "*=": true, "/=": true,
	"//=": true, "**=": true, "%=": true, ":=": true, "assert": true, "pass": true}

// comparisons writes a < b < c as (a < b and b < c). b is evaluated twice, which a
// program only notices when b prints.
func comparisons(list []lexeme) []lexeme {
	type operand struct {
		from  int   // first lexeme of the expression
		signs []int // comparing signs in it
	}
	open := []operand{{}}
	opens, closes := map[int]bool{}, map[int]bool{} // brackets to add before and behind a lexeme
	repeats := map[int][]lexeme{}                   // what replaces a sign
	finish := func(o operand, to int) {
		from, last := after(list, o.from), before(list, to-1)
		if len(o.signs) < 2 || from > last {
			return
		}
		opens[from], closes[last] = true, true
		for i, at := range o.signs[1:] {
			middle := list[o.signs[i]+1 : at]
			repeats[at] = append(append([]lexeme{{name, " and "}}, middle...), list[at])
		}
	}
	for i, l := range list {
		top := &open[len(open)-1]
		switch {
		case l.is("(") || l.is("[") || l.is("{"):
			open = append(open, operand{from: i + 1})
		case l.is(")") || l.is("]") || l.is("}"):
			if len(open) == 1 {
				return list // not balanced: the interpreter will say so
			}
			finish(*top, i)
			open = open[:len(open)-1]
		case parting[l.text] && l.kind != atom, l.kind == newline && len(open) == 1:
			finish(*top, i)
			*top = operand{from: i + 1}
		case comparing[l.text] && l.kind == sign:
			top.signs = append(top.signs, i)
		}
	}
	if len(open) > 1 {
		return list
	}
	finish(open[0], len(list))
	var out []lexeme
	for i, l := range list {
		if opens[i] {
			out = append(out, lexeme{sign, "("})
		}
		if repeats[i] != nil {
			out = append(out, repeats[i]...)
		} else {
			out = append(out, l)
		}
		if closes[i] {
			out = append(out, lexeme{sign, ")"})
		}
	}
	return out
}

// templates turns "text".format(...) into a call of a function that knows format specs.
func templates(list []lexeme) []lexeme {
	var out []lexeme
	for i := 0; i < len(list); i++ {
		quoted := list[i].kind == atom && len(list[i].text) > 1 && (list[i].text[0] == '"' || list[i].text[0] == '\'')
		if quoted && i+3 < len(list) && list[i+1].is(".") && list[i+2].is("format") && list[i+3].is("(") {
			out = append(out, lexeme{name, "format_map"}, lexeme{sign, "("}, list[i], lexeme{sign, ","})
			i += 3
			continue
		}
		out = append(out, list[i])
	}
	return out
}
