package vet

import (
	"go/ast"
	"go/types"
	"slices"
)

// standard is the imported package and name of a called function, or "".
func (p *program) standard(c *ast.CallExpr) (path, name string) {
	s, ok := unparen(c.Fun).(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	f, ok := p.info.Uses[s.Sel].(*types.Func)
	if !ok || f.Pkg() == nil || f.Pkg() == p.pkg {
		return "", ""
	}
	return f.Pkg().Path(), f.Name()
}

// builtin is the name of a called builtin function, or "".
func (p *program) builtin(e ast.Expr) string {
	c, ok := unparen(e).(*ast.CallExpr)
	if !ok {
		return ""
	}
	id, ok := unparen(c.Fun).(*ast.Ident)
	if !ok {
		return ""
	}
	if b, ok := p.info.Uses[id].(*types.Builtin); ok {
		return b.Name()
	}
	return ""
}

func (p *program) typeOf(e ast.Expr) types.Type {
	if t := p.info.TypeOf(e); t != nil {
		return t
	}
	return types.Typ[types.Invalid]
}

func (p *program) constant(e ast.Expr) bool { return p.info.Types[e].Value != nil }

// mentions says whether an expression names a variable.
func (p *program) mentions(e ast.Node, v *variable) (found bool) {
	if v == nil || e == nil {
		return false
	}
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && p.variable(id) == v {
			found = true
		}
		return !found
	})
	return found
}

// calls says whether evaluating an expression calls a function.
func (p *program) calls(e ast.Node) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			found = found || !p.info.Types[n.Fun].IsType() && p.builtin(n) == ""
		}
		return !found
	})
	return found
}

func unparen(e ast.Expr) ast.Expr { return ast.Unparen(e) }

func under(t types.Type) types.Type { return t.Underlying() }

func isCommaOK(e ast.Expr) bool {
	switch unparen(e).(type) {
	case *ast.IndexExpr, *ast.TypeAssertExpr:
		return true
	}
	return false
}

func isInterface(t types.Type) bool {
	if _, generic := types.Unalias(t).(*types.TypeParam); generic {
		return false
	}
	_, ok := under(t).(*types.Interface)
	return ok
}

func isAny(t types.Type) bool {
	i, ok := under(t).(*types.Interface)
	return ok && i.NumMethods() == 0 && isInterface(t)
}

func isErrorType(t types.Type) bool { return types.TypeString(t, nil) == "error" }

// own is the named type of the source that t is or points to, or nil.
func (p *program) own(t types.Type) *types.Named {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() != p.pkg {
		return nil
	}
	return n
}

// withMethods says whether t is, or points to, a concrete type of the source with methods.
func (p *program) withMethods(t types.Type) bool {
	n := p.own(t)
	return n != nil && !isInterface(n) && types.NewMethodSet(types.NewPointer(n)).Len() > 0
}

func hasMethod(t types.Type, names ...string) bool {
	if isInterface(t) {
		return false
	}
	set := types.NewMethodSet(types.NewPointer(t))
	for i := range set.Len() {
		for _, name := range names {
			if set.At(i).Obj().Name() == name {
				return true
			}
		}
	}
	return false
}

// within says whether some part of t, as a printer or marshaler sees it, has a property.
func within(t types.Type, has func(t types.Type) bool) bool {
	seen := map[types.Type]bool{}
	var walk func(t types.Type) bool
	walk = func(t types.Type) bool {
		t = types.Unalias(t)
		if seen[t] {
			return false
		}
		seen[t] = true
		if has(t) {
			return true
		}
		return slices.ContainsFunc(parts(under(t)), walk)
	}
	return walk(t)
}

// parts are the types that a value of an unnamed type t holds or leads to.
func parts(t types.Type) (list []types.Type) {
	switch u := t.(type) {
	case *types.Chan: // the contract refuses them
	case *types.Map:
		return []types.Type{u.Key(), u.Elem()}
	case interface{ Elem() types.Type }: // pointer, slice, array
		return []types.Type{u.Elem()}
	case *types.Struct:
		for field := range u.Fields() {
			list = append(list, field.Type())
		}
	}
	return list
}
