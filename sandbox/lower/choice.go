package lower

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// conditions: case a > 1, b > 2:  =>  case a > 1 || b > 2:
func conditions(s *source) {
	each(s, func(w *ast.SwitchStmt) {
		if w.Tag != nil {
			return
		}
		for _, stmt := range w.Body.List {
			c, ok := stmt.(*ast.CaseClause)
			if !ok || len(c.List) < 2 {
				continue
			}
			var edits []edit
			for i := range c.List[1:] {
				edits = append(edits, s.replace(c.List[i].End(), c.List[i+1].Pos(), " || "))
			}
			s.add(edits...)
		}
	})
}

// taggedSwitch compares by itself where the interpreter would skip cases or take a wrong
// one:
//
//	switch x { case f(1), f(2):  =>  switch t := x; { case t == f(1) || t == f(2):
func taggedSwitch(s *source) {
	each(s, func(w *ast.SwitchStmt) {
		if w.Tag == nil || w.Init != nil || !s.comparable(w) || !s.oddCases(w) {
			return
		}
		t := s.name()
		tag, tail := t+" := ", "; "
		if s.constant(w.Tag) {
			text, ok := s.write(types.Default(s.typeOf(w.Tag)))
			if !ok {
				return
			}
			tag, tail = tag+text+"(", "); "
		}
		edits := []edit{s.insert(w.Tag.Pos(), "%s", tag), s.insert(w.Tag.End(), "%s", tail)}
		for _, stmt := range w.Body.List {
			c, ok := stmt.(*ast.CaseClause)
			if !ok {
				continue
			}
			for i, e := range c.List {
				glue, open, end := "", "", ""
				from := e.Pos()
				if i > 0 {
					glue, from = " || ", c.List[i-1].End()
				}
				if _, binary := e.(*ast.BinaryExpr); binary {
					open, end = "(", ")"
				}
				edits = append(edits, s.replace(from, e.Pos(), "%s%s == %s", glue, t, open))
				if end != "" {
					edits = append(edits, s.insert(e.End(), "%s", end))
				}
			}
		}
		s.add(edits...)
	})
}

// comparable says whether the cases of a switch may be compared with == by the interpreter:
// of interfaces, errors with errors and nil only.
func (s *source) comparable(w *ast.SwitchStmt) bool {
	tag := s.typeOf(w.Tag)
	if !isInterface(tag) {
		return true
	}
	same := types.Identical(tag, types.Universe.Lookup("error").Type())
	for _, stmt := range w.Body.List {
		if c, ok := stmt.(*ast.CaseClause); ok {
			for _, e := range c.List {
				same = same && (s.Info.Types[e].IsNil() || types.Identical(s.typeOf(e), tag))
			}
		}
	}
	return same
}

// oddCases says whether a switch has cases that the interpreter gets wrong: calls, nil,
// floats that stand for integers, several that are computed.
func (s *source) oddCases(w *ast.SwitchStmt) (found bool) {
	for _, stmt := range w.Body.List {
		c, ok := stmt.(*ast.CaseClause)
		if !ok {
			continue
		}
		for i, e := range c.List {
			_, name := ast.Unparen(e).(*ast.Ident)
			computed := !s.constant(e) && !name
			literal, is := ast.Unparen(e).(*ast.BasicLit)
			found = found || computed && (i > 0 || s.calls(e) > 0) || s.Info.Types[e].IsNil() ||
				is && literal.Kind == token.FLOAT
		}
	}
	return found
}

// parentheses: !(ok) || x  =>  ! ok  || x, and the same around any name or literal
func parentheses(s *source) {
	each(s, func(e *ast.ParenExpr) {
		if Idle(e) && !s.Info.Types[e].IsType() {
			s.add(s.replace(e.Lparen, e.Lparen+1, " "), s.replace(e.Rparen, e.Rparen+1, " "))
		}
	})
}

