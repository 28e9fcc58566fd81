package lower

import (
	"fmt"
	"go/ast"
	"go/types"
)

// initOrder sets a package variable that needs a later one where Go would set it, behind
// that one, as the interpreter goes by the text:
//
//	var a = f(); var b = 1  =>  var a int; func v() bool { a = f(); return true }; var b = 1; var w = v()
//
// with f reading b. The expression stays on its line.
func initOrder(s *source) {
	specs := map[types.Object]*ast.ValueSpec{}
	each(s, func(v *ast.ValueSpec) {
		if len(v.Names) == 1 && len(v.Values) == 1 && s.function(v) == nil {
			specs[s.Info.Defs[v.Names[0]]] = v
		}
	})
	var edits []edit
	var last *types.Var
	calls := map[*types.Var]string{} // to make behind a variable
	for _, i := range s.Info.InitOrder {
		v := i.Lhs[0]
		if last == nil || v.Pos() > last.Pos() {
			last = v
			continue
		}
		late, behind := specs[v], specs[last]
		if late == nil || behind == nil {
			return
		}
		f, keyword := s.name(), "var "
		if s.grouped(behind) {
			keyword = ""
		}
		edit, ok := s.setIn(late, f)
		if !ok {
			return
		}
		edits = append(edits, edit...)
		calls[last] += fmt.Sprintf("; %s%s = %s()", keyword, s.name(), f)
	}
	for v, text := range calls { // in any order: edits are sorted by place
		edits = append(edits, s.insert(specs[v].End(), "%s", text))
	}
	if len(edits) > 0 {
		s.add(edits...)
	}
}

// setIn leaves a package variable zero and puts its expression into a function that sets it.
func (s *source) setIn(v *ast.ValueSpec, function string) ([]edit, bool) {
	name, from := v.Names[0], v.Names[0].End()
	kind, ok := s.write(s.typeOf(v.Values[0]))
	if v.Type != nil {
		kind, ok, from = "", true, v.Type.End()
	}
	out, in := "", ""
	if s.grouped(v) {
		out, in = " );", "; var ("
	}
	return []edit{s.replace(from, v.Values[0].Pos(), " %s;%s func %s() bool { %s = ", kind, out, function, name.Name),
		s.insert(v.Values[0].End(), "; return true }%s", in)}, ok
}

// grouped says whether a specification stands between parentheses.
func (s *source) grouped(v *ast.ValueSpec) bool {
	d, ok := s.parent[v].(*ast.GenDecl)
	return ok && d.Lparen.IsValid()
}
