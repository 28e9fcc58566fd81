package lower

import (
	"go/ast"
	"go/token"
	"go/types"
)

// Conversion is one place where a value of a concrete type becomes an interface.
type Conversion struct {
	Expr     ast.Expr
	From, To types.Type
	Kept     bool // may be looked at after the statement
}

// Kit is the path of the package that a harness talks to its engine by; what it is given
// may be kept, other than what the rest of what may be imported is given.
const Kit = "github.com/seed-7c27e6b8/whale/harnesses/kit"

// Conversions gives every conversion of a source to an interface, in the order of the text.
func Conversions(c Checked) []Conversion {
	w := converter{Checked: c}
	var functions []ast.Node // around the node, innermost last
	var above []ast.Node
	ast.Inspect(c.File, func(n ast.Node) bool {
		if n == nil {
			last := above[len(above)-1]
			above = above[:len(above)-1]
			if len(functions) > 0 && functions[len(functions)-1] == last {
				functions = functions[:len(functions)-1]
			}
			return true
		}
		above = append(above, n)
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			functions = append(functions, n)
		case *ast.ReturnStmt:
			w.function = functions[len(functions)-1]
		}
		w.look(n)
		return true
	})
	return w.found
}

// converter finds conversions.
type converter struct {
	Checked
	function ast.Node // around a return statement
	found    []Conversion
}

func (w *converter) typeOf(e ast.Expr) types.Type { return typeIn(w.Info, e) }

func typeIn(info *types.Info, e ast.Expr) types.Type {
	if t := info.TypeOf(e); t != nil {
		return t
	}
	return types.Typ[types.Invalid]
}

func (w *converter) emit(e ast.Expr, to types.Type, kept bool) {
	if e == nil || to == nil || !isInterface(to) {
		return
	}
	from := w.typeOf(e)
	if b, ok := from.(*types.Basic); ok && (b.Kind() == types.UntypedNil || b.Kind() == types.Invalid) || isInterface(from) {
		return
	}
	w.found = append(w.found, Conversion{e, from, to, kept})
}

func (w *converter) look(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok == token.ASSIGN && len(n.Lhs) == len(n.Rhs) {
			for i, l := range n.Lhs {
				w.emit(n.Rhs[i], w.typeOf(l), true)
			}
		}
	case *ast.ValueSpec:
		for i, v := range n.Values {
			if n.Type != nil && len(n.Names) == len(n.Values) {
				w.emit(v, w.typeOf(n.Names[i]), true)
			}
		}
	case *ast.ReturnStmt:
		if results := Results(w.Info, w.function); results.Len() == len(n.Results) {
			for i, r := range n.Results {
				w.emit(r, results.At(i).Type(), true)
			}
		}
	case *ast.CallExpr:
		w.arguments(n)
	case *ast.CompositeLit:
		Elements(w.Info, n, func(e ast.Expr, to types.Type) { w.emit(e, to, true) })
	case *ast.IndexExpr:
		if m, ok := w.typeOf(n.X).Underlying().(*types.Map); ok {
			w.emit(n.Index, m.Key(), false)
		}
	}
}

func (w *converter) arguments(c *ast.CallExpr) {
	if w.Info.Types[c.Fun].IsType() {
		if len(c.Args) == 1 {
			w.emit(c.Args[0], w.typeOf(c.Fun), true)
		}
		return
	}
	id, kept := callee(c), true
	if id != nil {
		switch o := w.Info.Uses[id].(type) {
		case *types.Builtin:
			w.builtin(c, o.Name())
			return
		case *types.Func:
			kept = o.Pkg() == nil || o.Pkg() == w.Pkg || o.Pkg().Path() == Kit // others use it up
		}
	}
	signature, ok := w.typeOf(c.Fun).Underlying().(*types.Signature)
	if !ok {
		return
	}
	params := signature.Params()
	for i, a := range c.Args {
		switch {
		case signature.Variadic() && i >= params.Len()-1:
			if t, ok := params.At(params.Len() - 1).Type().(*types.Slice); ok && !c.Ellipsis.IsValid() {
				w.emit(a, t.Elem(), kept)
			}
		case i < params.Len():
			w.emit(a, params.At(i).Type(), kept)
		}
	}
}

func (w *converter) builtin(c *ast.CallExpr, name string) {
	switch name {
	case "append":
		if t, ok := w.typeOf(c).Underlying().(*types.Slice); ok && !c.Ellipsis.IsValid() {
			for _, a := range c.Args[1:] {
				w.emit(a, t.Elem(), true)
			}
		}
	case "panic":
		w.emit(c.Args[0], types.NewInterfaceType(nil, nil), false)
	}
}

// Elements calls f for every key of a map and every element of a literal, with the type that
// it gets there.
func Elements(info *types.Info, l *ast.CompositeLit, f func(e ast.Expr, to types.Type)) {
	t := typeIn(info, l).Underlying()
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem().Underlying()
	}
	for i, e := range l.Elts {
		value := e
		pair, keyed := e.(*ast.KeyValueExpr)
		if keyed {
			value = pair.Value
		}
		switch t := t.(type) {
		case *types.Slice:
			f(value, t.Elem())
		case *types.Array:
			f(value, t.Elem())
		case *types.Map:
			if keyed {
				f(pair.Key, t.Key())
			}
			f(value, t.Elem())
		case *types.Struct:
			if keyed {
				f(value, typeIn(info, pair.Key))
			} else if i < t.NumFields() {
				f(value, t.Field(i).Type())
			}
		}
	}
}

// Results are the results of a function, a declaration or a literal.
func Results(info *types.Info, function ast.Node) *types.Tuple {
	switch f := function.(type) {
	case *ast.FuncDecl:
		if o, ok := info.Defs[f.Name].(*types.Func); ok {
			return o.Type().(*types.Signature).Results()
		}
	case *ast.FuncLit:
		if t, ok := typeIn(info, f).(*types.Signature); ok {
			return t.Results()
		}
	}
	return types.NewTuple()
}
