package answer

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode"
)

// parser builds a tree of tokens by recursive descent.
//
//	items    = relation { ("," | ";" | "and") relation }
//	relation = quantity { ("=" | "<" | "≤" | "∈" | ...) quantity }
//	quantity = ratio [ unit ] { "∪" quantity }
//	ratio    = sum { ":" sum }
//	sum      = product { ("+" | "-" | "±") product }
//	product  = signed { ["*" | "/"] signed }
//	signed   = { "-" | "+" | "±" } power
//	power    = postfix [ "^" signed ]
//	postfix  = primary { "!" | "%" | "°" }
type parser struct {
	tokens []token
	at     int
	depth  int
	bars   int // open absolute values: the next | closes
}

// parse reads a whole answer. What is no mathematics but words becomes text.
func parse(text string, thousands bool) (*node, bool, error) {
	if len(text) > maxBytes {
		return nil, false, ErrLarge
	}
	if strings.TrimSpace(text) == "" {
		return nil, false, ErrEmpty
	}
	l := &lexer{text: text, thousands: thousands}
	if err := l.run(); err != nil {
		return textual(text, l.tokens, err)
	}
	for len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].kind == aSign && strings.Contains(",;.", l.tokens[len(l.tokens)-1].text) {
		l.tokens = l.tokens[:len(l.tokens)-1]
	}
	p := &parser{tokens: l.tokens}
	n, err := p.items()
	if err == nil && p.at < len(p.tokens) {
		err = fmt.Errorf("%w at %q", ErrSyntax, p.peek().text)
	}
	if err != nil {
		n, _, err = textual(text, l.tokens, err)
	}
	return n, l.grouped, err
}

// textual makes text of an answer with words that is no mathematics.
func textual(text string, tokens []token, cause error) (*node, bool, error) {
	words := false
	for _, t := range tokens {
		words = words || t.kind == aWord
	}
	if !words || strings.Count(text, "{") != strings.Count(text, "}") {
		return nil, false, cause
	}
	return &node{op: opText, name: canonical(text)}, false, nil
}

