package lower

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// use is what happens to a variable.
type use struct {
	function ast.Node // it belongs to; nil = package
	writes   int      // assignments to it after its declaration
	inPlace  int      // assignments to a part of it, and addresses taken
	captured int      // uses in function literals inside its function
}

// collect finds parents, and what happens to variables.
func (s *source) collect() {
	s.parent, s.vars, s.made = map[ast.Node]ast.Node{}, map[types.Object]*use{}, map[ast.Stmt][]*ast.CallExpr{}
	var stack []ast.Node
	ast.Inspect(s.File, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if len(stack) > 0 {
			s.parent[n] = stack[len(stack)-1]
		}
		stack = append(stack, n)
		return true
	})
	for id, o := range s.Info.Defs {
		if v, ok := o.(*types.Var); ok && !v.IsField() {
			s.vars[o] = &use{function: s.function(id)}
		}
	}
	for n, o := range s.Info.Implicits {
		if _, ok := o.(*types.Var); ok {
			s.vars[o] = &use{function: s.function(n)}
		}
	}
	ast.Inspect(s.File, func(n ast.Node) bool {
		s.note(n)
		return true
	})
	s.conversions = Conversions(s.Checked)
	s.becomes = map[types.Object][]ast.Expr{}
	s.convertedTo(func(e ast.Expr, _ types.Type) {
		if o := s.object(e); o != nil {
			s.becomes[o] = append(s.becomes[o], e)
		}
	})
}

func (s *source) note(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, l := range n.Lhs {
			if id, ok := l.(*ast.Ident); !ok || s.Info.Defs[id] == nil {
				s.written(l)
			}
		}
	case *ast.IncDecStmt:
		s.written(n.X)
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			s.written(n.Key)
			if n.Value != nil {
				s.written(n.Value)
			}
		}
	case *ast.UnaryExpr:
		if u := s.vars[s.root(n.X)]; n.Op == token.AND && u != nil {
			u.inPlace++
		}
	case *ast.SliceExpr:
		if _, array := s.under(n.X).(*types.Array); array {
			if u := s.vars[s.root(n.X)]; u != nil {
				u.inPlace++
			}
		}
	case *ast.SelectorExpr:
		if u := s.vars[s.root(n.X)]; u != nil && s.byAddress(n) {
			u.inPlace++
		}
	case *ast.Ident:
		if u := s.vars[s.Info.Uses[n]]; u != nil && u.function != nil && s.function(n) != u.function {
			u.captured++
		}
	}
}

func (s *source) written(l ast.Expr) {
	if u := s.vars[s.object(l)]; u != nil {
		u.writes++
	} else if u := s.vars[s.root(l)]; u != nil {
		u.inPlace++
	}
}

// byAddress says whether a selector names a pointer method of something that is no pointer.
func (s *source) byAddress(x *ast.SelectorExpr) bool {
	sel := s.Info.Selections[x]
	if sel == nil || sel.Kind() != types.MethodVal {
		return false
	}
	_, pointer := types.Unalias(sel.Obj().Type().(*types.Signature).Recv().Type()).(*types.Pointer)
	_, already := s.under(x.X).(*types.Pointer)
	return pointer && !already
}

// object is what an identifier names, or nil.
func (s *source) object(e ast.Expr) types.Object {
	if id, ok := ast.Unparen(e).(*ast.Ident); ok {
		return s.Info.ObjectOf(id)
	}
	return nil
}

// root is the variable whose own storage an expression names, or nil.
func (s *source) root(e ast.Expr) types.Object {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			return s.Info.ObjectOf(x)
		case *ast.SelectorExpr:
			if _, ok := s.under(x.X).(*types.Struct); !ok {
				return nil
			}
			e = x.X
		case *ast.IndexExpr:
			if _, ok := s.under(x.X).(*types.Array); !ok {
				return nil
			}
			e = x.X
		default:
			return nil
		}
	}
}