// constants writes the value of a constant expression that the interpreter gets wrong:
// comparisons in declarations, whole numbers divided as floats, what iota repeats.
func constants(s *source) {
	repeated := s.repeated()
	for o, id := range repeated { // in any order: rewrites of one round are sorted by place
		s.writeOut(o, id)
	}
	inside := map[ast.Node]bool{}
	each(s, func(b *ast.BinaryExpr) {
		v := s.Info.Types[b].Value
		if v == nil || inside[b] || s.function(b) != nil && v.Kind() == constant.Bool && !s.holds(b, repeated) {
			return
		}
		basic, ok := s.under(b).(*types.Basic)
		if !ok || !(v.Kind() == constant.Bool || basic.Info()&types.IsFloat != 0 && s.whole(b) || s.holds(b, repeated)) {
			return
		}
		text := s.literal(v, basic)
		if named, is := types.Unalias(s.typeOf(b)).(*types.Named); is && text != "" {
			if name, ok := s.write(named); ok {
				text = name + "(" + text + ")"
			}
		}
		if text == "" || strings.Contains(s.text(b), "iota") {
			return
		}
		ast.Inspect(b, func(n ast.Node) bool {
			inside[n] = true
			return true
		})
		s.add(s.replace(b.Pos(), b.End(), "%s", text))
	})
}

// writeOut gives a constant of a named type its value:
//
//	const ( R F = 1 << iota; W )  =>  const ( R F = 1; W F = 2 )
func (s *source) writeOut(o types.Object, id *ast.Ident) {
	c, ok := o.(*types.Const)
	if !ok || id.Name == "_" {
		return
	}
	name, written := s.write(c.Type())
	basic, ok := c.Type().Underlying().(*types.Basic)
	spec, is := s.parent[id].(*ast.ValueSpec)
	if !ok || !written || !is || len(spec.Names) != 1 {
		return
	}
	text := s.literal(c.Val(), basic)
	if text == "" {
		return
	}
	end := id.End()
	if len(spec.Values) > 0 {
		end = spec.Values[0].End()
	}
	s.add(s.replace(id.End(), end, " %s = %s", name, text))
}

// repeated are the constants of named types that iota makes, and their names.
func (s *source) repeated() map[types.Object]*ast.Ident {
	set := map[types.Object]*ast.Ident{}
	each(s, func(d *ast.GenDecl) {
		for _, spec := range d.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || d.Tok != token.CONST || len(v.Values) > 0 && !names(v, "iota") {
				continue
			}
			for _, n := range v.Names {
				o := s.Info.Defs[n]
				if o == nil {
					continue
				}
				if _, named := types.Unalias(o.Type()).(*types.Named); named {
					set[o] = n
				}
			}
		}
	})
	return set
}

func (s *source) holds(e ast.Expr, set map[types.Object]*ast.Ident) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && set[s.Info.Uses[id]] != nil
		return true
	})
	return found
}

// whole says whether an expression divides, and is made of integer literals only.
func (s *source) whole(e ast.Expr) bool {
	whole, divides := true, false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			whole = whole && n.Kind != token.FLOAT
		case *ast.BinaryExpr:
			divides = divides || n.Op == token.QUO
		case *ast.CallExpr:
			whole = false
		case *ast.Ident:
			o, ok := s.Info.Uses[n].(*types.Const)
			whole = whole && ok && o.Val().Kind() == constant.Int
		}
		return true
	})
	return whole && divides
}

// literal is the text of a constant's value, or "" where none is short and exact.
func (s *source) literal(v constant.Value, t *types.Basic) string {
	switch {
	case t.Info()&types.IsBoolean != 0:
		return strconv.FormatBool(constant.BoolVal(v))
	case t.Info()&types.IsInteger != 0:
		if v = constant.ToInt(v); v.Kind() == constant.Int && constant.BitLen(v) < 64 {
			return v.ExactString()
		}
	case t.Info()&types.IsFloat != 0:
		if f, exact := constant.Float64Val(v); exact {
			text := strconv.FormatFloat(f, 'f', -1, 64)
			if !strings.Contains(text, ".") {
				text += ".0"
			}
			return text
		}
	case t.Info()&types.IsString != 0:
		return strconv.Quote(constant.StringVal(v))
	}
	return ""
}
