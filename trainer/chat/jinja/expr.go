package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// Expressions.
type (
	constNode struct{ value Value }
	nameNode  struct{ name string }
	listNode  struct {
		items []node
		tuple bool
	}
	dictNode struct{ keys, values []node }
	attrNode struct {
		value node
		name  string
	}
	itemNode  struct{ value, key node }
	sliceNode struct{ value, from, to, step node } // nil where absent
	callNode  struct {
		value node
		args  argNodes
	}
	filterNode struct {
		value node
		name  string
		args  argNodes
	}
	testNode struct {
		value  node
		name   string
		args   argNodes
		negate bool
	}
	condNode   struct{ test, then, otherwise node } // otherwise nil: undefined
	notNode    struct{ value node }
	negNode    struct{ value node }
	binaryNode struct {
		op          string
		left, right node
	}
	compareNode struct {
		first node
		ops   []string
		rest  []node
	}
	argNodes struct {
		positional []node
		names      []string
		named      []node
	}
)

// expression reads one expression with its conditional.
func (p *parser) expression() node {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > 2*maxNesting {
		failf(ErrLimit, "line %d: expression nested deeper than %d", p.line, maxNesting)
	}
	value := p.or()
	for p.accept('n', "if") {
		n := condNode{then: value, test: p.or()}
		if p.accept('n', "else") {
			n.otherwise = p.expression()
		}
		value = n
	}
	return value
}

// tuple reads an expression or several with commas.
func (p *parser) tuple() node { return p.tupleOf(p.expression) }

func (p *parser) tupleOf(part func() node) node {
	first := part()
	if p.peek().text != "," || p.peek().kind != 'o' {
		return first
	}
	list := listNode{items: []node{first}, tuple: true}
	for p.accept('o', ",") {
		if t := p.peek(); t.kind == 0 || t.kind == 'o' && strings.Contains(")]}", t.text) {
			break
		}
		list.items = append(list.items, part())
	}
	return list
}

// binary reads a left-associative level of operators.
func (p *parser) binary(kind byte, ops []string, next func() node) node {
	left := next()
	for t := p.peek(); t.kind == kind && slices.Contains(ops, t.text); t = p.peek() {
		p.next()
		left = binaryNode{t.text, left, next()}
	}
	return left
}

func (p *parser) or() node  { return p.binary('n', []string{"or"}, p.and) }
func (p *parser) and() node { return p.binary('n', []string{"and"}, p.not) }

func (p *parser) not() node {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > 2*maxNesting {
		failf(ErrLimit, "line %d: expression nested deeper than %d", p.line, maxNesting)
	}
	if p.accept('n', "not") {
		return notNode{p.not()}
	}
	return p.comparison()
}

func (p *parser) comparison() node {
	n := compareNode{first: p.sum()}
	for {
		t := p.peek()
		op := t.text
		switch {
		case t.kind == 'o' && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, op):
			p.next()
		case p.accept('n', "in"):
		case t.kind == 'n' && op == "not" && p.pos+1 < len(p.tokens) && p.tokens[p.pos+1].text == "in":
			p.next()
			p.next()
			op = "not in"
		default:
			if len(n.ops) == 0 {
				return n.first
			}
			return n
		}
		n.ops = append(n.ops, op)
		n.rest = append(n.rest, p.sum())
	}
}

func (p *parser) sum() node     { return p.binary('o', []string{"+", "-"}, p.concat) }
func (p *parser) concat() node  { return p.binary('o', []string{"~"}, p.product) }
func (p *parser) product() node { return p.binary('o', []string{"*", "/", "//", "%"}, p.power) }
func (p *parser) power() node {
	return p.binary('o', []string{"**"}, func() node { return p.unary(true) })
}

func (p *parser) unary(filters bool) node {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > 2*maxNesting {
		failf(ErrLimit, "line %d: expression nested deeper than %d", p.line, maxNesting)
	}
	var n node
	switch {
	case p.accept('o', "-"):
		n = negNode{p.unary(false)}
	case p.accept('o', "+"):
		n = p.unary(false)
	default:
		n = p.postfix(p.primary())
	}
	if filters {
		n = p.filters(n)
	}
	return n
}

func (p *parser) primary() node {
	t := p.next()
	switch t.kind {
	case 's':
		for p.peek().kind == 's' {
			t.text += p.next().text
		}
		return constNode{t.text}
	case 'i':
		n, err := strconv.ParseInt(strings.ReplaceAll(t.text, "_", ""), 10, 64)
		if err != nil {
			failf(ErrUnsupported, "line %d: integer %s", t.line, t.text)
		}
		return constNode{n}
	case 'f':
		x, err := strconv.ParseFloat(strings.ReplaceAll(t.text, "_", ""), 64)
		if err != nil {
			failf(ErrUnsupported, "line %d: number %s", t.line, t.text)
		}
		return constNode{x}
	case 'n':
		switch t.text {
		case "true", "True":
			return constNode{true}
		case "false", "False":
			return constNode{false}
		case "none", "None":
			return constNode{nil}
		}
		if !slices.Contains(reserved, t.text) {
			return nameNode{t.text}
		}
	}
	switch t.text {
	case "(":
		if p.accept('o', ")") {
			return listNode{tuple: true}
		}
		n := p.tuple()
		p.expect('o', ")")
		return n
	case "[":
		return listNode{items: p.items("]")}
	case "{":
		return p.dict()
	}
	failf(ErrTemplate, "line %d: unexpected %q", t.line, t.text)
	return nil
}

