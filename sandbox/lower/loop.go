package lower

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// loopCopies gives each pass its own copy of a loop variable that something may keep:
//
//	for i := 0; i < 3; i++ { f(&i) }  =>  for i := 0; i < 3; i++ { i := i; f(&i) }
//
// A variable of a loop with three clauses must not be written in the body, since the next
// pass begins with what this one left.
func loopCopies(s *source) {
	each(s, func(r *ast.RangeStmt) {
		if r.Tok != token.DEFINE {
			return
		}
		s.copyInto(r.Body, []ast.Expr{r.Key, r.Value}, true)
	})
	each(s, func(f *ast.ForStmt) {
		if a, ok := f.Init.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
			s.copyInto(f.Body, a.Lhs, false)
		}
	})
}

// copyInto writes the copies; written says whether a variable may be written in the body.
func (s *source) copyInto(body *ast.BlockStmt, names []ast.Expr, written bool) {
	text := ""
	for _, n := range names {
		id, ok := n.(*ast.Ident)
		if !ok {
			continue
		}
		o := s.Info.Defs[id]
		u := s.vars[o]
		if u == nil || !s.mentions(body, o) || declares(body, id.Name) {
			continue
		}
		if w := s.writes(body, o); w && !written || !w && !s.shared(body, o) {
			continue
		}
		text += " " + id.Name + " := " + id.Name + ";"
	}
	if text != "" {
		s.add(s.insert(body.Lbrace+1, "%s", text))
	}
}

// shared says whether a body takes a variable into a closure, its address, or makes an
// interface of it.
func (s *source) shared(body *ast.BlockStmt, o types.Object) bool {
	u := s.vars[o]
	if u.captured > 0 || u.inPlace > 0 {
		return true
	}
	return slices.ContainsFunc(s.becomes[o], func(e ast.Expr) bool { return s.inside(e, body) })
}

// writes says whether a body assigns to a variable or a part of it.
func (s *source) writes(body ast.Node, o types.Object) (found bool) {
	hit := func(e ast.Expr) { found = found || e != nil && s.root(e) == o }
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				hit(l)
			}
		case *ast.IncDecStmt:
			hit(n.X)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				hit(n.Key)
				hit(n.Value)
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				hit(n.X)
			}
		case *ast.SelectorExpr:
			if s.byAddress(n) {
				hit(n.X)
			}
		}
		return true
	})
	return found
}

// declares says whether a block itself declares a name.
func declares(b *ast.BlockStmt, name string) bool {
	for _, stmt := range b.List {
		switch d := stmt.(type) {
		case *ast.AssignStmt:
			for _, l := range d.Lhs {
				if id, ok := l.(*ast.Ident); ok && d.Tok == token.DEFINE && id.Name == name {
					return true
				}
			}
		case *ast.DeclStmt:
			found := false
			ast.Inspect(d, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				found = found || ok && id.Name == name
				return true
			})
			if found {
				return true
			}
		}
	}
	return false
}

// decode is the helper of rangeString: the first rune of a string and its length.
const decode = `func ` + prefix + `decode(s string) (rune, int) { for _, r := range s { n := 4; if r < 0x80 { n = 1 } else if r < 0x800 { n = 2 } else if r < 0x10000 { n = 3 }; if r == 0xFFFD && (len(s) < 3 || s[0] != 0xEF || s[1] != 0xBF || s[2] != 0xBD) { n = 1 }; return r, n }; return 0, 0 }
`

