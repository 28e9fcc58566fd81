package answer

import (
	"fmt"
	"math/big"
	"strings"
)

// sum and what binds stronger.
func (p *parser) sum() (*node, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	n, err := p.product()
	if err != nil {
		return nil, err
	}
	for count := 0; ; count++ {
		sign := p.peek().text
		if p.peek().kind != aSign || sign != "+" && sign != "-" && sign != "±" && sign != "∓" {
			return n, nil
		}
		p.at++
		next, err := p.product()
		if err != nil {
			return nil, err
		}
		switch sign {
		case "+":
			n = apply(opAdd, n, next)
		case "-":
			n = apply(opAdd, n, apply(opNegate, next))
		case "±":
			n = apply(opAdd, n, apply(opEither, next, apply(opNegate, next)))
		case "∓":
			n = apply(opAdd, n, apply(opEither, apply(opNegate, next), next))
		}
		if count > 4*maxItems {
			return nil, ErrLarge
		}
	}
}

// product multiplies and divides from left to right; things that stand side by side are
// multiplied and bind as tight as a written sign.
func (p *parser) product() (*node, error) {
	n, err := p.signed()
	if err != nil {
		return nil, err
	}
	for count := 0; ; count++ {
		o := opMultiply
		switch {
		case p.take("*"):
		case p.take("/"):
			o = opDivide
		case !p.startsFactor():
			return n, nil
		}
		var next *node
		if next, err = p.signed(); err != nil {
			return nil, err
		}
		n = apply(o, n, next)
		if count > 4*maxItems {
			return nil, ErrLarge
		}
	}
}

// startsFactor tells whether a factor follows without a sign.
func (p *parser) startsFactor() bool {
	t := p.peek()
	switch t.kind {
	case aSymbol:
		return !t.upright
	case aFunction, aBegin:
		return true
	case aNumber: // x 2 is no product unless something closes before
		before := p.tokens[p.at-1]
		return before.kind == aSign && (before.text == "!" || before.text == ")" || before.text == "}" || before.text == "]")
	case aSign:
		switch t.text {
		case "(", "[", "{", "⌊", "⌈":
			return true
		case "|":
			return p.bars == 0
		}
	}
	return false
}

func (p *parser) signed() (*node, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	switch {
	case p.take("-"):
		n, err := p.signed()
		return apply(opNegate, n), err
	case p.take("+"):
		return p.signed()
	case p.is("±") || p.is("∓"):
		p.at++
		n, err := p.signed()
		return apply(opEither, n, apply(opNegate, n)), err
	}
	return p.power()
}

func (p *parser) power() (*node, error) {
	n, err := p.postfix()
	if err != nil || !p.is("^") && !p.is("^super") {
		return n, err
	}
	p.at++
	exponent, err := p.signed()
	if err != nil {
		return nil, err
	}
	n = apply(opPower, n, exponent)
	for p.take("!") {
		n = apply(opFactorial, n)
	}
	return p.marks(n), nil
}

// marks takes what follows a value: percent and degrees.
func (p *parser) marks(n *node) *node {
	for {
		switch {
		case p.take("%"):
			n = apply(opPercent, n)
		case p.is("°"):
			p.at++
			if t := p.peek(); t.kind == aSymbol && (t.text == "C" || t.text == "F") {
				p.at++
				return &node{op: opMeasured, args: []*node{n}, name: "°" + t.text}
			}
			n = apply(opDegree, n)
		default:
			return n
		}
	}
}

func (p *parser) postfix() (*node, error) {
	n, err := p.primary()
	if err != nil {
		return nil, err
	}
	for p.take("!") {
		n = apply(opFactorial, n)
	}
	return p.marks(n), nil
}

func (p *parser) primary() (*node, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	t := p.peek()
	switch t.kind {
	case aNumber:
		return p.number()
	case aSymbol:
		p.at++
		if t.text == "set R" {
			return &node{op: opBracket, name: "()", args: []*node{apply(opNegate, apply(opInfinity)), apply(opInfinity)}}, nil
		}
		return &node{op: opSymbol, name: t.text}, nil
	case aFunction:
		p.at++
		return p.function(t.text)
	case aBegin:
		return p.matrix()
	case aSign:
		return p.bracketed(t.text)
	}
	return nil, fmt.Errorf("%w: %.20q", ErrSyntax, t.text)
}

// number reads a number, a mixed number or digits in a base.
func (p *parser) number() (*node, error) {
	t := *p.peek()
	p.at++
	r, err := rational(t.text)
	if err != nil {
		return nil, err
	}
	if t.repeat != "" {
		if r, err = repeating(r, t); err != nil {
			return nil, err
		}
	}
	n := &node{op: opNumber, rat: r, name: t.base}
	if r.IsInt() && t.base == "" && !strings.ContainsAny(t.text, ".e") {
		part, err := p.fractionPart()
		if err != nil {
			return nil, err
		}
		if part != nil {
			n = apply(opAdd, n, part)
		}
	}
	return n, nil
}

// fractionPart takes the proper fraction of a mixed number: \frac{1}{2}, 1/2 or ½.
func (p *parser) fractionPart() (*node, error) {
	t := p.peek()
	at := p.at
	switch {
	case t.kind == aNumber && strings.Contains(t.text, "/"):
		p.at++
		r, err := rational(t.text)
		return &node{op: opNumber, rat: r}, err
	case t.kind == aNumber && t.space && at+2 < len(p.tokens) && p.tokens[at+1].text == "/" && p.tokens[at+2].kind == aNumber && p.tokens[at+2].base == "":
		above, err := rational(t.text)
		if err != nil {
			return nil, err
		}
		below, err := rational(p.tokens[at+2].text)
		if err != nil {
			return nil, err
		}
		if above.IsInt() && below.IsInt() && above.Cmp(below) < 0 {
			p.at += 3
			return &node{op: opNumber, rat: new(big.Rat).Quo(above, below)}, nil
		}
	case t.kind == aFunction && t.text == "frac":
		p.at++
		n, err := p.function("frac")
		if err != nil {
			return nil, err
		}
		above, below := n.args[0], n.args[1]
		if above.op == opNumber && below.op == opNumber && above.rat.IsInt() && below.rat.IsInt() && above.rat.Sign() > 0 && above.rat.Cmp(below.rat) < 0 {
			return n, nil
		}
		p.undo(at)
	}
	return nil, nil
}

// undo goes back to a token that was tried. Splitting digits for \frac12 keeps the tokens
// equivalent, so reading them again gives the same.
func (p *parser) undo(at int) { p.at = at }

// repeating turns 0.1\overline{6} into its rational. r holds the digits before the bar.
func repeating(r *big.Rat, t token) (*big.Rat, error) {
	bar, moved := strings.CutPrefix(t.repeat, ".")
	if bar == "" || len(bar) > 100 || strings.Trim(bar, "0123456789") != "" {
		return nil, fmt.Errorf("%w: repeating digits %.20q", ErrSyntax, bar)
	}
	places := len(t.text) - strings.IndexByte(t.text, '.') - 1
	if moved {
		places = 0
	}
	digits, _ := new(big.Int).SetString(bar, 10)
	below := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(bar))), nil)
	below.Sub(below, big.NewInt(1))
	below.Mul(below, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil))
	return new(big.Rat).Add(r, new(big.Rat).SetFrac(digits, below)), nil
}