// canonical is the form in which texts are compared: letters and digits, lower case,
// without fonts.
func canonical(text string) string {
	for _, command := range []string{`\text{`, `\textbf{`, `\textit{`, `\mathrm{`, `\mathbf{`, `\textrm{`, `\mbox{`, `\operatorname{`} {
		text = strings.ReplaceAll(text, command, "{")
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		if strings.ContainsRune(`+-/<>=^_.:\`, r) {
			return r
		}
		return -1
	}, strings.TrimRight(text, ". "))
}

var endToken = token{kind: atEnd}

func (p *parser) peek() *token {
	if p.at < len(p.tokens) {
		return &p.tokens[p.at]
	}
	return &endToken
}

func (p *parser) is(text string) bool { t := p.peek(); return t.kind == aSign && t.text == text }

func (p *parser) take(text string) bool {
	if p.is(text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) need(text string) error {
	if !p.take(text) {
		return fmt.Errorf("%w: %q is missing", ErrSyntax, text)
	}
	return nil
}

// enter counts depth; every recursion of the grammar passes through it.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return ErrLarge
	}
	return nil
}

func (p *parser) separator() bool {
	if !p.is(",") && !p.is(";") && !p.is("and") {
		return false
	}
	for p.is(",") || p.is(";") || p.is("and") {
		p.at++
	}
	return true
}

// items are what separators separate; one item is itself.
func (p *parser) items() (*node, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	first, err := p.relation()
	if err != nil {
		return nil, err
	}
	list := []*node{first}
	for p.separator() {
		next, err := p.relation()
		if err != nil {
			return nil, err
		}
		if list = append(list, next); len(list) > maxItems {
			return nil, ErrLarge
		}
	}
	if len(list) == 1 {
		return first, nil
	}
	return apply(opList, list...), nil
}

func (p *parser) relation() (*node, error) {
	first, err := p.quantity()
	if err != nil {
		return nil, err
	}
	r := apply(opRelation, first)
	for p.peek().kind == aSign && strings.Contains("= < > ≤ ≥ ≠ ∈", p.peek().text) {
		r.relations = append(r.relations, p.peek().text)
		p.at++
		side, err := p.quantity()
		if err != nil {
			return nil, err
		}
		if r.args = append(r.args, side); len(r.args) > maxItems {
			return nil, ErrLarge
		}
	}
	if len(r.args) == 1 {
		return first, nil
	}
	return r, nil
}

// quantity is a value with an optional unit; unions bind weaker.
func (p *parser) quantity() (*node, error) {
	currency := ""
	sign := p.at
	p.take("-")
	if p.is("$") || p.is("£") || p.is("€") {
		currency = p.peek().text
		p.tokens = slices.Delete(p.tokens, p.at, p.at+1)
	}
	p.at = sign
	n, err := p.ratio()
	if err != nil {
		return nil, err
	}
	if words := p.unit(); words != "" {
		n = measured(n, words)
		if currency != "" {
			n = bare(n)
		}
	}
	if currency != "" {
		n = &node{op: opMeasured, args: []*node{n}, name: currency}
	}
	if !p.is("∪") {
		return n, nil
	}
	union := apply(opUnion, n)
	for p.take("∪") {
		next, err := p.ratio()
		if err != nil {
			return nil, err
		}
		if union.args = append(union.args, next); len(union.args) > maxItems {
			return nil, ErrLarge
		}
	}
	return union, nil
}

// bare drops a unit behind a currency sign: `$5 dollars`, `$5 million`.
func bare(n *node) *node {
	if n.op == opMeasured {
		return n.args[0]
	}
	return n
}

// measured joins a value and the words behind it; words like million belong to the value.
func measured(n *node, words string) *node {
	fields := strings.Fields(words)
	for len(fields) > 0 && multipliers[strings.ToLower(fields[0])] != 0 {
		n = apply(opMultiply, n, whole(multipliers[strings.ToLower(fields[0])]))
		fields = fields[1:]
	}
	if len(fields) == 0 {
		return n
	}
	return &node{op: opMeasured, args: []*node{n}, name: strings.Join(fields, " ")}
}

// unit takes the words behind a value with their exponents: `square feet`, `cm^2`, `km/h`.
func (p *parser) unit() string {
	var words strings.Builder
	for {
		t := p.peek()
		next := &endToken
		if p.at+1 < len(p.tokens) {
			next = &p.tokens[p.at+1]
		}
		wordNext := next.kind == aWord || next.kind == aSymbol && next.upright
		switch {
		case t.kind == aWord, t.kind == aSymbol && t.upright:
			words.WriteString(" " + t.text)
		case t.kind == aSign && (t.text == "$" || t.text == "£" || t.text == "€" || t.text == "¢"):
			words.WriteString(" " + t.text)
		case words.Len() > 0 && t.kind == aSign && (t.text == "^" || t.text == "^super") && next.kind == aNumber:
			words.WriteString("^" + next.text)
			p.at++
		case words.Len() > 0 && t.kind == aSign && (t.text == "/" || t.text == "*") && (wordNext || next.kind == aSymbol):
			words.WriteString(t.text + next.text)
			p.at++
		case words.Len() > 0 && t.kind == aSign && t.text == "^" && p.at+3 < len(p.tokens) && next.text == "{" && p.tokens[p.at+2].kind == aNumber && p.tokens[p.at+3].text == "}":
			words.WriteString("^" + p.tokens[p.at+2].text)
			p.at += 3
		default:
			return strings.TrimSpace(words.String())
		}
		p.at++
	}
}

func (p *parser) ratio() (*node, error) {
	first, err := p.sum()
	if err != nil || !p.is(":") {
		return first, err
	}
	r := apply(opRatio, first)
	for p.take(":") {
		clock := p.peek().text // 3:05 is a time, 3:5 a ratio
		next, err := p.sum()
		if err != nil {
			return nil, err
		}
		if len(clock) == 2 && isDigit(clock[0]) {
			r.name = "clock"
		}
		if r.args = append(r.args, next); len(r.args) > maxItems {
			return nil, ErrLarge
		}
	}
	return r, nil
}

func rational(text string) (*big.Rat, error) {
	if len(text) > 2000 {
		return nil, ErrLarge
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || r.Num().BitLen()+r.Denom().BitLen() > maxBits {
		return nil, fmt.Errorf("%w: number %.20s", ErrSyntax, text)
	}
	return r, nil
}
