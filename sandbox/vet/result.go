package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/seed-7c27e6b8/whale/sandbox/lower"
)

var resultRules = []Rule{
	{Name: "NAMED-RESULT", Why: "it starts with what the caller's variable holds", Hint: "use unnamed results and locals, or set each first: n = 0", find: namedResult},
	{Name: "RECOVER-RESULT", Why: "its results are stale after a panic", Hint: "name the results and set each on the first lines", find: recoverResult},
	{Name: "RETURN-NAMED", Why: "the first is written before the second is read", Hint: "use unnamed results", find: returnNamed},
	{Name: "RETURN-BUILTIN", Why: "it overwrites another result", Hint: "n := len(s) first, then return x, n", find: returnBuiltin},
	{Name: "RETURN-IFACE", Why: "the operator is lost, or it panics", Hint: "assign it to a variable first", find: returnInterface},
	{Name: "RETURN-FUNC", Why: "it panics", Hint: "return func(s string) string { return f(s) }", find: returnFunction},
	{Name: "DEFER-ARG", Why: "the call sees the later value", Hint: "give the call a copy that does not change", find: deferArgument},
	{Name: "DEFER-CLOSURE", Why: "it never returns when it is called while deferred calls run", Hint: "make it in a function that returns it, or do without defer", find: deferClosure},
	{Name: "DEFER-PANIC", Why: "the other deferred calls are skipped", Hint: "do not panic in a deferred function", find: deferPanic},
	{Name: "UNNAMED-PARAM", Why: "the argument overwrites a local variable", Hint: "name it _", find: unnamedParameter},
}

// functions calls f for every function with a body.
func (p *program) functions(f func(n ast.Node, t *ast.FuncType, body *ast.BlockStmt)) {
	ast.Inspect(p.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			f(n, n.Type, n.Body)
		case *ast.FuncLit:
			f(n, n.Type, n.Body)
		}
		return true
	})
}

// namedResults are the variables of a function's results; unnamed says whether it has
// others.
func (p *program) namedResults(t *ast.FuncType) (named []*variable, unnamed bool) {
	if t.Results == nil {
		return nil, false
	}
	for _, f := range t.Results.List {
		unnamed = unnamed || len(f.Names) == 0
		for _, id := range f.Names {
			if o, ok := p.info.Defs[id].(*types.Var); ok && id.Name != "_" {
				named = append(named, p.vars[o])
			} else {
				unnamed = true
			}
		}
	}
	return named, unnamed
}

// setFirst says whether a body begins by setting a variable, one statement per variable
// and none of them reading a result.
func (p *program) setFirst(body *ast.BlockStmt, v *variable, results []*variable) bool {
	for _, s := range body.List {
		if d, declaration := s.(*ast.DeclStmt); declaration && !p.mentions(d, v) && !p.calls(d) {
			continue
		}
		a, ok := s.(*ast.AssignStmt)
		if !ok || a.Tok != token.ASSIGN || len(a.Lhs) != 1 {
			return false
		}
		for _, r := range results {
			if p.mentions(a.Rhs[0], r) {
				return false
			}
		}
		if p.variable(a.Lhs[0]) == v {
			return true
		}
	}
	return false
}

func namedResult(p *program) {
	p.functions(func(n ast.Node, t *ast.FuncType, body *ast.BlockStmt) {
		named, _ := p.namedResults(t)
		for _, v := range named {
			if !p.setBeforeUse(n, body, v) || len(v.address) > 0 && !p.setFirst(body, v, named) || p.keptBesidesDefer(v) {
				p.refuse(v.declared, "named result")
			}
		}
	})
}

