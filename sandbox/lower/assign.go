package lower

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// assignments takes several assignments at once apart where the interpreter would drop
// some, or panic:
//
//	a, b = f(), x  =>  v := f(); w := x; a = v; b = w
//
// What the left sides select by is read first, as Go does: i, m[i] = 1, 2 begins with
// j := i.
func assignments(s *source) {
	each(s, func(a *ast.AssignStmt) {
		if a.Tok != token.ASSIGN || len(a.Rhs) < 2 || !s.listed(a) || !s.risky(a) {
			return
		}
		first, targets, ok := s.targets(a)
		if !ok {
			return
		}
		edits, last := []edit{}, ""
		from, glue := a.Pos(), first
		for i, e := range a.Rhs {
			if s.constant(e) {
				if strings.Contains(s.text(e), "\n") {
					return
				}
				edits = append(edits, s.replace(from, e.End(), "%s", glue))
				from, glue = e.End(), ""
				last += "; " + targets[i] + " = " + s.text(e)
				continue
			}
			w := s.name()
			define := w + " := "
			if t := s.typeOf(a.Lhs[i]); !isBlank(a.Lhs[i]) && isInterface(t) && !isInterface(s.typeOf(e)) {
				text, ok := s.write(t)
				if !ok {
					return
				}
				define = "var " + w + " " + text + " = "
			}
			edits = append(edits, s.replace(from, e.Pos(), "%s%s", glue, define))
			from, glue = e.End(), "; "
			last += "; " + targets[i] + " = " + w
		}
		if glue == "" {
			last = strings.TrimPrefix(last, "; ")
		}
		s.add(append(edits, s.insert(from, "%s", last))...)
	})
}

// Literal says whether an expression is a composite literal or the address of one.
func Literal(e ast.Expr) bool {
	e = ast.Unparen(e)
	if u, ok := e.(*ast.UnaryExpr); ok {
		e = u.X
	}
	_, is := e.(*ast.CompositeLit)
	return is
}

// risky says whether the interpreter may get several assignments at once wrong.
func (s *source) risky(a *ast.AssignStmt) bool {
	for i, r := range a.Rhs {
		if Literal(r) || s.calls(r) > 0 || s.Info.Types[r].IsNil() || !isBlank(a.Lhs[i]) && isInterface(s.typeOf(a.Lhs[i])) {
			return true
		}
		if x, ok := ast.Unparen(a.Lhs[i]).(*ast.IndexExpr); ok {
			for j, other := range a.Lhs {
				if j != i && s.object(other) != nil && s.mentions(x.Index, s.object(other)) {
					return true
				}
			}
		}
	}
	return false
}

// targets gives the left sides as they can be written after the assignments before them,
// and the statements that they need first.
func (s *source) targets(a *ast.AssignStmt) (first string, out []string, ok bool) {
	for _, l := range a.Lhs {
		text := s.text(l)
		if s.calls(l) > 0 || strings.Contains(text, "\n") {
			return "", nil, false
		}
		switch x := ast.Unparen(l).(type) {
		case *ast.Ident:
		case *ast.IndexExpr:
			base, index := s.text(x.X), s.text(x.Index)
			if s.changed(a, x.X) {
				return "", nil, false
			}
			if !s.constant(x.Index) && s.changed(a, x.Index) {
				w := s.name()
				first += w + " := " + index + "; "
				index = w
			}
			text = base + "[" + index + "]"
		case *ast.SelectorExpr, *ast.StarExpr:
			operand := ast.Expr(nil)
			if e, is := x.(*ast.SelectorExpr); is {
				operand = e.X
			} else {
				operand = x.(*ast.StarExpr).X
			}
			if !s.changed(a, operand) {
				break
			}
			if _, pointer := s.under(operand).(*types.Pointer); !pointer {
				return "", nil, false
			}
			w := s.name()
			first += w + " := " + s.text(operand) + "; "
			if e, is := x.(*ast.SelectorExpr); is {
				text = w + "." + e.Sel.Name
			} else {
				text = "*" + w
			}
		default:
			return "", nil, false
		}
		out = append(out, text)
	}
	return first, out, true
}

// changed says whether an assignment or a call in it may change what an expression reads.
func (s *source) changed(a *ast.AssignStmt, e ast.Expr) (found bool) {
	if _, only := e.(*ast.Ident); !only && s.calls(a) > 0 {
		return true
	}
	for _, l := range a.Lhs {
		if o := s.object(l); o != nil && s.mentions(e, o) {
			return true
		}
		if s.object(l) == nil { // a field or an element, which another expression may read too
			if _, plain := e.(*ast.Ident); !plain {
				return true
			}
		}
	}
	return false
}

// definitions: a, b := []int{1}, n  =>  a := []int{1}; b := n
func definitions(s *source) {
	each(s, func(a *ast.AssignStmt) {
		if a.Tok != token.DEFINE || len(a.Rhs) < 2 || !s.listed(a) {
			return
		}
		literals := 0
		for _, r := range a.Rhs {
			if Literal(r) {
				literals++
			}
		}
		if literals == 0 || literals == len(a.Rhs) {
			return
		}
		for i, l := range a.Lhs {
			id, ok := l.(*ast.Ident)
			if !ok || s.Info.Defs[id] == nil {
				return
			}
			for _, r := range a.Rhs[i+1:] {
				if names(r, id.Name) {
					return
				}
			}
		}
		var edits []edit
		from, glue := a.Pos(), ""
		for i, e := range a.Rhs {
			edits = append(edits, s.replace(from, e.Pos(), "%s%s := ", glue, s.text(a.Lhs[i])))
			from, glue = e.End(), "; "
		}
		s.add(edits...)
	})
}

