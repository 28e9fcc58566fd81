package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

var loopRules = []Rule{
	{Name: "LOOPVAR-CAPTURE", Why: "all closures see its last value", Hint: "copy it first: w := v, and use w", find: loopCapture},
	{Name: "LOOPVAR-ADDR", Why: "it is one variable for all passes", Hint: "take &xs[i], or copy it first", find: loopAddress},
	{Name: "LOOP-SLOT", Why: "it is one variable for all passes", Hint: "copy it first: w := v", find: loopSlot},
	{Name: "COMMA-OK", Why: "when ok is false it keeps its old value", Hint: "use it only inside if v, ok := ...; ok", find: commaOKValue},
	{Name: "DEFER-LOOP", Why: "arguments are those of the last pass", Hint: "move the body into a function", find: deferLoop},
	{Name: "RANGE-KEY", Why: "it changes the iteration", Hint: "use a loop with three clauses", find: rangeKey},
	{Name: "RANGE-ASSIGN", Why: "the variable does not change outside", Hint: "use := and copy inside", find: rangeAssign},
	{Name: "RANGE-STRING", Why: "it counts runes, not bytes", Hint: "write for i := 0; i < len(s); i++", find: rangeString},
	{Name: "RANGE-PTR", Why: "it panics", Hint: "range over a slice", find: rangePointer},
	{Name: "FOR-INIT", Why: "init runs on every pass", Hint: "write init on the line before for {", find: forInit},
}

func loopCapture(p *program) {
	for o, v := range p.vars {
		if f := p.keptCapture(v); v.kind == loopHead && f != nil {
			p.refuse(f, "closure over the loop variable %s", o.Name())
		}
	}
}

func loopAddress(p *program) {
	for o, v := range p.vars {
		if v.kind == loopHead && len(v.address) > 0 {
			p.refuse(at(v.address[0]), "address of the loop variable %s", o.Name())
		}
	}
}

func loopSlot(p *program) {
	for o, v := range p.vars {
		if v.loop == nil || v.kind != commaOK && v.kind != bound && v.kind != literal {
			continue
		}
		if f := p.keptCapture(v); f != nil {
			p.refuse(f, "closure over %s, declared in a loop", o.Name())
		} else if len(v.address) > 0 && !(v.kind == literal && p.onlyMethods(o)) {
			p.refuse(at(v.address[0]), "address of %s, declared in a loop", o.Name())
		}
	}
}

// onlyMethods says whether the address of a variable is only taken to call methods on it.
func (p *program) onlyMethods(o *types.Var) bool {
	only := true
	each(p, func(n *ast.UnaryExpr) {
		if n.Op == token.AND && p.root(n.X) == p.vars[o] {
			only = false
		}
	})
	each(p, func(n *ast.SliceExpr) {
		if p.root(n.X) == p.vars[o] {
			only = false
		}
	})
	return only
}

// commaOKValue finds v, ok := m[k] where v may be read without ok.
func commaOKValue(p *program) {
	each(p, func(s *ast.AssignStmt) {
		if len(s.Lhs) != 2 || len(s.Rhs) != 1 || !isCommaOK(s.Rhs[0]) || isBlank(s.Lhs[0]) {
			return
		}
		fresh := s.Tok == token.DEFINE && p.loop(s) == nil
		if fresh || p.guarded(s) {
			return
		}
		p.refuse(s, "value of a comma-ok assignment that may fail")
	})
}

// guarded says whether the value of v, ok := ... is only used when ok is true.
func (p *program) guarded(s *ast.AssignStmt) bool {
	if isBlank(s.Lhs[1]) || s.Tok != token.DEFINE {
		return false
	}
	ok, value := p.variable(s.Lhs[1]), p.variable(s.Lhs[0])
	if f, is := p.parent[s].(*ast.IfStmt); is && f.Init == ast.Stmt(s) {
		if p.implies(f.Cond, ok) {
			return f.Else == nil || !p.mentions(f.Else, value)
		}
		return p.denies(f.Cond, ok) && !p.mentions(f.Body, value)
	}
	next, is := p.following(s).(*ast.IfStmt)
	if !is || next.Init != nil || next.Else != nil {
		return false
	}
	if p.denies(next.Cond, ok) && leaves(next.Body) && !p.mentions(next.Body, value) {
		return true
	}
	return p.implies(next.Cond, ok) && !p.usedAfter(p.object(s.Lhs[0]), next)
}

