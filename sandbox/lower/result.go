package lower

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// body is one function.
type body struct {
	node  ast.Node
	typ   *ast.FuncType
	block *ast.BlockStmt
}

func (s *source) bodies(f func(b body)) {
	ast.Inspect(s.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			f(body{n, n.Type, n.Body})
		case *ast.FuncLit:
			f(body{n, n.Type, n.Body})
		}
		return true
	})
}

// own calls f for the nodes of a function that belong to no function inside it.
func (b body) own(f func(n ast.Node)) {
	ast.Inspect(b.block, func(n ast.Node) bool {
		if _, inner := n.(*ast.FuncLit); inner {
			return false
		}
		if n != nil {
			f(n)
		}
		return true
	})
}

func (b body) defers() (found bool) {
	b.own(func(n ast.Node) {
		_, is := n.(*ast.DeferStmt)
		found = found || is
	})
	return found
}

// parameters: func(int) string { ... }  =>  func(_ int) string { ... }
func parameters(s *source) {
	s.bodies(func(b body) {
		var edits []edit
		for _, f := range b.typ.Params.List {
			if len(f.Names) == 0 {
				edits = append(edits, s.insert(f.Type.Pos(), "_ "))
			}
		}
		if len(edits) > 0 {
			s.add(edits...)
		}
	})
}

// namedResults makes local variables of named results, which are slots of the caller:
//
//	func f() (n int) { n++; return }  =>  func f() int { var n int; _ = n; n++; return n }
//
// Deferred functions may set results; a function that has some keeps the names, and zeroes
// them first.
func namedResults(s *source) {
	s.bodies(func(b body) {
		if b.typ.Results == nil || len(b.typ.Results.List) == 0 || len(b.typ.Results.List[0].Names) == 0 {
			return
		}
		if b.defers() {
			s.zero(b)
			return
		}
		if !s.readsResults(b) {
			return
		}
		var kinds, all []string
		locals := ""
		for _, f := range b.typ.Results.List {
			for _, id := range f.Names {
				name := id.Name
				if name == "_" {
					name = s.name()
				}
				kinds, all = append(kinds, s.text(f.Type)), append(all, name)
				locals += " var " + name + " " + s.text(f.Type) + "; _ = " + name + ";"
			}
		}
		if strings.Contains(locals, "\n") {
			return
		}
		edits := []edit{s.replace(b.typ.Results.Pos(), b.typ.Results.End(), "(%s)", strings.Join(kinds, ", ")),
			s.insert(b.block.Lbrace+1, "%s", locals)}
		b.own(func(n ast.Node) {
			if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 0 {
				edits = append(edits, s.insert(r.End(), " %s", strings.Join(all, ", ")))
			}
		})
		s.add(edits...)
	})
}

// readsResults says whether a function does anything with its results by name.
func (s *source) readsResults(b body) (found bool) {
	for _, f := range b.typ.Results.List {
		for _, id := range f.Names {
			found = found || s.mentions(b.block, s.Info.Defs[id])
		}
	}
	b.own(func(n ast.Node) {
		r, ok := n.(*ast.ReturnStmt)
		found = found || ok && len(r.Results) == 0
	})
	return found
}

// zero sets named results on the first line, unless that is done already.
func (s *source) zero(b body) {
	text := ""
	for _, f := range b.typ.Results.List {
		for _, id := range f.Names {
			o := s.Info.Defs[id]
			if id.Name == "_" || o == nil || s.setFirst(b, o) {
				continue
			}
			if zero := zeroText(o.Type()); zero != "" {
				text += " " + id.Name + " = " + zero + ";"
			} else {
				w := s.name()
				text += " " + id.Name + " = " + w + ";"
				text = " var " + w + " " + s.text(f.Type) + ";" + text
			}
		}
	}
	if text != "" && !strings.Contains(text, "\n") {
		s.add(s.insert(b.block.Lbrace+1, "%s", text))
	}
}

// setFirst says whether a body begins with assignments, one of them to a result.
func (s *source) setFirst(b body, o types.Object) bool {
	for _, stmt := range b.block.List {
		if _, declaration := stmt.(*ast.DeclStmt); declaration {
			continue
		}
		a, ok := stmt.(*ast.AssignStmt)
		if !ok || a.Tok != token.ASSIGN || len(a.Lhs) != 1 || s.mentions(a.Rhs[0], o) {
			return false
		}
		if s.object(a.Lhs[0]) == o {
			return true
		}
	}
	return false
}

