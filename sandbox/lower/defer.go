package lower

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// deferred fixes what a deferred call is made of, since the interpreter reads variables,
// fields and elements when the call is made:
//
//	defer f(x, p.n); x = 2  =>  v := x; w := p.n; defer f(v, w); x = 2
//	defer t.M(); t.n++      =>  v := t; defer v.M(); t.n++
func deferred(s *source) {
	each(s, func(d *ast.DeferStmt) {
		if !s.listed(d) || s.loop(d) || d.Call.Ellipsis.IsValid() || s.builtin(d.Call) != "" {
			return
		}
		if first, edits, ok := s.parts(d, false); ok && len(edits) > 0 {
			s.add(append(edits, s.insert(d.Pos(), "%s", first))...)
		}
	})
}

// parts puts what a deferred call is made of in variables, in the order of the text: all of
// it, or what may change if nothing else is called.
func (s *source) parts(d *ast.DeferStmt, all bool) (first string, edits []edit, ok bool) {
	ok = true
	keep := func(e ast.Expr, operator string, needed bool) {
		if !needed {
			return
		}
		w, text := s.name(), s.text(e)
		first += w + " := " + operator + text + "; "
		edits = append(edits, s.replace(e.Pos(), e.End(), "%s", w))
		_, several := s.typeOf(e).(*types.Tuple)
		ok = ok && !several && !strings.Contains(text, "\n")
	}
	needs := func(e ast.Expr) bool { return all || s.unsteady(e) }
	switch f := d.Call.Fun.(type) {
	case *ast.FuncLit:
	case *ast.Ident:
		_, variable := s.Info.Uses[f].(*types.Var)
		keep(f, "", variable && needs(f))
	case *ast.SelectorExpr:
		sel := s.Info.Selections[f]
		switch {
		case sel == nil: // of a package
		case sel.Kind() == types.FieldVal:
			keep(f, "", true)
		default:
			operator, plain := s.receiver(f)
			needed := needs(f.X) || operator == "*"
			keep(f.X, operator, needed)
			ok = ok && (plain || !needed)
		}
	case *ast.IndexExpr:
		keep(f, "", !s.Info.Types[f.Index].IsType())
	default:
		keep(f, "", all)
	}
	for _, a := range d.Call.Args {
		_, literal := a.(*ast.FuncLit)
		keep(a, "", !literal && !s.constant(a) && needs(a))
	}
	if ok && len(edits) > 0 && s.calls(d.Call) > 1 {
		if !all {
			return s.parts(d, true)
		}
		ok = !s.readsShared(d.Call.Fun) && !slices.ContainsFunc(d.Call.Args, s.readsShared)
	}
	return first, edits, ok
}

// unsteady says whether an expression is a place that may change before a deferred call.
func (s *source) unsteady(e ast.Expr) bool {
	e = ast.Unparen(e)
	return Place(s.Info, e) || s.varies(e)
}

// Place says whether an expression is a field, an element or what a pointer points to.
func Place(info *types.Info, e ast.Expr) bool {
	switch x := ast.Unparen(e).(type) {
	case *ast.SelectorExpr:
		sel := info.Selections[x]
		return sel != nil && sel.Kind() == types.FieldVal
	case *ast.IndexExpr:
		return !info.Types[x.Index].IsType()
	case *ast.StarExpr:
		return true
	}
	return false
}

// varies says whether an expression reads a variable that is written, function literals left
// out.
func (s *source) varies(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if u := s.vars[s.Info.Uses[id]]; u != nil && !strings.HasPrefix(id.Name, prefix) {
				found = found || u.writes > 0 || u.inPlace > 0
			}
		}
		_, literal := n.(*ast.FuncLit)
		return !literal
	})
	return found
}

// undo is the helper of loopDefers: it calls what a list holds, last first, the rest also
// where one panics.
const undo = `func ` + prefix + `undo(list []func()) { n := len(list); defer func() { if n > 0 { ` + prefix + `undo(list[:n]) } }(); for n > 0 { n--; list[n]() } }
`

// loopDefers keeps what a loop defers in a list, whose calls have arguments of their own:
//
//	for _, x := range xs { defer f(x) }  =>
//	var l []func(); defer func() { undo(l) }(); for _, x := range xs { v := x; l = append(l, func() { f(v) }) }
func loopDefers(s *source) {
	loops, jumps := map[ast.Stmt][]*ast.DeferStmt{}, map[ast.Node]bool{}
	var order []ast.Stmt
	each(s, func(b *ast.BranchStmt) { jumps[s.function(b)] = jumps[s.function(b)] || b.Tok == token.GOTO })
	each(s, func(d *ast.DeferStmt) {
		l := s.outermost(d)
		if l == nil || jumps[s.function(d)] {
			return
		}
		if loops[l] == nil {
			order = append(order, l)
		}
		loops[l] = append(loops[l], d)
	})
	recovers := s.recoversByName()
	for _, l := range order {
		if !slices.ContainsFunc(loops[l], func(d *ast.DeferStmt) bool { return !s.alike(d, l) }) {
			continue
		}
		list := s.name()
		edits := []edit{s.insert(l.Pos(), "var %s []func(); defer func() { %sundo(%s) }(); ", list, prefix, list)}
		for _, d := range loops[l] {
			one := s.later(d, list, recovers)
			if edits = append(edits, one...); one == nil {
				edits = nil
				break
			}
		}
		if edits != nil {
			s.addWith(undo, edits...)
		}
	}
}