// names says whether an expression holds an identifier, whatever it means.
func names(e ast.Node, name string) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return true
	})
	return found
}

// literals writes into a variable that others share, where the interpreter would make a
// new one; and makes a new one per pass, where it would not:
//
//	x = T{1}   =>  v := T{1}; x = v
//	x := T{1}  =>  v := T{1}; x := v      in a loop
func literals(s *source) {
	each(s, func(a *ast.AssignStmt) {
		if len(a.Lhs) != 1 || len(a.Rhs) != 1 || !s.listed(a) {
			return
		}
		if _, ok := ast.Unparen(a.Rhs[0]).(*ast.CompositeLit); !ok {
			return
		}
		u := s.vars[s.object(a.Lhs[0])]
		if u == nil {
			return
		}
		shared := u.captured > 0 || u.inPlace > 0 || u.function == nil
		switch s.under(a.Rhs[0]).(type) {
		case *types.Struct, *types.Array:
			shared = shared || a.Tok == token.ASSIGN
		}
		if !shared || a.Tok == token.DEFINE && !s.loop(a) || a.Tok != token.DEFINE && a.Tok != token.ASSIGN {
			return
		}
		w := s.name()
		s.add(s.replace(a.Pos(), a.Rhs[0].Pos(), "%s := ", w), s.insert(a.End(), "; %s %s %s", s.text(a.Lhs[0]), a.Tok, w))
	})
}

// commaOK gives the value of a failed look-up its zero, where the interpreter would leave
// what was there:
//
//	v, ok := m[k]  =>  var a T; b, c := m[k]; if c { a = b }; v := a; ok := c
//
// It leaves alone what has a place of its own: a definition outside a loop.
func commaOK(s *source) {
	each(s, func(a *ast.AssignStmt) {
		if len(a.Lhs) != 2 || len(a.Rhs) != 1 || s.function(a) == nil || strings.HasPrefix(s.text(a.Lhs[0]), prefix) {
			return
		}
		t, ok := s.lookedUp(a.Rhs[0])
		if !ok || isBlank(a.Lhs[0]) || a.Tok == token.DEFINE && !s.loop(a) || s.calls(a.Lhs[0])+s.calls(a.Lhs[1]) > 0 {
			return
		}
		f, header := s.parent[a].(*ast.IfStmt)
		if header && (f.Init != ast.Stmt(a) || !s.listed(f)) || !header && !s.listed(a) {
			return
		}
		if header && s.onlyInside(f, a) {
			return
		}
		zero, value, found := s.name(), s.name(), s.name()
		after := s.bind(a, a.Lhs[0], zero)
		if !isBlank(a.Lhs[1]) {
			after += s.bind(a, a.Lhs[1], found)
		}
		lead, tail := "", ""
		edits := []edit{}
		if header {
			lead = "{ "
			tail = "; if "
			edits = append(edits, s.replace(f.Pos(), a.Pos(), ""), s.insert(f.End(), " }"))
		}
		from := a.Pos()
		edits = append(edits, s.replace(from, a.Rhs[0].Pos(), "%svar %s %s; %s, %s := ", lead, zero, t, value, found))
		if header {
			edits = append(edits, s.replace(a.End(), f.Cond.Pos(), "; if %s { %s = %s }%s%s", found, zero, value, after, tail))
		} else {
			edits = append(edits, s.insert(a.End(), "; if %s { %s = %s }%s", found, zero, value, after))
		}
		s.add(edits...)
	})
}

// bind sets a target of a statement, which may be new, to a variable.
func (s *source) bind(a *ast.AssignStmt, l ast.Expr, to string) string {
	tok := " = "
	if id, ok := l.(*ast.Ident); ok && a.Tok == token.DEFINE && s.Info.Defs[id] != nil {
		tok = " := "
	}
	return "; " + s.text(l) + tok + to
}

// lookedUp is the text of the type that m[k] or x.(T) gives.
func (s *source) lookedUp(e ast.Expr) (string, bool) {
	switch x := ast.Unparen(e).(type) {
	case *ast.IndexExpr:
		m, ok := s.under(x.X).(*types.Map)
		if !ok {
			return "", false
		}
		return s.write(m.Elem())
	case *ast.TypeAssertExpr:
		text := s.text(x.Type)
		return text, !strings.Contains(text, "\n")
	}
	return "", false
}

// onlyInside says whether the value of if v, ok := ...; ok { ... } is read only where ok
// holds, and nothing keeps it: the interpreter gets that right.
func (s *source) onlyInside(f *ast.IfStmt, a *ast.AssignStmt) bool {
	value, ok := s.object(a.Lhs[0]), s.object(a.Lhs[1])
	cond := ast.Unparen(f.Cond)
	for {
		b, and := cond.(*ast.BinaryExpr)
		if !and || b.Op != token.LAND {
			break
		}
		cond = ast.Unparen(b.X)
	}
	u := s.vars[value]
	return a.Tok == token.DEFINE && ok != nil && s.object(cond) == ok && u != nil && u.captured == 0 && u.inPlace == 0 &&
		(f.Else == nil || !s.mentions(f.Else, value))
}