func (s *source) typeOf(e ast.Expr) types.Type { return typeIn(s.Info, e) }

func (s *source) under(e ast.Expr) types.Type { return s.typeOf(e).Underlying() }

func isInterface(t types.Type) bool {
	if _, generic := types.Unalias(t).(*types.TypeParam); generic {
		return false
	}
	return types.IsInterface(t)
}

// constant says whether an expression is a constant or nil.
func (s *source) constant(e ast.Expr) bool {
	t := s.Info.Types[e]
	return t.Value != nil || t.IsNil()
}

// builtin is the name of a called builtin function, or "".
func (s *source) builtin(e ast.Expr) string {
	if c, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		if b, ok := s.object(c.Fun).(*types.Builtin); ok {
			return b.Name()
		}
	}
	return ""
}

// calls counts the calls in an expression, conversions and function literals left out.
func (s *source) calls(n ast.Node) (count int) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if !s.Info.Types[n.Fun].IsType() {
				count++
			}
		}
		return true
	})
	return count
}

// mentions says whether a node uses an object.
func (s *source) mentions(n ast.Node, o types.Object) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && o != nil && s.Info.ObjectOf(id) == o {
			found = true
		}
		return !found
	})
	return found
}

// inside says whether a node lies in another.
func (s *source) inside(n, outer ast.Node) bool {
	for ; n != nil; n = s.parent[n] {
		if n == outer {
			return true
		}
	}
	return false
}

// function is the innermost function around a node, the node itself left out.
func (s *source) function(n ast.Node) ast.Node {
	for n = s.parent[n]; n != nil; n = s.parent[n] {
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			return n
		}
	}
	return nil
}

// loop says whether a node may be reached more than once in a call of its function.
func (s *source) loop(n ast.Node) bool {
	for n = s.parent[n]; n != nil; n = s.parent[n] {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.LabeledStmt:
			return true
		case *ast.FuncDecl, *ast.FuncLit:
			return false
		}
	}
	return false
}

// listed says whether a statement stands in a list, so that others may stand beside it.
func (s *source) listed(n ast.Node) bool {
	switch s.parent[n].(type) {
	case *ast.BlockStmt, *ast.CaseClause:
		return true
	}
	return false
}

// statement is the listed statement around an expression, if the expression is evaluated
// exactly once and first of all that it does: not in a function literal, a condition that
// may be skipped, or a header that runs again.
func (s *source) statement(e ast.Node) ast.Stmt {
	for n, child := s.parent[e], e; n != nil; n, child = s.parent[n], n {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.ForStmt, *ast.CaseClause:
			return nil
		case *ast.BinaryExpr:
			if (n.Op == token.LAND || n.Op == token.LOR) && child == ast.Node(n.Y) {
				return nil
			}
		case *ast.RangeStmt:
			if child != ast.Node(n.X) || !s.listed(n) {
				return nil
			}
			return n
		case *ast.IfStmt:
			if n.Init != nil || child != ast.Node(n.Cond) || !s.listed(n) {
				return nil
			}
			return n
		case *ast.SwitchStmt:
			if n.Init != nil || child != ast.Node(n.Tag) || !s.listed(n) {
				return nil
			}
			return n
		case *ast.TypeSwitchStmt:
			return nil
		case *ast.ExprStmt, *ast.AssignStmt, *ast.ReturnStmt, *ast.DeferStmt, *ast.IncDecStmt:
			if s.listed(n) {
				return n.(ast.Stmt)
			}
		case *ast.DeclStmt:
			if s.listed(n) {
				return n
			}
		}
	}
	return nil
}

// onlyAround says whether every call of a statement is around an expression or inside it,
// so that the expression may be evaluated before the statement.
func (s *source) onlyAround(e ast.Expr, stmt ast.Stmt) bool {
	return !slices.ContainsFunc(s.callsOf(stmt), func(c *ast.CallExpr) bool {
		return !s.inside(e, c) && !s.inside(c, e)
	})
}