// outermost is the outermost loop around a statement in its function, with its label; nil
// where there is none, or none before which a statement may stand.
func (s *source) outermost(d *ast.DeferStmt) (loop ast.Stmt) {
	f := s.function(d)
	for n := s.parent[d]; n != f; n = s.parent[n] {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			loop = n.(ast.Stmt)
		case *ast.LabeledStmt:
			if n.Stmt == loop {
				loop = n
			}
		}
	}
	if loop == nil || !s.listed(loop) {
		return nil
	}
	return loop
}

// alike says whether a deferred call is the same in every pass of a loop: a literal without
// arguments that uses nothing declared in the loop. The interpreter gets that right.
func (s *source) alike(d *ast.DeferStmt, loop ast.Node) bool {
	f, ok := d.Call.Fun.(*ast.FuncLit)
	if !ok || len(d.Call.Args) > 0 {
		return false
	}
	within := func(o types.Object, n ast.Node) bool { return n.Pos() <= o.Pos() && o.Pos() < n.End() }
	same := true
	ast.Inspect(f, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && s.vars[s.Info.Uses[id]] != nil {
			o := s.Info.Uses[id]
			same = same && (!within(o, loop) || within(o, f))
		}
		return same
	})
	return same
}

// later makes a deferred call one that is kept in a list; nil where it can't. What the call
// is made of is evaluated at once, as Go does. recovers says whether some function that a
// call may name recovers.
func (s *source) later(d *ast.DeferStmt, list string, recovers bool) []edit {
	if !s.listed(d) || s.stops(d.Call, recovers) || d.Call.Fun != ast.Unparen(d.Call.Fun) {
		return nil
	}
	first, edits, ok := s.parts(d, true)
	if !ok {
		return nil
	}
	return append(edits, s.replace(d.Pos(), d.Call.Pos(), "%s%s = append(%s, func() { ", first, list, list), s.insert(d.End(), " })"))
}

// receiver is what makes of the operand of a method what the method takes; ok is false
// where a deferred call of it fails at once in some cases.
func (s *source) receiver(x *ast.SelectorExpr) (operator string, ok bool) {
	sel := s.Info.Selections[x]
	if sel == nil || sel.Kind() == types.FieldVal {
		return "", true // of a package, or a function in a field
	}
	if sel.Kind() != types.MethodVal || len(sel.Index()) > 1 || isInterface(sel.Recv()) {
		return "", false
	}
	if s.byAddress(x) {
		return "&", true
	}
	_, given := types.Unalias(sel.Recv()).(*types.Pointer)
	_, taken := types.Unalias(sel.Obj().Type().(*types.Signature).Recv().Type()).(*types.Pointer)
	if given && !taken {
		return "*", true
	}
	return "", true
}

// stops says whether a deferred call may recover, which only a function that is deferred
// itself can, or has a panic in it, after which the interpreter calls no other.
func (s *source) stops(c *ast.CallExpr, recovers bool) bool {
	if f, ok := c.Fun.(*ast.FuncLit); ok {
		return s.has(f, "recover", "panic")
	}
	if b := s.builtin(c); b != "" {
		return b != "delete"
	}
	if id := callee(c); id != nil {
		if f, ok := s.Info.Uses[id].(*types.Func); ok && f.Pkg() != s.Pkg {
			return false
		}
	}
	return recovers
}

// recoversByName says whether a function recovers that is not a literal in a defer
// statement.
func (s *source) recoversByName() (found bool) {
	each(s, func(c *ast.CallExpr) {
		if s.builtin(c) != "recover" {
			return
		}
		call, ok := s.parent[s.function(c)].(*ast.CallExpr)
		if ok {
			_, ok = s.parent[call].(*ast.DeferStmt)
		}
		found = found || !ok
	})
	return found
}

// has says whether a node calls a builtin function.
func (s *source) has(n ast.Node, builtins ...string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		found = found || ok && slices.Contains(builtins, s.builtin(e))
		return !found
	})
	return found
}

// closures makes closures of a function that defers in a function of their own: while
// deferred calls run, the interpreter holds a lock of the frame they are made in, which
// each call of one takes.
//
//	defer f(); g := func() { h() }  =>  g := func() func() { return func() { h() } }()
func closures(s *source) {
	defers := map[ast.Node]bool{}
	each(s, func(d *ast.DeferStmt) { defers[s.function(d)] = true })
	each(s, func(f *ast.FuncLit) {
		if !defers[s.function(f)] || s.usedUp(f) {
			return
		}
		kind, ok := s.text(f.Type), true
		if strings.Contains(kind, "\n") {
			kind, ok = s.write(s.typeOf(f))
		}
		if ok {
			s.add(s.insert(f.Pos(), "func() %s { return ", kind), s.insert(f.End(), " }()"))
		}
	})
}

// usedUp says whether a closure is called where it stands, or given to a standard function.
func (s *source) usedUp(f *ast.FuncLit) bool {
	c, ok := s.parent[f].(*ast.CallExpr)
	if !ok || c.Fun == ast.Expr(f) {
		return ok
	}
	id := callee(c)
	if id == nil {
		return false
	}
	o, ok := s.Info.Uses[id].(*types.Func)
	return ok && o.Pkg() != nil && o.Pkg() != s.Pkg && o.Pkg().Name() != "kit"
}