// zeroText is the zero value of a type, or "" for those that have no short one.
func zeroText(t types.Type) string {
	if _, generic := types.Unalias(t).(*types.TypeParam); generic {
		return ""
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsNumeric != 0:
			return "0"
		case u.Info()&types.IsString != 0:
			return `""`
		case u.Info()&types.IsBoolean != 0:
			return "false"
		}
		return ""
	case *types.Struct, *types.Array:
		return ""
	}
	return "nil"
}

// recoveredResults names the results of a function that recovers:
//
//	func f() string { defer func() { recover() }(); ...  =>  func f() (w string) { w = ""; ...
func recoveredResults(s *source) {
	s.bodies(func(b body) {
		if b.typ.Results == nil || len(b.typ.Results.List) == 0 || len(b.typ.Results.List[0].Names) > 0 || !s.recovers(b) {
			return
		}
		var fields []string
		text := ""
		for _, f := range b.typ.Results.List {
			w := s.name()
			fields = append(fields, w+" "+s.text(f.Type))
			if zero := zeroText(s.typeOf(f.Type)); zero != "" {
				text += " " + w + " = " + zero + ";"
			} else {
				v := s.name()
				text = " var " + v + " " + s.text(f.Type) + ";" + text + " " + w + " = " + v + ";"
			}
		}
		if strings.Contains(text, "\n") {
			return
		}
		s.add(s.replace(b.typ.Results.Pos(), b.typ.Results.End(), "(%s)", strings.Join(fields, ", ")),
			s.insert(b.block.Lbrace+1, "%s", text))
	})
}

// recovers says whether a function defers a call of recover, or of a function of the
// source, which may do so.
func (s *source) recovers(b body) (found bool) {
	b.own(func(n ast.Node) {
		d, ok := n.(*ast.DeferStmt)
		if !ok {
			return
		}
		if o, is := s.object(d.Call.Fun).(*types.Func); is && o.Pkg() == s.Pkg {
			found = true
		}
		ast.Inspect(d, func(n ast.Node) bool {
			e, is := n.(ast.Expr)
			found = found || is && s.builtin(e) == "recover"
			return true
		})
	})
	return found
}

// returns puts results into variables where the interpreter would write one too early:
//
//	return x, len(s)  =>  a := x; b := len(s); return a, b
func returns(s *source) {
	each(s, func(r *ast.ReturnStmt) {
		results := s.results(r)
		if len(r.Results) != results.Len() || !s.listed(r) || !s.early(r, results) {
			return
		}
		var edits []edit
		var names []string
		from := r.Pos()
		glue := ""
		for _, e := range r.Results {
			if s.constant(e) && s.builtin(e) == "" {
				if strings.Contains(s.text(e), "\n") {
					return
				}
				names = append(names, s.text(e))
				edits = append(edits, s.replace(from, e.End(), "%s", ""))
				from = e.End()
				continue
			}
			w := s.name()
			names = append(names, w)
			edits = append(edits, s.replace(from, e.Pos(), "%s%s := ", glue, w))
			from, glue = e.End(), "; "
		}
		s.add(append(edits, s.insert(from, "%sreturn %s", glue, strings.Join(names, ", ")))...)
	})
}

// besideInterface says whether another result is an interface of the source with methods.
func (s *source) besideInterface(results *types.Tuple, i int) bool {
	for j := range results.Len() {
		t := results.At(j).Type()
		if j != i && isInterface(t) && t.Underlying().(*types.Interface).NumMethods() > 0 && !s.wrapped(t) {
			return true
		}
	}
	return false
}

// early says whether a return has a result that is written before another is read, or an
// operator that is lost.
func (s *source) early(r *ast.ReturnStmt, results *types.Tuple) bool {
	for i, e := range r.Results {
		if i > 0 && s.builtin(e) != "" { // also of a constant
			return true
		}
		if s.constant(e) {
			continue
		}
		if _, operator := ast.Unparen(e).(*ast.BinaryExpr); operator && s.besideInterface(results, i) {
			return true
		}
		if len(r.Results) > 1 {
			for j := range results.Len() {
				if i != j && results.At(j).Name() != "" && s.mentions(e, results.At(j)) {
					return true
				}
			}
		}
		if !isInterface(results.At(i).Type()) {
			continue
		}
		switch e := ast.Unparen(e).(type) {
		case *ast.UnaryExpr:
			if e.Op != token.AND {
				return true
			}
		case *ast.BinaryExpr:
			if b, ok := s.under(e).(*types.Basic); ok && b.Info()&types.IsBoolean != 0 {
				return true
			}
		}
	}
	return false
}
