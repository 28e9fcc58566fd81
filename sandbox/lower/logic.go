package lower

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// logic makes && and || begin with a step: the interpreter puts its branch in the place of
// the first node of the left operand that computes nothing, which is right for the name of
// a condition and wrong for a keyed element:
//
//	f(T{b: 1}) > x && y  =>  f(T{0, 1}) > x && y
func logic(s *source) {
	each(s, func(b *ast.BinaryExpr) {
		if b.Op != token.LAND && b.Op != token.LOR {
			return
		}
		pair, ok := Start(b.X).(*ast.KeyValueExpr)
		if !ok {
			return
		}
		l, ok := s.parent[pair].(*ast.CompositeLit)
		if !ok {
			return
		}
		if s.positional(l) {
			return
		}
		e := ast.Expr(l)
		if u, address := s.parent[l].(*ast.UnaryExpr); address && u.Op == token.AND {
			e = u
		}
		if stmt := s.statement(e); stmt != nil && s.onlyAround(e, stmt) {
			s.before(e, stmt)
		}
	})
}

// operands calls first where a call may change a variable that the same expression reads.
// Go leaves the order open, and its compiler calls first:
//
//	if n > next() {           =>  v := next(); if n > v {
//	n += next()               =>  v := next(); n += v
//	xs := []int{n, next()}    =>  v := next(); xs := []int{n, v}
func operands(s *source) {
	each(s, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op != token.LAND && n.Op != token.LOR {
				s.callFirst(n.X, n.Y)
			}
		case *ast.AssignStmt:
			if n.Tok != token.ASSIGN && n.Tok != token.DEFINE {
				s.callFirst(n.Lhs[0], n.Rhs[0])
			}
		case *ast.CompositeLit:
			if s.copies(n) {
				return
			}
			for i, e := range n.Elts[:max(0, len(n.Elts)-1)] {
				s.callFirst(e, n.Elts[i+1:]...)
			}
		}
	})
}

// copies says whether a literal takes copies in the order of the text: a map does, and one
// that makes interfaces.
func (s *source) copies(l *ast.CompositeLit) (found bool) {
	_, found = s.under(l).(*types.Map)
	Elements(s.Info, l, func(_ ast.Expr, to types.Type) { found = found || isInterface(to) })
	return found
}

// callFirst puts the calls of some operands before their statement if an operand before
// them reads what they may change.
func (s *source) callFirst(first ast.Expr, rest ...ast.Expr) {
	if !s.readsShared(first) {
		return
	}
	for _, e := range rest {
		ast.Inspect(e, func(n ast.Node) bool {
			if _, literal := n.(*ast.FuncLit); literal {
				return false
			}
			c, ok := n.(*ast.CallExpr)
			if !ok || !s.own(c) {
				return true
			}
			if stmt := s.statement(c); stmt != nil && s.onlyAround(c, stmt) {
				s.before(c, stmt)
			}
			return false
		})
	}
}

// own says whether a call may run a function of the source.
func (s *source) own(c *ast.CallExpr) bool {
	if s.Info.Types[c.Fun].IsType() || s.builtin(c) != "" {
		return false
	}
	id := callee(c)
	if id == nil {
		return true
	}
	o := s.Info.Uses[id]
	return o == nil || o.Pkg() == s.Pkg
}

// readsShared says whether an expression itself reads a variable that some function other
// than the one around it may write.
func (s *source) readsShared(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.CallExpr:
			return false
		case *ast.Ident:
			u := s.vars[s.Info.Uses[n]]
			found = found || u != nil && u.writes+u.inPlace > 0 && (u.function == nil || u.captured > 0)
		}
		return !found
	})
	return found
}

// positional writes a keyed literal of a structure without keys.
func (s *source) positional(l *ast.CompositeLit) bool {
	t, ok := s.under(l).(*types.Struct)
	if !ok || strings.Contains(s.text(l), "\n") {
		return false
	}
	given, last, computed := map[string]string{}, -1, 0
	for _, e := range l.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := pair.Key.(*ast.Ident)
		if !ok || implied(pair.Value) {
			return false
		}
		given[key.Name] = s.text(pair.Value)
		for i := range t.NumFields() {
			if t.Field(i).Name() != key.Name || s.constant(pair.Value) {
				continue
			}
			if computed++; computed > 1 && i < last {
				return false // the order of evaluation would change
			}
			last = i
		}
	}
	var values []string
	for i := range t.NumFields() {
		text, ok := given[t.Field(i).Name()]
		if !ok {
			if text = zeroText(t.Field(i).Type()); text == "" || isInterface(t.Field(i).Type()) {
				return false
			}
		}
		values = append(values, text)
	}
	s.add(s.replace(l.Lbrace+1, l.Rbrace, "%s", strings.Join(values, ", ")))
	return true
}

// implied says whether an element leaves out its type.
func implied(e ast.Expr) bool {
	l, ok := e.(*ast.CompositeLit)
	return ok && l.Type == nil
}

// Start is the node that the interpreter takes for the first step of an expression, where
// that is one that computes nothing: a keyed element, parentheses around a name, a
// structure type. Else it is nil.
func Start(e ast.Expr) ast.Node {
	n, _ := start(e)
	return n
}

// start also says whether an expression has any step.
func start(n ast.Node) (idle ast.Node, some bool) {
	first := func(list ...ast.Expr) (ast.Node, bool) {
		for _, e := range list {
			if e == nil {
				continue
			}
			if idle, some := start(e); some {
				return idle, true
			}
		}
		return nil, true // the node itself, which computes
	}
	switch e := n.(type) {
	case *ast.Ident, *ast.BasicLit, *ast.ArrayType, *ast.MapType:
		return nil, false
	case *ast.ParenExpr:
		if idle, some := start(e.X); some {
			return idle, true
		}
		return e, true
	case *ast.KeyValueExpr:
		for _, part := range []ast.Expr{e.Key, e.Value} {
			if idle, some := start(part); some {
				return idle, true
			}
		}
		return e, true
	case *ast.StructType, *ast.InterfaceType:
		return e, true
	case *ast.BinaryExpr:
		if e.Op == token.LAND || e.Op == token.LOR {
			idle, _ := start(e.X)
			return idle, true
		}
		return first(e.X, e.Y)
	case *ast.UnaryExpr:
		return first(e.X)
	case *ast.StarExpr:
		return first(e.X)
	case *ast.SelectorExpr:
		return first(e.X)
	case *ast.IndexExpr:
		return first(e.X, e.Index)
	case *ast.SliceExpr:
		return first(e.X, e.Low, e.High, e.Max)
	case *ast.TypeAssertExpr:
		return first(e.X)
	case *ast.CallExpr:
		return first(append([]ast.Expr{e.Fun}, e.Args...)...)
	case *ast.CompositeLit:
		return first(append([]ast.Expr{e.Type}, e.Elts...)...)
	}
	return nil, true
}

// Idle says whether parentheses stand around a name or a literal only.
func Idle(e *ast.ParenExpr) bool {
	switch e.X.(type) {
	case *ast.Ident, *ast.BasicLit:
		return true
	}
	return false
}
