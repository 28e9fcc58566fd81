package vet

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"slices"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/lower"
)

// File is the name that positions in messages carry.
const file = "harness.go"

// Prepare lowers a source (package lower) and judges what came out: the text to run; or
// *engine.LoadError for the first finding, or a fault of the host (this binary holds no
// types).
func Prepare(source string) (lowered string, err error) {
	text, findings, err := judge(source)
	if err != nil {
		return "", err
	}
	if len(findings) > 0 {
		return "", findings[0]
	}
	return text, nil
}

// Check is Prepare for those who only want to know.
func Check(source string) error {
	_, err := Prepare(source)
	return err
}

// List gives everything that is wrong with a source after lowering, in the order of the
// text, with positions in the source. A source that fails one step is not looked at by
// the next.
func List(source string) ([]*engine.LoadError, error) {
	_, findings, err := judge(source)
	return findings, err
}

func judge(source string) (lowered string, findings []*engine.LoadError, err error) {
	p, findings := read(source)
	if len(findings) > 0 {
		return "", findings, nil
	}
	if p, err = p.lower(); err != nil || len(p.found) > 0 {
		return "", p.sorted(), err
	}
	p.judge()
	return p.text.Source, p.sorted(), nil
}

// judge lets every rule look.
func (p *program) judge() {
	p.collect()
	for _, r := range Rules {
		p.rule = r
		r.find(p)
	}
}

// read takes a source through the steps that need no types.
func read(source string) (*program, []*engine.LoadError) {
	if len(source) > maxSource {
		return nil, []*engine.LoadError{{Rule: "size", Reason: fmt.Sprintf("source of %d bytes, at most %d", len(source), maxSource),
			Hint: "leave out tables and prompts that are not needed"}}
	}
	if at, deep := tooDeep(source); deep {
		return nil, []*engine.LoadError{{Line: at.Line, Column: at.Column, Rule: "size",
			Reason: fmt.Sprintf("brackets nested deeper than %d", maxDepth), Hint: "split the expression"}}
	}
	p := &program{fset: token.NewFileSet(), text: lower.New(source), source: source}
	var err error
	if p.file, err = parse(p.fset, source); err != nil {
		return nil, syntaxErrors(err)
	}
	if depth(p.file) > maxNodes {
		return nil, []*engine.LoadError{{Rule: "size", Reason: "expression of too many parts", Hint: "split it"}}
	}
	contract(p)
	return p, p.sorted()
}

func parse(fset *token.FileSet, source string) (*ast.File, error) {
	return parser.ParseFile(fset, file, source, parser.SkipObjectResolution|parser.ParseComments)
}

// lower type-checks the source as it is written, and gives the lowered one, type-checked.
func (p *program) lower() (*program, error) {
	if err := check(p); err != nil || len(p.found) > 0 {
		return p, err
	}
	q := p
	lower.Rewrite(p.checked(), func(text lower.Text) (lower.Checked, bool) {
		next := &program{fset: token.NewFileSet(), text: text, source: p.source}
		var err error
		if next.file, err = parse(next.fset, text.Source); err != nil || depth(next.file) > maxNodes {
			return lower.Checked{}, false
		}
		if err := check(next); err != nil || len(next.found) > 0 {
			return lower.Checked{}, false
		}
		q = next
		return q.checked(), true
	})
	return q, nil
}

func (p *program) checked() lower.Checked {
	return lower.Checked{Text: p.text, Fset: p.fset, File: p.file, Pkg: p.pkg, Info: p.info}
}

// position is where a place of the lowered source was in the source.
func (p *program) position(pos token.Pos) token.Position {
	if !pos.IsValid() {
		return token.Position{}
	}
	at := p.text.Origin(p.fset.Position(pos).Offset)
	if p.lines == nil {
		p.lines = []int{0}
		for i := range len(p.source) {
			if p.source[i] == '\n' {
				p.lines = append(p.lines, i+1)
			}
		}
	}
	line, _ := slices.BinarySearch(p.lines, min(at, len(p.source))+1)
	return token.Position{Line: line, Column: at - p.lines[line-1] + 1}
}

// syntaxErrors turns the parser's errors into refusals.
func syntaxErrors(err error) (out []*engine.LoadError) {
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		return []*engine.LoadError{{Rule: "parse", Reason: err.Error()}}
	}
	for _, e := range list {
		out = append(out, &engine.LoadError{Line: e.Pos.Line, Column: e.Pos.Column, Rule: "parse", Reason: e.Msg})
	}
	return out
}

// Rule is one thing that a source must not do.
type Rule struct {
	Name string
	Why  string // what the interpreter does with it
	Hint string // what to write instead
	find func(p *program)
}

// program is a source under examination, and what was found in it.
type program struct {
	source string     // as written
	lines  []int      // where they begin in it, once asked for
	text   lower.Text // what is looked at
	fset   *token.FileSet
	file   *ast.File
	pkg    *types.Package
	info   *types.Info
	parent map[ast.Node]ast.Node
	vars   map[*types.Var]*variable
	rule   Rule // the one that is looking
	found  []finding

	nodes  []ast.Node // in the order of the text
	uses   map[types.Object][]*ast.Ident
	made   []lower.Conversion
	again  map[ast.Node]ast.Node         // function to its backward goto
	defers map[ast.Node][]*ast.DeferStmt // of each function

	userError bool // some type of the source is an error
	converted bool // some type with methods of the source is converted to any
	named     bool // some value whose type the source names becomes an interface and is kept
}

type finding struct {
	pos token.Pos
	err *engine.LoadError
}

// refuse records what the current rule found at a node.
func (p *program) refuse(n ast.Node, format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	if p.rule.Why != "" {
		reason += ": " + p.rule.Why
	}
	p.refuseAs(n, p.rule.Name, reason, p.rule.Hint)
}

func (p *program) refuseAs(n ast.Node, rule, reason, hint string) {
	at := p.position(n.Pos())
	p.found = append(p.found, finding{n.Pos(), &engine.LoadError{Line: at.Line, Column: at.Column, Rule: rule, Reason: reason, Hint: hint}})
}

func (p *program) sorted() (out []*engine.LoadError) {
	slices.SortFunc(p.found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.pos, b.pos), cmp.Compare(a.err.Rule, b.err.Rule), cmp.Compare(a.err.Reason, b.err.Reason))
	})
	for _, f := range p.found {
		out = append(out, f.err)
	}
	return out
}

// each calls f for every node of a type, after collect.
func each[N ast.Node](p *program, f func(n N)) {
	for _, n := range p.nodes {
		if n, ok := n.(N); ok {
			f(n)
		}
	}
}
