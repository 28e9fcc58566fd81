package vet

import (
	"go/ast"
	"go/token"
	"go/types"
)

var syntaxRules = []Rule{
	{Name: "PAREN", Why: "the function stops there", Hint: "leave out the parentheses", find: parenthesis},
	{Name: "METHOD-EXPR", Why: "it panics", Hint: "write a closure that calls the method", find: methodExpression},
	{Name: "LABEL", Why: "it does not compile", Hint: "give the label another name", find: label},
	{Name: "GENERIC", Why: "it does not compile or takes a wrong branch", Hint: "write it for the types you need", find: generic},
	{Name: "UNSUPPORTED", Why: "it does not compile", Hint: "write it in another way", find: unsupported},
}

func parenthesis(p *program) {
	each(p, func(e *ast.ParenExpr) {
		_, name := e.X.(*ast.Ident)
		b, ok := under(p.typeOf(e.X)).(*types.Basic)
		if name && ok && b.Info()&types.IsBoolean != 0 {
			p.refuse(e, "parentheses around a name")
		}
	})
}

func methodExpression(p *program) {
	each(p, func(s *ast.SelectorExpr) {
		if sel := p.info.Selections[s]; sel != nil && sel.Kind() == types.MethodExpr {
			p.refuse(s, "method as a function")
		}
	})
}

func label(p *program) {
	names := map[string]bool{}
	for id, o := range p.info.Defs {
		if _, ok := o.(*types.Var); ok {
			names[id.Name] = true
		}
	}
	each(p, func(l *ast.LabeledStmt) {
		if names[l.Label.Name] {
			p.refuse(l, "label %s has the name of a variable", l.Label.Name)
		}
	})
}

func generic(p *program) {
	each(p, func(f *ast.FuncDecl) {
		o, ok := p.info.Defs[f.Name].(*types.Func)
		if !ok {
			return
		}
		params := o.Type().(*types.Signature).TypeParams()
		for i := range params.Len() {
			if c, ok := under(params.At(i).Constraint()).(*types.Interface); ok && c.NumMethods() > 0 {
				p.refuse(f, "constraint with methods")
			}
		}
		if params.Len() == 0 {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSwitchStmt); ok {
				p.refuse(s, "type switch in a generic function")
			}
			return true
		})
	})
}

func unsupported(p *program) {
	each(p, func(s *ast.SelectorExpr) { // I(x).M()
		if c, ok := unparen(s.X).(*ast.CallExpr); ok && p.info.Types[c.Fun].IsType() && isInterface(p.typeOf(c)) {
			p.refuse(s, "method of a conversion to an interface")
		}
	})
	each(p, func(t *ast.TypeSpec) { // type F func(F)
		if f, ok := t.Type.(*ast.FuncType); ok {
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && p.info.Uses[id] == p.info.Defs[t.Name] {
					p.refuse(t, "function type that mentions itself")
					return false
				}
				return true
			})
		}
	})
	each(p, func(r *ast.RangeStmt) {
		switch t := under(p.typeOf(r.X)).(type) {
		case *types.Signature:
			p.refuse(r, "range over a function")
		case *types.Basic:
			if t.Info()&types.IsInteger != 0 {
				p.refuse(r, "range over an integer")
			}
		}
	})
	each(p, func(u *ast.UnaryExpr) {
		if u.Op == token.ARROW {
			p.refuse(u, "channel operation")
		}
	})
}