// items reads expressions with commas up to end.
func (p *parser) items(end string) []node {
	var list []node
	for !p.accept('o', end) {
		list = append(list, p.expression())
		if !p.accept('o', ",") {
			p.expect('o', end)
			break
		}
	}
	return list
}

func (p *parser) dict() node {
	var n dictNode
	for !p.accept('o', "}") {
		n.keys = append(n.keys, p.expression())
		p.expect('o', ":")
		n.values = append(n.values, p.expression())
		if !p.accept('o', ",") {
			p.expect('o', "}")
			break
		}
	}
	return n
}

// postfix reads attributes, items, slices and calls.
func (p *parser) postfix(n node) node {
	for {
		switch {
		case p.accept('o', "."):
			t := p.next()
			switch t.kind {
			case 'n':
				n = attrNode{n, t.text}
			case 'i':
				index, _ := strconv.ParseInt(t.text, 10, 64)
				n = itemNode{n, constNode{index}}
			default:
				failf(ErrTemplate, "line %d: attribute %q", t.line, t.text)
			}
		case p.accept('o', "["):
			n = p.subscript(n)
		case p.accept('o', "("):
			n = callNode{n, p.arguments()}
		default:
			return n
		}
	}
}

func (p *parser) subscript(n node) node {
	var parts [3]node
	colons := 0
	for !p.accept('o', "]") {
		switch {
		case p.accept('o', ":"):
			colons++
			if colons > 2 {
				failf(ErrTemplate, "line %d: slice of more than three parts", p.line)
			}
		case parts[colons] != nil:
			failf(ErrTemplate, "line %d: unexpected %q", p.line, p.peek().text)
		default:
			parts[colons] = p.expression()
		}
	}
	switch {
	case colons > 0:
		return sliceNode{n, parts[0], parts[1], parts[2]}
	case parts[0] == nil:
		failf(ErrTemplate, "line %d: empty subscript", p.line)
	}
	return itemNode{n, parts[0]}
}

// arguments reads up to the closing parenthesis.
func (p *parser) arguments() argNodes {
	var a argNodes
	for !p.accept('o', ")") {
		if t := p.peek(); t.kind == 'o' && (t.text == "*" || t.text == "**") {
			failf(ErrUnsupported, "line %d: %s arguments", p.line, t.text)
		}
		if p.pos+1 < len(p.tokens) && p.peek().kind == 'n' && p.tokens[p.pos+1].text == "=" && p.tokens[p.pos+1].kind == 'o' {
			a.names = append(a.names, p.next().text)
			p.next()
			a.named = append(a.named, p.expression())
		} else {
			if len(a.names) > 0 {
				failf(ErrTemplate, "line %d: positional argument after a named one", p.line)
			}
			a.positional = append(a.positional, p.expression())
		}
		if !p.accept('o', ",") {
			p.expect('o', ")")
			break
		}
	}
	return a
}

// filters reads what follows a value: filters and tests.
func (p *parser) filters(n node) node {
	for {
		switch {
		case p.accept('o', "|"):
			f := filterNode{value: n, name: p.dotted()}
			if _, ok := filters[f.name]; !ok {
				failf(ErrUnsupported, "line %d: filter %q", p.line, f.name)
			}
			if p.accept('o', "(") {
				f.args = p.arguments()
			}
			n = f
		case p.accept('n', "is"):
			n = p.test(n)
		default:
			return n
		}
	}
}

// dotted reads the name of a filter or test.
func (p *parser) dotted() string {
	t := p.next()
	if t.kind != 'n' {
		failf(ErrTemplate, "line %d: %q where a name should be", p.line, t.text)
	}
	return t.text
}

// test reads [not] name and its argument, which may stand without parentheses.
func (p *parser) test(n node) node {
	t := testNode{value: n, negate: p.accept('n', "not")}
	t.name = p.dotted()
	if _, ok := tests[t.name]; !ok {
		failf(ErrUnsupported, "line %d: test %q", p.line, t.name)
	}
	next := p.peek()
	switch {
	case p.accept('o', "("):
		t.args = p.arguments()
	case next.kind == 's' || next.kind == 'i' || next.kind == 'f' || next.kind == 'o' && (next.text == "[" || next.text == "{"),
		next.kind == 'n' && !slices.Contains([]string{"else", "or", "and", "is", "if", "in", "not"}, next.text):
		t.args.positional = []node{p.postfix(p.primary())}
	}
	return t
}