// setBeforeUse says whether the first that a function's body does with a result is to
// set it, in a statement that every later one has behind it.
func (p *program) setBeforeUse(function ast.Node, body *ast.BlockStmt, v *variable) bool {
	first := body.End()
	ast.Inspect(body, func(n ast.Node) bool {
		id, named := n.(*ast.Ident)
		r, returns := n.(*ast.ReturnStmt)
		if named && p.variable(id) == v || returns && len(r.Results) == 0 && p.function(r) == function {
			first = min(first, n.Pos())
		}
		return true
	})
	for _, s := range body.List {
		a, ok := s.(*ast.AssignStmt)
		if ok && s.Pos() == first {
			return a.Tok == token.ASSIGN && len(a.Lhs) == 1 && !p.mentions(a.Rhs[0], v)
		}
	}
	return first == body.End()
}

// keptBesidesDefer is keptCapture, deferred closures left out: these may set results.
func (p *program) keptBesidesDefer(v *variable) bool {
	for _, f := range v.captured {
		c, ok := p.above(f).(*ast.CallExpr)
		if ok {
			if _, ok = p.parent[c].(*ast.DeferStmt); ok {
				continue
			}
		}
		if p.kept(f) {
			return true
		}
	}
	return false
}

func recoverResult(p *program) {
	p.functions(func(n ast.Node, t *ast.FuncType, body *ast.BlockStmt) {
		if t.Results == nil || len(t.Results.List) == 0 {
			return
		}
		named, unnamed := p.namedResults(t)
		safe := !unnamed
		for _, v := range named {
			safe = safe && p.setFirst(body, v, named)
		}
		if safe {
			return
		}
		for _, d := range p.defers[n] {
			if p.mentionsRecover(d) {
				p.refuse(d, "recover in a function with results")
			}
		}
	})
}

// mentionsRecover looks into the deferred closure, or the body of a deferred function of
// the source.
func (p *program) mentionsRecover(d *ast.DeferStmt) (found bool) {
	look := func(n ast.Node) {
		ast.Inspect(n, func(m ast.Node) bool {
			if e, ok := m.(ast.Expr); ok && p.builtin(e) == "recover" {
				found = true
			}
			return !found
		})
	}
	look(d)
	if id, ok := d.Call.Fun.(*ast.Ident); ok {
		each(p, func(f *ast.FuncDecl) {
			if p.info.Defs[f.Name] == p.info.Uses[id] {
				look(f)
			}
		})
	}
	return found
}

func returnNamed(p *program) {
	each(p, func(r *ast.ReturnStmt) {
		var t *ast.FuncType
		switch f := p.function(r).(type) {
		case *ast.FuncDecl:
			t = f.Type
		case *ast.FuncLit:
			t = f.Type
		}
		named, unnamed := p.namedResults(t)
		if unnamed || len(r.Results) < 2 || len(named) != len(r.Results) {
			return
		}
		for i, e := range r.Results {
			for j, v := range named {
				if i != j && p.mentions(e, v) {
					p.refuse(e, "result that reads another named result")
				}
			}
		}
	})
}

func returnBuiltin(p *program) {
	each(p, func(r *ast.ReturnStmt) {
		if len(r.Results) < 2 {
			return
		}
		for i, e := range r.Results {
			if name := p.builtin(e); name != "" && i > 0 {
				p.refuse(e, "%s as a later result", name)
			}
		}
	})
}

func returnInterface(p *program) {
	each(p, func(r *ast.ReturnStmt) {
		results := lower.Results(p.info, p.function(r))
		for i, e := range r.Results {
			if len(r.Results) != results.Len() || p.constant(e) {
				continue
			}
			if _, operator := unparen(e).(*ast.BinaryExpr); operator && p.besideInterface(results, i) {
				p.refuse(e, "operator beside an interface of the source")
			}
			if !isInterface(results.At(i).Type()) {
				continue
			}
			switch e := unparen(e).(type) {
			case *ast.UnaryExpr:
				if e.Op != token.AND {
					p.refuse(e, "operator %s returned as an interface", e.Op)
				}
			case *ast.BinaryExpr:
				switch e.Op {
				case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ, token.LAND, token.LOR:
					p.refuse(e, "comparison returned as an interface")
				}
			}
		}
	})
}

