package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/seed-7c27e6b8/whale/sandbox/lower"
)

var assignRules = []Rule{
	{Name: "MULTI-ASSIGN", Why: "the other values are dropped", Hint: "write one assignment per line", find: multipleAssign},
	{Name: "MULTI-NIL", Why: "it panics", Hint: "write one assignment per line", find: multipleNil},
	{Name: "LIT-ASSIGN", Why: "pointers and closures keep the old variable", Hint: "t := T{...} first, then s = t", find: literalAssign},
	{Name: "APPEND-ANY", Why: "it is spread", Hint: "var y any = ys first, then append y", find: appendAny},
	{Name: "APPEND-ALIAS", Why: "it is read after it was overwritten", Hint: "copy it to a variable first", find: appendAlias},
	{Name: "METHOD-VALUE", Why: "the receiver is read when it is called", Hint: "write a closure over a copy of the receiver", find: methodValue},
	{Name: "INIT-ORDER", Why: "it sees zero values", Hint: "declare package variables in the order they need each other", find: initOrder},
	{Name: "INIT-MULTI", Why: "later package variables may stay unset", Hint: "call it in Run, or in a function with one result", find: initMultiple},
}

func multipleAssign(p *program) {
	each(p, func(s *ast.AssignStmt) {
		if len(s.Rhs) >= 2 {
			p.multiple(s, s.Lhs, s.Rhs, s.Tok == token.ASSIGN)
		}
	})
	each(p, func(s *ast.ValueSpec) {
		if len(s.Values) >= 2 {
			var names []ast.Expr
			for _, n := range s.Names {
				names = append(names, n)
			}
			p.multiple(s, names, s.Values, false)
		}
	})
}

func (p *program) multiple(s ast.Node, left, right []ast.Expr, assigns bool) {
	literals, calls := 0, 0
	for _, r := range right {
		if lower.Literal(r) {
			literals++
		}
		if p.calls(r) || p.builtin(r) != "" {
			calls++
		}
	}
	switch {
	case assigns && (literals > 0 || calls > 0):
		p.refuse(s, "several assignments at once with a call or a literal")
	case literals > 0 && literals < len(right):
		p.refuse(s, "several definitions at once, some with a literal")
	}
	if !assigns {
		return
	}
	for _, l := range left {
		x, ok := unparen(l).(*ast.IndexExpr)
		for _, other := range left {
			if ok && other != l && p.variable(other) != nil && p.mentions(x.Index, p.variable(other)) {
				p.refuse(s, "assignment to a variable and to an element that it selects")
				return
			}
		}
	}
}

func multipleNil(p *program) {
	each(p, func(s *ast.AssignStmt) {
		if s.Tok != token.ASSIGN || len(s.Rhs) < 2 {
			return
		}
		for i, r := range s.Rhs {
			if p.info.Types[r].IsNil() || isInterface(p.typeOf(s.Lhs[i])) && !isBlank(s.Lhs[i]) {
				p.refuse(s, "several assignments at once with nil or interfaces")
				return
			}
		}
	})
}

func literalAssign(p *program) {
	each(p, func(s *ast.AssignStmt) {
		if s.Tok != token.ASSIGN {
			return
		}
		for i, r := range s.Rhs {
			if _, ok := unparen(r).(*ast.CompositeLit); !ok || len(s.Lhs) != len(s.Rhs) {
				continue
			}
			_, structure := under(p.typeOf(r)).(*types.Struct)
			_, array := under(p.typeOf(r)).(*types.Array)
			v := p.variable(s.Lhs[i])
			if v == nil || !structure && !array {
				continue
			}
			if len(v.captured) > 0 || len(v.address) > 0 || v.kind == result || v.function == nil {
				p.refuse(s, "literal assigned to a variable that is shared")
			}
		}
	})
}

func appendAny(p *program) {
	each(p, func(c *ast.CallExpr) {
		if p.builtin(c) != "append" || len(c.Args) != 2 || c.Ellipsis.IsValid() {
			return
		}
		s, ok := under(p.typeOf(c)).(*types.Slice)
		if !ok || !isInterface(s.Elem()) {
			return
		}
		if arg, ok := under(p.typeOf(c.Args[1])).(*types.Slice); ok && types.Identical(arg.Elem(), s.Elem()) {
			p.refuse(c, "slice appended as one element")
		}
	})
}

func appendAlias(p *program) {
	each(p, func(c *ast.CallExpr) {
		if p.builtin(c) != "append" || len(c.Args) < 3 {
			return
		}
		cut, ok := unparen(c.Args[0]).(*ast.SliceExpr)
		if !ok {
			return
		}
		for _, a := range c.Args[2:] {
			if x, ok := unparen(a).(*ast.IndexExpr); ok && p.variable(cut.X) != nil && p.variable(x.X) == p.variable(cut.X) {
				p.refuse(c, "element of a slice appended to a part of it")
			}
		}
	})
}

func methodValue(p *program) {
	each(p, func(s *ast.SelectorExpr) {
		sel := p.info.Selections[s]
		if sel == nil || sel.Kind() != types.MethodVal {
			return
		}
		c, called := p.above(s).(*ast.CallExpr)
		if called && unparen(c.Fun) == ast.Expr(s) {
			return
		}
		if called {
			if path, _ := p.standard(c); path != "" {
				return // used up before the receiver can change
			}
		}
		v := p.root(s.X)
		if v == nil || v.loop != nil || p.loop(s) != nil || len(v.writes) > 0 || len(v.fields) > 0 {
			p.refuse(s, "method %s as a value", s.Sel.Name)
		}
	})
}

func initOrder(p *program) {
	last := token.NoPos
	for _, i := range p.info.InitOrder {
		pos := i.Lhs[0].Pos()
		if pos < last {
			p.refuse(at(pos), "package variable %s is initialised out of order", i.Lhs[0].Name())
		}
		last = max(last, pos)
	}
}

func initMultiple(p *program) {
	each(p, func(s *ast.ValueSpec) {
		if len(s.Names) > 1 && len(s.Values) == 1 && p.function(s) == nil {
			p.refuse(s, "package variables set by one call")
		}
	})
}
