package jinja

import (
	"slices"
	"strings"
)

// node is a statement or an expression.
type node interface{}

// Statements.
type (
	textNode struct{ text string }
	outNode  struct{ value node }
	ifNode   struct {
		tests  []node
		bodies [][]node // one more than tests when there is an else
	}
	forNode struct {
		targets  []string
		items    node
		filter   node // nil for none
		body     []node
		fallback []node // else
	}
	setNode struct {
		targets []string
		field   string // of a namespace, "" for a plain variable
		value   node
		body    []node // {% set x %}body{% endset %} when value is nil
	}
	macroNode struct {
		name     string
		params   []string
		defaults []node // of the last params
		body     []node
	}
	jumpNode struct{ leave bool } // break or continue
)

// parser reads pieces; expressions are read by expr.go from tokens.
type parser struct {
	pieces []piece
	at     int
	depth  int
	loops  int

	tokens []token
	pos    int
	line   int
}

// keyword returns the first word of a block.
func (p piece) keyword() string {
	if p.kind == 'b' && len(p.tokens) > 0 {
		return p.tokens[0].text
	}
	return ""
}

// enders close or continue a body and are left to who opened it.
var enders = []string{"elif", "else", "endif", "endfor", "endset", "endmacro", "endgeneration"}

// body reads statements up to a block of enders, or the end.
func (p *parser) body() []node {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxNesting {
		failf(ErrLimit, "blocks nested deeper than %d", maxNesting)
	}
	var list []node
	for p.at < len(p.pieces) {
		piece := p.pieces[p.at]
		switch {
		case piece.kind == 't':
			list = append(list, textNode{piece.text})
			p.at++
		case piece.kind == 'v':
			p.open(0)
			list = append(list, outNode{p.tuple()})
			p.close()
		case slices.Contains(enders, piece.keyword()):
			return list
		default:
			list = append(list, p.statement(piece)...)
		}
	}
	return list
}

// open starts reading the tokens of the current piece, skipping some.
func (p *parser) open(skip int) {
	piece := p.pieces[p.at]
	p.tokens, p.pos, p.line = piece.tokens, skip, piece.line
}

// close checks that the piece is used up and moves on.
func (p *parser) close() {
	if t := p.peek(); t.kind != 0 {
		failf(ErrTemplate, "line %d: unexpected %q", p.line, t.text)
	}
	p.at++
}

func (p *parser) statement(piece piece) []node {
	p.open(1)
	switch piece.keyword() {
	case "if":
		return []node{p.ifStatement()}
	case "for":
		return []node{p.forStatement()}
	case "set":
		return []node{p.setStatement()}
	case "macro":
		return []node{p.macroStatement()}
	case "break", "continue":
		if p.loops == 0 {
			failf(ErrTemplate, "line %d: %s outside of a loop", piece.line, piece.keyword())
		}
		p.close()
		return []node{jumpNode{piece.keyword() == "break"}}
	case "generation": // marks what an assistant wrote; renders as its body
		p.close()
		body := p.body()
		p.end("endgeneration", piece)
		return body
	case "":
		failf(ErrTemplate, "line %d: empty block", piece.line)
	}
	failf(ErrUnsupported, "line %d: statement %q", piece.line, piece.keyword())
	return nil
}

// end expects a block that is nothing but word.
func (p *parser) end(word string, begin piece) {
	if p.at == len(p.pieces) || p.pieces[p.at].keyword() != word {
		failf(ErrTemplate, "line %d: %s without %s", begin.line, begin.keyword(), word)
	}
	p.open(1)
	if word == "endmacro" || word == "endset" {
		p.accept('n', p.peek().text) // the name may be repeated
	}
	p.close()
}

func (p *parser) ifStatement() node {
	begin := p.pieces[p.at]
	var n ifNode
	for {
		n.tests = append(n.tests, p.tuple())
		p.close()
		n.bodies = append(n.bodies, p.body())
		if p.at == len(p.pieces) || p.pieces[p.at].keyword() != "elif" {
			break
		}
		p.open(1)
	}
	if p.at < len(p.pieces) && p.pieces[p.at].keyword() == "else" {
		p.open(1)
		p.close()
		n.bodies = append(n.bodies, p.body())
	}
	p.end("endif", begin)
	return n
}

func (p *parser) forStatement() node {
	begin := p.pieces[p.at]
	var n forNode
	n.targets = p.targets()
	p.expect('n', "in")
	n.items = p.tupleOf(p.or)
	if p.accept('n', "if") {
		n.filter = p.expression()
	}
	if p.accept('n', "recursive") {
		failf(ErrUnsupported, "line %d: recursive loop", p.line)
	}
	p.close()
	p.loops++
	n.body = p.body()
	p.loops--
	if p.at < len(p.pieces) && p.pieces[p.at].keyword() == "else" {
		p.open(1)
		p.close()
		n.fallback = p.body()
	}
	p.end("endfor", begin)
	return n
}

// targets reads a, b or (a, b).
func (p *parser) targets() []string {
	paren := p.accept('o', "(")
	names := []string{p.name()}
	for p.accept('o', ",") {
		names = append(names, p.name())
	}
	if paren {
		p.expect('o', ")")
	}
	return names
}

func (p *parser) setStatement() node {
	begin := p.pieces[p.at]
	n := setNode{targets: p.targets()}
	if p.accept('o', ".") {
		n.field = p.name()
	}
	if p.accept('o', "=") {
		n.value = p.tuple()
		p.close()
		return n
	}
	if p.peek().text == "|" {
		failf(ErrUnsupported, "line %d: set block with a filter", p.line)
	}
	p.close()
	n.body = p.body()
	p.end("endset", begin)
	return n
}

func (p *parser) macroStatement() node {
	begin := p.pieces[p.at]
	n := macroNode{name: p.name()}
	p.expect('o', "(")
	for !p.accept('o', ")") {
		n.params = append(n.params, p.name())
		switch {
		case p.accept('o', "="):
			n.defaults = append(n.defaults, p.expression())
		case len(n.defaults) > 0:
			failf(ErrTemplate, "line %d: macro %s: %s has no default", p.line, n.name, n.params[len(n.params)-1])
		}
		if !p.accept('o', ",") {
			p.expect('o', ")")
			break
		}
	}
	p.close()
	loops := p.loops
	p.loops = 0
	n.body = p.body()
	p.loops = loops
	p.end("endmacro", begin)
	return n
}

// peek returns the next token, of kind 0 at the end.
func (p *parser) peek() token {
	if p.pos < len(p.tokens) {
		return p.tokens[p.pos]
	}
	return token{line: p.line}
}

func (p *parser) next() token {
	t := p.peek()
	if t.kind == 0 {
		failf(ErrTemplate, "line %d: the tag ends too early", p.line)
	}
	p.pos++
	p.line = t.line
	return t
}

// accept moves over a token when it is the next.
func (p *parser) accept(kind byte, text string) bool {
	if t := p.peek(); t.kind == 0 || t.kind != kind || t.text != text {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(kind byte, text string) {
	if !p.accept(kind, text) {
		failf(ErrTemplate, "line %d: %q where %q should be", p.line, p.peek().text, text)
	}
}

// reserved words are no names.
var reserved = strings.Fields("and or not in is if else elif for true false none True False None")

func (p *parser) name() string {
	t := p.next()
	if t.kind != 'n' || slices.Contains(reserved, t.text) {
		failf(ErrTemplate, "line %d: %q where a name should be", p.line, t.text)
	}
	return t.text
}
