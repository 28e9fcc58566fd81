package vet

import (
	"go/ast"
	"go/types"
	"slices"
)

var recursiveRules = []Rule{
	{Name: "FUNC-TYPE", Why: "it does not compile", Hint: "hand over what it needs in a struct, or dispatch by name", find: recursiveFunction},
	{Name: "FUNC-LIST", Why: "calling one of its functions panics", Hint: "put the function into a struct type of its own: type step struct{ run func(a *T) }", find: recursiveList},
}

// recursiveFunction finds type F func(F).
func recursiveFunction(p *program) {
	each(p, func(t *ast.TypeSpec) {
		f, ok := t.Type.(*ast.FuncType)
		if !ok {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && p.info.Uses[id] == p.info.Defs[t.Name] {
				p.refuse(t, "function type that mentions itself")
				return false
			}
			return true
		})
	})
}

// recursiveList finds structures that hold lists of functions that take such a structure:
// the interpreter makes the type of the list before that of the structure.
func recursiveList(p *program) {
	each(p, func(t *ast.TypeSpec) {
		s, ok := t.Type.(*ast.StructType)
		o := p.info.Defs[t.Name]
		if !ok || o == nil {
			return
		}
		n, ok := types.Unalias(o.Type()).(*types.Named)
		if !ok {
			return
		}
		for _, f := range s.Fields.List {
			if p.listsOf(p.typeOf(f.Type), n) {
				p.refuse(f, "field that holds functions of %s itself", n.Obj().Name())
			}
		}
	})
}

// listsOf says whether t, or what it holds apart from other named structures, is a
// function that takes n, or a structure without a name that mentions n; the outermost
// function counts only inside something else.
func (p *program) listsOf(t types.Type, n *types.Named) bool {
	seen := map[types.Type]bool{}
	var walk func(t types.Type, inside bool) bool
	walk = func(t types.Type, inside bool) bool {
		if t = types.Unalias(t); seen[t] {
			return false
		}
		seen[t] = true
		named := p.own(t) != nil && !isPointer(t)
		switch u := under(t).(type) {
		case *types.Pointer:
			return walk(u.Elem(), true)
		case *types.Slice:
			return walk(u.Elem(), true)
		case *types.Array:
			return walk(u.Elem(), true)
		case *types.Map:
			return walk(u.Elem(), true)
		case *types.Struct:
			return !named && inside && p.reaches(t, n)
		case *types.Signature:
			if inside && p.reaches(u.Params(), n) {
				return true
			}
			for i := range u.Results().Len() {
				if walk(u.Results().At(i).Type(), inside) {
					return true
				}
			}
		}
		return false
	}
	return walk(t, false)
}

// reaches says whether a type mentions n, or types of the source that do.
func (p *program) reaches(t types.Type, n *types.Named) bool {
	seen := map[types.Type]bool{}
	var walk func(t types.Type) bool
	walk = func(t types.Type) bool {
		if t = types.Unalias(t); seen[t] {
			return false
		}
		seen[t] = true
		if m, ok := t.(*types.Named); ok {
			if m == n {
				return true
			}
			if m.Obj().Pkg() != p.pkg {
				return false
			}
			t = under(m)
		}
		switch u := t.(type) {
		case *types.Signature:
			return walk(u.Params()) || walk(u.Results())
		case *types.Tuple:
			for v := range u.Variables() {
				if walk(v.Type()) {
					return true
				}
			}
			return false
		}
		return slices.ContainsFunc(parts(t), walk)
	}
	return walk(t)
}
