package lower

import (
	"fmt"
	"go/ast"
	"go/types"
	"strings"
)

// convertedTo calls f for every expression that becomes an interface and is kept, with the
// interface, and whose type is, or points to, a type of the source with methods.
func (s *source) convertedTo(f func(e ast.Expr, to types.Type)) {
	for _, c := range s.conversions {
		if c.Kept && s.withMethods(c.From) {
			f(c.Expr, c.To)
		}
	}
}

// withMethods says whether t is, or points to, a concrete type of the source with methods.
func (s *source) withMethods(t types.Type) bool {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Pkg() == s.Pkg && !isInterface(n) && types.NewMethodSet(types.NewPointer(n)).Len() > 0
}

// conversions copies what becomes an interface, since the interpreter's interface would
// follow later changes of the variable, field, element or temporary:
//
//	out = append(out, xs[i])  =>  v := xs[i]; out = append(out, v)
//
// Standard interfaces (error, say) are made in a function, as even a copy is shared there
// by all passes of a loop: errs = append(errs, as(e)), with func as(v *E) error { return v }
// at the end of the source. So are others that nothing may be put before.
func conversions(s *source) {
	s.convertedTo(func(e ast.Expr, to types.Type) {
		if !s.changing(e, to) {
			return
		}
		stmt := s.statement(e)
		a, assigns := stmt.(*ast.AssignStmt)
		if !s.wrapped(to) && stmt != nil && s.onlyAround(e, stmt) && !(assigns && len(a.Rhs) > 1) {
			s.before(e, stmt)
			return
		}
		if _, function := s.under(e).(*types.Signature); function && !s.wrapped(to) {
			return // its closure would be that of the last pass
		}
		if helper, text, ok := s.maker(s.typeOf(e), to); ok {
			s.addWith(text, s.insert(e.Pos(), "%s(", helper), s.insert(e.End(), ")"))
		}
	})
}

// maker is a function that makes an interface of a value.
func (s *source) maker(from, to types.Type) (name, text string, ok bool) {
	f, written := s.write(from)
	t, also := s.write(to)
	if !written || !also {
		return "", "", false
	}
	spell := func(r rune) rune {
		switch {
		case r == '*':
			return 'P'
		case r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			return r
		}
		return -1
	}
	ident := strings.Map(spell, f) + "_" + strings.Map(spell, t)
	if len(ident) != len(f)+1+len(t) {
		return "", "", false // a type that is not a name
	}
	name = prefix + "as_" + strings.ReplaceAll(ident, ".", "_")
	return name, fmt.Sprintf("func %s(v %s) %s { return v }\n", name, f, t), true
}

// wrapped says whether the interpreter makes a wrapper for an interface: one that has
// methods and isn't of the source.
func (s *source) wrapped(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Pkg() != s.Pkg && n.Underlying().(*types.Interface).NumMethods() > 0
}

// changing says whether a converted value shares a slot that may change.
func (s *source) changing(e ast.Expr, to types.Type) bool {
	if _, returned := s.parent[e].(*ast.ReturnStmt); !returned && s.loop(e) && s.wrapped(to) {
		return true // made with a wrapper around the slot
	}
	_, pointer := types.Unalias(s.typeOf(e)).(*types.Pointer)
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		u := s.vars[s.object(e)]
		return u != nil && !strings.HasPrefix(e.Name, prefix) && (u.writes > 0 || !pointer && u.inPlace > 0)
	case *ast.SelectorExpr, *ast.IndexExpr, *ast.StarExpr:
		return true
	case *ast.CallExpr, *ast.UnaryExpr, *ast.BinaryExpr, *ast.CompositeLit:
		return s.loop(e)
	}
	return false
}

// methodValues: g := t.M  =>  v := t; g := func(p int) int { return v.M(p) }; and where
// nothing may stand before the statement,
//
//	g(t.M, f())  =>  g(func(v T) func(p int) int { return func(p int) int { return v.M(p) } }(t), f())
func methodValues(s *source) {
	each(s, func(x *ast.SelectorExpr) {
		sel := s.Info.Selections[x]
		if sel == nil || sel.Kind() == types.FieldVal {
			return
		}
		c, called := s.parent[x].(*ast.CallExpr)
		if called && c.Fun == ast.Expr(x) {
			return
		}
		signature, ok := s.typeOf(x).(*types.Signature)
		if !ok {
			return
		}
		head, call, ok := s.forward(signature)
		if !ok {
			return
		}
		if sel.Kind() == types.MethodExpr {
			first, rest, _ := strings.Cut(call, ", ")
			s.add(s.replace(x.Pos(), x.End(), "func%s%s.%s(%s) }", head, first, x.Sel.Name, rest))
			return
		}
		if called {
			if f, ok := s.Info.Uses[callee(c)].(*types.Func); ok && f.Pkg() != s.Pkg {
				return // used up before the receiver can change
			}
		}
		s.bound(x, "func"+head, fmt.Sprintf("%s(%s) }", x.Sel.Name, call))
	})
}

