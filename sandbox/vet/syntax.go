package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/seed-7c27e6b8/whale/sandbox/lower"
)

var syntaxRules = []Rule{
	{Name: "PAREN", Why: "the function stops there", Hint: "leave out the parentheses", find: parenthesis},
	{Name: "METHOD-EXPR", Why: "it panics", Hint: "write a closure that calls the method", find: methodExpression},
	{Name: "LABEL", Why: "it does not compile", Hint: "give the label another name", find: label},
	{Name: "GENERIC", Why: "it does not compile or takes a wrong branch", Hint: "write it for the types you need", find: generic},
	{Name: "LOGIC", Why: "the condition panics", Hint: "put the literal in a variable first", find: logic},
	{Name: "IFACE-CALL", Why: "it panics", Hint: "put the interface in a variable first", find: interfaceCall},
	{Name: "NEWER", Why: "the interpreter knows Go 1.20", Hint: "write it out", find: newer},
}

func parenthesis(p *program) {
	each(p, func(e *ast.ParenExpr) {
		if lower.Idle(e) && !p.info.Types[e].IsType() {
			p.refuse(e, "parentheses around a name")
		}
	})
}

func logic(p *program) {
	each(p, func(b *ast.BinaryExpr) {
		if b.Op != token.LAND && b.Op != token.LOR {
			return
		}
		switch n := lower.Start(b.X).(type) {
		case *ast.KeyValueExpr:
			p.refuse(n, "condition that begins with a keyed literal")
		case *ast.StructType, *ast.InterfaceType:
			p.refuse(n, "condition that begins with a type literal")
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
	each(p, func(c *ast.CallExpr) {
		if id, _ := lower.Inferred(p.info, c); id != nil {
			p.refuse(id, "type argument of %s that only a function tells", id.Name)
		}
	})
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

func interfaceCall(p *program) {
	each(p, func(s *ast.SelectorExpr) { // I(x).M()
		if c, ok := unparen(s.X).(*ast.CallExpr); ok && p.info.Types[c.Fun].IsType() && isInterface(p.typeOf(c)) {
			p.refuse(s, "method of a conversion to an interface")
		}
	})
}
