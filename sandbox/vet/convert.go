package vet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// conversion is one place where a value becomes an interface.
type conversion struct {
	expr     ast.Expr
	from, to types.Type
	kept     bool // may be looked at after the statement
}

// conversions calls f for every conversion of a concrete value to an interface.
func (p *program) conversions(f func(c conversion)) {
	for _, c := range p.made {
		f(c)
	}
}

func (p *program) findConversions(f func(c conversion)) {
	emit := func(e ast.Expr, to types.Type, kept bool) {
		if e == nil || to == nil || !isInterface(to) {
			return
		}
		from := p.typeOf(e)
		if b, ok := from.(*types.Basic); ok && b.Kind() == types.UntypedNil || isInterface(from) || from == types.Typ[types.Invalid] {
			return
		}
		f(conversion{e, from, to, kept})
	}
	ast.Inspect(p.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.ASSIGN && len(n.Lhs) == len(n.Rhs) {
				for i, l := range n.Lhs {
					emit(n.Rhs[i], p.typeOf(l), true)
				}
			}
		case *ast.ValueSpec:
			for i, v := range n.Values {
				if n.Type != nil && len(n.Names) == len(n.Values) {
					emit(v, p.typeOf(n.Names[i]), true)
				}
			}
		case *ast.ReturnStmt:
			results := p.results(n)
			for i, r := range n.Results {
				if results.Len() == len(n.Results) {
					emit(r, results.At(i).Type(), true)
				}
			}
		case *ast.CallExpr:
			p.arguments(n, emit)
		case *ast.CompositeLit:
			p.elements(n, emit)
		case *ast.IndexExpr:
			if m, ok := under(p.typeOf(n.X)).(*types.Map); ok {
				emit(n.Index, m.Key(), false)
			}
		}
		return true
	})
}

func (p *program) arguments(c *ast.CallExpr, emit func(ast.Expr, types.Type, bool)) {
	if p.info.Types[c.Fun].IsType() {
		if len(c.Args) == 1 {
			emit(c.Args[0], p.typeOf(c.Fun), true)
		}
		return
	}
	switch p.builtin(c) {
	case "append":
		if s, ok := under(p.typeOf(c)).(*types.Slice); ok && !c.Ellipsis.IsValid() {
			for _, a := range c.Args[1:] {
				emit(a, s.Elem(), true)
			}
		}
		return
	case "panic":
		emit(c.Args[0], types.NewInterfaceType(nil, nil), false)
		return
	case "":
	default:
		return
	}
	signature, ok := under(p.typeOf(c.Fun)).(*types.Signature)
	if !ok {
		return
	}
	path, _ := p.standard(c)
	kept := path == "" || path == kitPath
	for i, a := range c.Args {
		params := signature.Params()
		switch {
		case signature.Variadic() && i >= params.Len()-1:
			if s, ok := params.At(params.Len() - 1).Type().(*types.Slice); ok && !c.Ellipsis.IsValid() {
				emit(a, s.Elem(), kept)
			}
		case i < params.Len():
			emit(a, params.At(i).Type(), kept)
		}
	}
}

func (p *program) elements(l *ast.CompositeLit, emit func(ast.Expr, types.Type, bool)) {
	t := under(p.typeOf(l))
	if pointer, ok := t.(*types.Pointer); ok {
		t = under(pointer.Elem())
	}
	for i, e := range l.Elts {
		value := e
		pair, keyed := e.(*ast.KeyValueExpr)
		if keyed {
			value = pair.Value
		}
		switch t := t.(type) {
		case *types.Slice:
			emit(value, t.Elem(), true)
		case *types.Array:
			emit(value, t.Elem(), true)
		case *types.Map:
			if keyed {
				emit(pair.Key, t.Key(), true)
			}
			emit(value, t.Elem(), true)
		case *types.Struct:
			if keyed {
				emit(value, p.typeOf(pair.Key), true)
			} else if i < t.NumFields() {
				emit(value, t.Field(i).Type(), true)
			}
		}
	}
}

// results are the results of the function around a node.
func (p *program) results(n ast.Node) *types.Tuple {
	switch f := p.function(n).(type) {
	case *ast.FuncDecl:
		if o, ok := p.info.Defs[f.Name].(*types.Func); ok {
			return o.Type().(*types.Signature).Results()
		}
	case *ast.FuncLit:
		if s, ok := p.typeOf(f).(*types.Signature); ok {
			return s.Results()
		}
	}
	return types.NewTuple()
}