// besideInterface says whether another result is an interface of the source with methods.
func (p *program) besideInterface(results *types.Tuple, i int) bool {
	for j := range results.Len() {
		t := results.At(j).Type()
		if j != i && isInterface(t) && !isAny(t) && !isErrorType(t) {
			return true
		}
	}
	return false
}

func returnFunction(p *program) {
	each(p, func(r *ast.ReturnStmt) {
		for _, e := range r.Results {
			if id, ok := unparen(e).(*ast.Ident); ok {
				if _, ok := p.info.Uses[id].(*types.Func); ok {
					p.refuse(e, "declared function returned")
				}
			}
		}
	})
}

func deferArgument(p *program) {
	each(p, func(d *ast.DeferStmt) {
		parts := d.Call.Args
		switch f := unparen(d.Call.Fun).(type) {
		case *ast.SelectorExpr:
			if lower.Place(p.info, f) || p.copied(f) {
				p.refuse(d, "a function or a receiver that may change later")
				return
			}
			parts = append([]ast.Expr{f.X}, parts...)
		case *ast.Ident, *ast.IndexExpr:
			parts = append([]ast.Expr{f}, parts...)
		}
		for _, a := range parts {
			if lower.Place(p.info, a) {
				p.refuse(d, "a field or an element given to a deferred call, which may change later")
				return
			}
			if id := p.changesAfter(a, d); id != nil {
				p.refuse(d, "argument %s of a deferred call changes later", id.Name)
				return
			}
		}
	})
}

// copied says whether a method takes a copy of what a pointer points to.
func (p *program) copied(x *ast.SelectorExpr) bool {
	sel := p.info.Selections[x]
	return sel != nil && sel.Kind() == types.MethodVal && !isInterface(sel.Recv()) && sel.Indirect() &&
		!isPointer(sel.Obj().Type().(*types.Signature).Recv().Type())
}

// changesAfter is a variable in an expression that is written behind a node, or nil.
func (p *program) changesAfter(e ast.Expr, d ast.Node) (found *ast.Ident) {
	ast.Inspect(e, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok || address(n) {
			return false
		}
		id, ok := n.(*ast.Ident)
		if v := p.variable(id1(id, ok)); v != nil {
			for _, w := range append(append([]token.Pos{}, v.writes...), v.fields...) {
				if w > d.Pos() && found == nil {
					found = id
				}
			}
		}
		return true
	})
	return found
}

// address says whether a node takes the address of a variable, which doesn't change.
func address(n ast.Node) bool {
	u, ok := n.(*ast.UnaryExpr)
	if !ok || u.Op != token.AND {
		return false
	}
	_, ok = u.X.(*ast.Ident)
	return ok
}

// id1 is an identifier as an expression, or a blank one.
func id1(id *ast.Ident, ok bool) ast.Expr {
	if ok {
		return id
	}
	return ast.NewIdent("_")
}

// deferClosure finds closures of functions that defer, but for those that are called where
// they stand or given to a standard function.
func deferClosure(p *program) {
	each(p, func(f *ast.FuncLit) {
		if len(p.defers[p.function(f)]) == 0 {
			return
		}
		if c, ok := p.above(f).(*ast.CallExpr); ok {
			if path, _ := p.standard(c); unparen(c.Fun) == ast.Expr(f) || path != "" && path != kitPath {
				return
			}
		}
		p.refuse(f, "closure in a function that defers")
	})
}

func deferPanic(p *program) {
	each(p, func(d *ast.DeferStmt) {
		if len(p.defers[p.function(d)]) < 2 {
			return
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && p.builtin(e) == "panic" {
				p.refuse(e, "panic in a deferred function")
			}
			return true
		})
	})
}

func unnamedParameter(p *program) {
	p.functions(func(_ ast.Node, t *ast.FuncType, _ *ast.BlockStmt) {
		for _, f := range t.Params.List {
			if len(f.Names) == 0 {
				p.refuse(f, "parameter without a name")
			}
		}
	})
}
