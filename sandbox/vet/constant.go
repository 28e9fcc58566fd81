package vet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
)

var constantRules = []Rule{
	{Name: "CONST-BOOL", Why: "it is false", Hint: "declare a variable, or write true or false", find: constantBool},
	{Name: "CONST-DIV", Why: "it is divided as a float", Hint: "write the value", find: constantDivision},
	{Name: "CONST-IOTA", Why: "it has a wrong type", Hint: "write each value out, one constant per line", find: constantIota},
}

func constantBool(p *program) {
	each(p, func(d *ast.GenDecl) {
		if d.Tok != token.CONST {
			return
		}
		ast.Inspect(d, func(n ast.Node) bool {
			b, ok := n.(*ast.BinaryExpr)
			if !ok || !p.constant(b) || p.info.Types[b].Value.Kind() != constant.Bool {
				return true
			}
			p.refuse(b, "constant made by a comparison or a condition")
			return false
		})
	})
}

func constantDivision(p *program) {
	each(p, func(b *ast.BinaryExpr) {
		t, ok := under(p.typeOf(b)).(*types.Basic)
		if b.Op == token.QUO && p.constant(b) && ok && t.Info()&types.IsFloat != 0 && p.wholeNumbers(b) {
			p.refuse(b, "division of whole constants as a float")
		}
	})
}

// wholeNumbers says whether an expression is made of integer literals and names only.
func (p *program) wholeNumbers(e ast.Expr) bool {
	whole := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			whole = whole && n.Kind != token.FLOAT
		case *ast.Ident:
			o, ok := p.info.Uses[n].(*types.Const)
			whole = whole && ok && o.Val().Kind() == constant.Int && !isFloat(o.Type())
		case *ast.CallExpr:
			whole = false
		}
		return whole
	})
	return whole
}

func isFloat(t types.Type) bool {
	b, ok := under(t).(*types.Basic)
	return ok && b.Info()&types.IsFloat != 0
}

// constantIota refuses several constants per line of iota, and expressions over constants
// whose type and value are repeated from a line above.
func constantIota(p *program) {
	repeated := map[types.Object]bool{}
	each(p, func(d *ast.GenDecl) {
		if d.Tok != token.CONST {
			return
		}
		for _, s := range d.Specs {
			s := s.(*ast.ValueSpec)
			if len(s.Names) > 1 && (len(s.Values) == 0 || mentionsIota(s)) {
				p.refuse(s, "several constants on a line with iota")
			}
			for _, n := range s.Names {
				o := p.info.Defs[n]
				if len(s.Values) == 0 && o != nil && p.own(o.Type()) != nil {
					repeated[o] = true
				}
			}
		}
	})
	each(p, func(b *ast.BinaryExpr) {
		if p.constant(b) && p.namesOf(b, repeated) {
			p.refuse(b, "constant made of constants that iota repeats")
		}
	})
}

func mentionsIota(n ast.Node) (found bool) {
	ast.Inspect(n, func(m ast.Node) bool {
		if id, ok := m.(*ast.Ident); ok && id.Name == "iota" {
			found = true
		}
		return true
	})
	return found
}

func (p *program) namesOf(e ast.Expr, set map[types.Object]bool) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && set[p.info.Uses[id]] {
			found = true
		}
		return true
	})
	return found
}