// bound binds a method value to its receiver: head and tail are of the function that calls
// the method.
func (s *source) bound(x *ast.SelectorExpr, head, tail string) {
	address, w := "", s.name()
	kind := s.typeOf(x.X)
	if s.byAddress(x) {
		address, kind = "&", types.NewPointer(kind)
	}
	stmt := s.statement(x)
	if stmt != nil && s.onlyAround(x, stmt) && !strings.Contains(s.text(x), "\n") {
		s.add(s.insert(stmt.Pos(), "%s := %s%s; ", w, address, s.text(x.X)), s.replace(x.Pos(), x.End(), "%s%s.%s", head, w, tail))
		return
	}
	function, ok := s.write(s.typeOf(x))
	receiver, also := s.write(kind)
	if ok && also {
		s.add(s.insert(x.Pos(), "func(%s %s) %s { return %s%s.%s }(%s", w, receiver, function, head, w, tail, address), s.replace(x.X.End(), x.End(), ")"))
	}
}

// callee is the identifier that a call names its function by, or nil.
func callee(c *ast.CallExpr) *ast.Ident {
	switch f := ast.Unparen(c.Fun).(type) {
	case *ast.Ident:
		return f
	case *ast.SelectorExpr:
		return f.Sel
	}
	return nil
}

// forward gives the head of a function of a signature, up to what comes before the called
// function, and the arguments that it passes on.
func (s *source) forward(t *types.Signature) (head, call string, ok bool) {
	var params, args []string
	for i := range t.Params().Len() {
		kind := t.Params().At(i).Type()
		p := s.name()
		if t.Variadic() && i == t.Params().Len()-1 {
			text, ok := s.write(kind.(*types.Slice).Elem())
			if !ok {
				return "", "", false
			}
			params, args = append(params, p+" ..."+text), append(args, p+"...")
			continue
		}
		text, ok := s.write(kind)
		if !ok {
			return "", "", false
		}
		params, args = append(params, p+" "+text), append(args, p)
	}
	var results []string
	for i := range t.Results().Len() {
		text, ok := s.write(t.Results().At(i).Type())
		if !ok {
			return "", "", false
		}
		results = append(results, text)
	}
	returns := ""
	if len(results) > 0 {
		returns = "return "
	}
	return fmt.Sprintf("(%s) (%s) { %s", strings.Join(params, ", "), strings.Join(results, ", "), returns), strings.Join(args, ", "), true
}

// appended: append(xs, ys) of []any  =>  var v any = ys; append(xs, v);
// append(s[:1], x, s[1])  =>  v := s[1]; append(s[:1], x, v)
func appended(s *source) {
	each(s, func(c *ast.CallExpr) {
		if s.builtin(c) != "append" || len(c.Args) < 2 || c.Ellipsis.IsValid() {
			return
		}
		stmt := s.statement(c)
		t, ok := s.under(c).(*types.Slice)
		if !ok || stmt == nil || !s.onlyAround(c, stmt) {
			return
		}
		if arg, ok := s.under(c.Args[1]).(*types.Slice); ok && len(c.Args) == 2 && isInterface(t.Elem()) && types.Identical(arg.Elem(), t.Elem()) {
			if text, ok := s.write(t.Elem()); ok && !strings.Contains(s.text(c.Args[1]), "\n") {
				w := s.name()
				s.add(s.insert(stmt.Pos(), "var %s %s = %s; ", w, text, s.text(c.Args[1])), s.replace(c.Args[1].Pos(), c.Args[1].End(), "%s", w))
			}
			return
		}
		cut, ok := ast.Unparen(c.Args[0]).(*ast.SliceExpr)
		if !ok {
			return
		}
		for _, a := range c.Args[2:] {
			if x, ok := ast.Unparen(a).(*ast.IndexExpr); ok && s.object(cut.X) != nil && s.object(x.X) == s.object(cut.X) {
				s.before(a, stmt)
			}
		}
	})
}