// rangeString counts bytes where the interpreter counts runes:
//
//	for i, r := range s {  =>  for a, n, t := 0, 0, s; a < len(t); a += n { r, m := decode(t[a:]); n = m; i := a;
func rangeString(s *source) {
	each(s, func(r *ast.RangeStmt) {
		b, ok := s.under(r.X).(*types.Basic)
		if !ok || b.Info()&types.IsString == 0 || r.Tok != token.DEFINE || isBlank(r.Key) {
			return
		}
		at, size, text, length := s.name(), s.name(), s.name(), s.name()
		value := "_"
		if r.Value != nil {
			value = s.text(r.Value)
		}
		s.addWith(decode,
			s.replace(r.Pos(), r.X.Pos(), "for %s, %s, %s := 0, 0, string(", at, size, text),
			s.insert(r.X.End(), "); %s < len(%s); %s += %s", at, text, at, size),
			s.insert(r.Body.Lbrace+1, " %s, %s := %sdecode(%s[%s:]); %s = %s; %s := %s;", value, length, prefix, text, at, size, length, s.text(r.Key), at))
	})
}

func isBlank(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return e == nil || ok && id.Name == "_"
}

// rangeAssign: for i = range xs {  =>  for w := range xs { i = w;
func rangeAssign(s *source) {
	each(s, func(r *ast.RangeStmt) {
		if r.Tok != token.ASSIGN || s.integer(r) {
			return
		}
		names, copies := "", ""
		for _, l := range []ast.Expr{r.Key, r.Value} {
			switch {
			case l == nil:
				continue
			case isBlank(l):
				names += ", _"
			case s.calls(l) > 0:
				return
			default:
				w := s.name()
				names += ", " + w
				copies += " " + s.text(l) + " = " + w + ";"
			}
		}
		if copies == "" {
			s.add(s.replace(r.Pos(), r.X.Pos(), "for range "))
			return
		}
		s.add(s.replace(r.Pos(), r.X.Pos(), "for %s := range ", names[2:]), s.insert(r.Body.Lbrace+1, "%s", copies))
	})
}

// rangePointer: range p, a pointer to an array  =>  range p[:]
func rangePointer(s *source) {
	each(s, func(r *ast.RangeStmt) {
		if _, ok := s.under(r.X).(*types.Pointer); !ok || isBlank(r.Value) {
			return
		}
		switch r.X.(type) {
		case *ast.Ident, *ast.SelectorExpr:
			s.add(s.insert(r.X.End(), "[:]"))
		}
	})
}

// integer says whether a range runs over an integer.
func (s *source) integer(r *ast.RangeStmt) bool {
	b, ok := s.under(r.X).(*types.Basic)
	return ok && b.Info()&types.IsInteger != 0
}

// rangeInteger: for i := range n {  =>  for a, b := T(0), T(n); a < b; a++ { i := a;
func rangeInteger(s *source) {
	each(s, func(r *ast.RangeStmt) {
		if !s.integer(r) {
			return
		}
		t := types.Default(s.typeOf(r.X))
		if r.Key != nil && !isBlank(r.Key) {
			t = s.typeOf(r.Key)
		}
		text, ok := s.write(t)
		if !ok {
			return
		}
		a, b := s.name(), s.name()
		edits := []edit{s.replace(r.Pos(), r.X.Pos(), "for %s, %s := %s(0), %s(", a, b, text, text),
			s.insert(r.X.End(), "); %s < %s; %s++", a, b, a)}
		if !isBlank(r.Key) {
			edits = append(edits, s.insert(r.Body.Lbrace+1, " %s %s %s;", s.text(r.Key), r.Tok, a))
		}
		s.add(edits...)
	})
}

// forInit: for i := 0; ; {  =>  { i := 0; for {
func forInit(s *source) {
	each(s, func(f *ast.ForStmt) {
		a, ok := f.Init.(*ast.AssignStmt)
		if !ok || f.Cond != nil || f.Post != nil || !s.listed(f) {
			return
		}
		for _, l := range a.Lhs {
			if u := s.vars[s.object(l)]; u != nil && (u.captured > 0 || u.inPlace > 0) {
				return // each pass has a copy of its own
			}
		}
		s.add(s.replace(f.Pos(), a.Pos(), "{ "), s.replace(a.End(), f.Body.Lbrace, "; for "), s.insert(f.End(), "}"))
	})
}
