package answer

import (
	"fmt"
	"slices"
	"strings"
)

// bracketed reads what begins with a bracket or another sign.
func (p *parser) bracketed(open string) (*node, error) {
	p.at++
	switch open {
	case "(", "[":
		return p.round(open)
	case "{":
		n, err := p.items()
		if err != nil {
			return nil, err
		}
		return n, p.need("}")
	case `\{`:
		return p.set()
	case "|":
		p.bars++
		n, err := p.sum()
		if err != nil {
			return nil, err
		}
		p.bars--
		return call("abs", n), p.need("|")
	case "⌊", "⌈":
		name, end := "floor", "⌋"
		if open == "⌈" {
			name, end = "ceil", "⌉"
		}
		n, err := p.sum()
		if err != nil {
			return nil, err
		}
		return call(name, n), p.need(end)
	case "∞":
		return apply(opInfinity), nil
	case "∅":
		return apply(opSet), nil
	}
	return nil, fmt.Errorf("%w: %q", ErrSyntax, open)
}

func (p *parser) set() (*node, error) {
	if p.take(`\}`) {
		return apply(opSet), nil
	}
	n, err := p.items()
	if err != nil {
		return nil, err
	}
	if n.op == opList {
		return apply(opSet, n.args...), p.need(`\}`)
	}
	return apply(opSet, n), p.need(`\}`)
}

// round reads a group, a tuple or an interval.
func (p *parser) round(open string) (*node, error) {
	bars := p.bars
	p.bars = 0
	n, err := p.items()
	p.bars = bars
	if err != nil {
		return nil, err
	}
	end := p.peek().text
	if p.peek().kind != aSign || end != ")" && end != "]" {
		return nil, fmt.Errorf("%w: a bracket never closes", ErrSyntax)
	}
	p.at++
	list := n.op == opList
	switch {
	case !list && (open == "(") != (end == ")"):
		return nil, fmt.Errorf("%w: brackets %s%s", ErrSyntax, open, end)
	case !list:
		return n, nil
	}
	if (open == "(") != (end == ")") && len(n.args) != 2 {
		return nil, fmt.Errorf("%w: brackets %s%s", ErrSyntax, open, end)
	}
	return &node{op: opBracket, name: open + end, args: n.args}, nil
}

// matrix reads rows of cells.
func (p *parser) matrix() (*node, error) {
	name := p.peek().text
	p.at++
	m := &node{op: opMatrix, name: name}
	row := apply(opList)
	cells := 0
	for {
		if t := p.peek(); t.kind == anEnd && t.text == name && len(row.args) == 0 && len(m.args) > 0 { // a \\ before the end
			break
		}
		cell, err := p.relation()
		if err != nil {
			return nil, err
		}
		if cells++; cells > maxItems {
			return nil, ErrLarge
		}
		row.args = append(row.args, cell)
		if p.take("&") {
			continue
		}
		m.args = append(m.args, row)
		row = apply(opList)
		if !p.take(`\\`) {
			break
		}
	}
	if t := p.peek(); t.kind != anEnd || t.text != name {
		return nil, fmt.Errorf("%w: a matrix never ends", ErrSyntax)
	}
	p.at++
	if name == "cases" && cells == len(m.args) { // a system of equations
		for i, row := range m.args {
			m.args[i] = row.args[0]
		}
		return apply(opList, m.args...), nil
	}
	return m, nil
}

// function reads the arguments of a function.
func (p *parser) function(name string) (*node, error) {
	switch name {
	case "frac", "binom":
		above, err := p.argument()
		if err != nil {
			return nil, err
		}
		if p.take(",") { // binom(5, 2) in plain text
			return nil, fmt.Errorf("%w: arguments of %s", ErrSyntax, name)
		}
		below, err := p.argument()
		if err != nil {
			return nil, err
		}
		if name == "frac" {
			return apply(opDivide, above, below), nil
		}
		return call(name, above, below), nil
	case "sqrt":
		degree := whole(2)
		if p.take("[") {
			n, err := p.sum()
			if err != nil {
				return nil, err
			}
			if err := p.need("]"); err != nil {
				return nil, err
			}
			degree = n
		}
		n, err := p.primary()
		return call("root", degree, n), err
	case "cbrt":
		n, err := p.primary()
		return call("root", whole(3), n), err
	}
	return p.named(name)
}

// argument reads one argument of \frac: a group, a letter or one digit.
func (p *parser) argument() (*node, error) {
	if t := p.peek(); t.kind == aNumber && len(t.text) > 1 && strings.Trim(t.text, "0123456789") == "" {
		first, rest := *t, *t
		first.text, first.base = t.text[:1], ""
		rest.text, rest.space = t.text[1:], false
		p.tokens[p.at] = first
		p.tokens = slices.Insert(p.tokens, p.at+1, rest)
	}
	if t := p.peek(); t.kind == aNumber {
		p.at++
		r, err := rational(t.text)
		return &node{op: opNumber, rat: r, name: t.base}, err
	}
	return p.primary()
}

// named reads a function with an optional base, power and its argument, which ends
// before a sign or another function when it has no brackets.
func (p *parser) named(name string) (*node, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	var base, power *node
	var err error
	if p.take("_") {
		if base, err = p.primary(); err != nil {
			return nil, err
		}
	}
	if p.take("^") || p.take("^super") {
		if power, err = p.signed(); err != nil {
			return nil, err
		}
	}
	grouped := p.is("(") || p.is("{") || p.is("|") || p.is("[")
	n, err := p.signedFactor()
	if err != nil {
		return nil, err
	}
	for !grouped && p.startsFactor() && p.peek().kind != aFunction && !p.is("(") {
		next, err := p.power()
		if err != nil {
			return nil, err
		}
		n = apply(opMultiply, n, next)
	}
	result := call(name, n)
	if base != nil {
		result = call(name, n, base)
	}
	if power != nil {
		if power.op == opNegate && power.args[0].op == opNumber && power.args[0].rat.Cmp(one) == 0 { // \sin^{-1}
			return call("arc"+name, n), nil
		}
		result = apply(opPower, result, power)
	}
	return result, nil
}

// signedFactor reads the first factor of an argument: brackets alone, or a power.
func (p *parser) signedFactor() (*node, error) {
	if p.is("(") || p.is("{") || p.is("[") {
		return p.primary()
	}
	if p.take("-") {
		n, err := p.power()
		return apply(opNegate, n), err
	}
	return p.power()
}