// implies says whether a condition is ok or ok && ...
func (p *program) implies(e ast.Expr, ok *variable) bool {
	if b, is := unparen(e).(*ast.BinaryExpr); is && b.Op == token.LAND {
		return p.implies(b.X, ok)
	}
	return ok != nil && p.variable(e) == ok
}

// denies says whether a condition is !ok or !ok || ...
func (p *program) denies(e ast.Expr, ok *variable) bool {
	if b, is := unparen(e).(*ast.BinaryExpr); is && b.Op == token.LOR {
		return p.denies(b.X, ok)
	}
	n, is := unparen(e).(*ast.UnaryExpr)
	return is && n.Op == token.NOT && ok != nil && p.variable(n.X) == ok
}

func (p *program) usedAfter(o types.Object, s ast.Stmt) bool {
	return slices.ContainsFunc(p.uses[o], func(id *ast.Ident) bool { return id.Pos() > s.End() })
}

// following is the statement after s in its block, or nil.
func (p *program) following(s ast.Stmt) ast.Stmt {
	var list []ast.Stmt
	switch above := p.parent[s].(type) {
	case *ast.BlockStmt:
		list = above.List
	case *ast.CaseClause:
		list = above.Body
	}
	for i := range list {
		if list[i] == s && i+1 < len(list) {
			return list[i+1]
		}
	}
	return nil
}

// leaves says whether a block ends by leaving what is around it.
func leaves(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch last := b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	case *ast.ExprStmt:
		c, ok := last.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		id, ok := c.Fun.(*ast.Ident)
		return ok && id.Name == "panic"
	}
	return false
}

func deferLoop(p *program) {
	each(p, func(d *ast.DeferStmt) {
		if p.loop(d) != nil && !p.alike(d) {
			p.refuse(d, "defer in a loop")
		}
	})
}

// alike says whether a deferred call is the same in every pass of the loops around it: a
// literal without arguments that uses nothing declared in them.
func (p *program) alike(d *ast.DeferStmt) bool {
	f, ok := d.Call.Fun.(*ast.FuncLit)
	if !ok || len(d.Call.Args) > 0 {
		return false
	}
	same, function := true, p.function(d)
	ast.Inspect(f, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		v := p.variable(id1(id, ok))
		same = same && (v == nil || v.function != function || v.loop == nil)
		return same
	})
	return same
}

func rangeKey(p *program) {
	each(p, func(r *ast.RangeStmt) {
		v := p.variable(r.Key)
		if v == nil || r.Tok != token.DEFINE {
			return
		}
		for _, w := range v.writes {
			p.refuse(at(w), "write to the index of a range loop")
		}
	})
}

func rangeAssign(p *program) {
	each(p, func(r *ast.RangeStmt) {
		if r.Tok == token.ASSIGN {
			p.refuse(r, "range with = in place of :=")
		}
	})
}

func rangeString(p *program) {
	each(p, func(r *ast.RangeStmt) {
		b, ok := under(p.typeOf(r.X)).(*types.Basic)
		if ok && b.Info()&types.IsString != 0 && r.Key != nil && !isBlank(r.Key) {
			p.refuse(r, "the index of a range over a string")
		}
	})
}

func rangePointer(p *program) {
	each(p, func(r *ast.RangeStmt) {
		if _, ok := under(p.typeOf(r.X)).(*types.Pointer); ok {
			p.refuse(r, "range over a pointer to an array")
		}
	})
}

func forInit(p *program) {
	each(p, func(f *ast.ForStmt) {
		if f.Init != nil && f.Cond == nil && f.Post == nil {
			p.refuse(f, "for with init only")
		}
	})
}

func isBlank(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "_"
}

// at is a node that is only a position.
func at(pos token.Pos) ast.Node { return &ast.BadExpr{From: pos, To: pos} }
