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
)

// File is the name that positions in messages carry.
const file = "harness.go"

// Check says why a source can't be run: nil, *engine.LoadError for the first finding, or
// a fault of the host (this binary holds no types).
func Check(source string) error {
	findings, err := List(source)
	if err != nil {
		return err
	}
	if len(findings) > 0 {
		return findings[0]
	}
	return nil
}

// List gives everything that is wrong with a source, in the order of the text. A source
// that fails one step is not looked at by the next.
func List(source string) ([]*engine.LoadError, error) {
	if len(source) > maxSource {
		return []*engine.LoadError{{Rule: "size", Reason: fmt.Sprintf("source of %d bytes, at most %d", len(source), maxSource),
			Hint: "leave out tables and prompts that are not needed"}}, nil
	}
	if at, deep := tooDeep(source); deep {
		return []*engine.LoadError{{Line: at.Line, Column: at.Column, Rule: "size",
			Reason: fmt.Sprintf("brackets nested deeper than %d", maxDepth), Hint: "split the expression"}}, nil
	}
	p := &program{fset: token.NewFileSet()}
	var err error
	if p.file, err = parser.ParseFile(p.fset, file, source, parser.SkipObjectResolution|parser.ParseComments); err != nil {
		return syntaxErrors(err), nil
	}
	if depth(p.file) > maxNodes {
		return []*engine.LoadError{{Rule: "size", Reason: "expression of too many parts", Hint: "split it"}}, nil
	}
	contract(p)
	if len(p.found) > 0 {
		return p.sorted(), nil
	}
	if err := check(p); err != nil || len(p.found) > 0 {
		return p.sorted(), err
	}
	p.collect()
	for _, r := range Rules {
		p.rule = r
		r.find(p)
	}
	return p.sorted(), nil
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
	fset   *token.FileSet
	file   *ast.File
	pkg    *types.Package
	info   *types.Info
	parent map[ast.Node]ast.Node
	vars   map[*types.Var]*variable
	rule   Rule // the one that is looking
	found  []finding

	userError bool // some type of the source is an error
	converted bool // some type with methods of the source is converted to any
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
	at := p.fset.Position(n.Pos())
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

// each calls f for every node of a type.
func each[N ast.Node](p *program, f func(n N)) {
	ast.Inspect(p.file, func(n ast.Node) bool {
		if n, ok := n.(N); ok {
			f(n)
		}
		return true
	})
}