// pure are packages whose functions change nothing and call nothing of the source, unless
// they are given a function.
var pure = []string{"strings", "strconv", "math", "unicode", "unicode/utf8"}

// changes says whether a call may change a variable.
func (s *source) changes(c *ast.CallExpr) bool {
	if s.Info.Types[c.Fun].IsType() {
		return false
	}
	switch s.builtin(c) {
	case "len", "cap", "min", "max":
		return false
	}
	id := callee(c)
	if id == nil {
		return true
	}
	f, ok := s.Info.Uses[id].(*types.Func)
	if !ok || f.Pkg() == nil || !slices.Contains(pure, f.Pkg().Path()) || f.Type().(*types.Signature).Recv() != nil {
		return true
	}
	return slices.ContainsFunc(c.Args, func(a ast.Expr) bool {
		_, function := s.under(a).(*types.Signature)
		return function
	})
}

// callsOf gives the calls that a statement itself makes and that may change a variable:
// function literals and blocks left out.
func (s *source) callsOf(stmt ast.Stmt) []*ast.CallExpr {
	list, known := s.made[stmt]
	if known {
		return list
	}
	ast.Inspect(stmt, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.BlockStmt:
			return false
		case *ast.CallExpr:
			if s.changes(n) {
				list = append(list, n)
			}
		}
		return true
	})
	s.made[stmt] = list
	return list
}

// before puts an expression in a variable on the same line, before its statement.
func (s *source) before(e ast.Expr, stmt ast.Stmt) {
	w := s.name()
	text := s.text(e)
	if strings.Contains(text, "\n") {
		return
	}
	s.add(s.insert(stmt.Pos(), "%s := %s; ", w, text), s.replace(e.Pos(), e.End(), "%s", w))
}

// results are the types of the results of the function around a node.
func (s *source) results(n ast.Node) *types.Tuple { return Results(s.Info, s.function(n)) }

// imported gives the names of imported packages, by path.
func (s *source) imported() map[string]string {
	names := map[string]string{}
	for _, i := range s.File.Imports {
		if path, err := strconv.Unquote(i.Path.Value); err == nil {
			names[path] = path[strings.LastIndex(path, "/")+1:]
			if i.Name != nil {
				names[path] = i.Name.Name
			}
		}
	}
	return names
}

// write gives a type as source text that means the same anywhere in the file; ok is false
// for types that have no such text.
func (s *source) write(t types.Type) (text string, ok bool) {
	ok = true
	names := s.imported()
	seen := map[types.Type]bool{}
	var walk func(t types.Type)
	walk = func(t types.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Named:
			o := t.Obj()
			ok = ok && (o.Pkg() == nil || o.Pkg() != s.Pkg || o.Parent() == s.Pkg.Scope())
			for i := range t.TypeArgs().Len() {
				walk(t.TypeArgs().At(i))
			}
		case *types.Alias:
			walk(types.Unalias(t))
		case *types.TypeParam:
			ok = false
		case *types.Pointer:
			walk(t.Elem())
		case *types.Slice:
			walk(t.Elem())
		case *types.Array:
			walk(t.Elem())
		case *types.Map:
			walk(t.Key())
			walk(t.Elem())
		case *types.Chan:
			ok = false
		case *types.Tuple:
			for i := range t.Len() {
				walk(t.At(i).Type())
			}
		case *types.Signature:
			walk(t.Params())
			walk(t.Results())
		case *types.Struct:
			for i := range t.NumFields() {
				walk(t.Field(i).Type())
			}
		case *types.Basic:
			ok = ok && t.Info()&types.IsUntyped == 0 && t.Kind() != types.Invalid
		}
	}
	walk(t)
	text = types.TypeString(t, func(p *types.Package) string {
		if p == s.Pkg {
			return ""
		}
		if names[p.Path()] == "" {
			ok = false
		}
		return names[p.Path()]
	})
	return text, ok
}
