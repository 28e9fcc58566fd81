package lower

import (
	"go/ast"
	"go/types"
	"strings"
)

// instances writes type arguments that the interpreter would infer wrongly:
//
//	Map(xs, f)  =>  Map[int, string](xs, f)
func instances(s *source) {
	each(s, func(c *ast.CallExpr) {
		id, list := Inferred(s.Info, c)
		if id == nil {
			return
		}
		var texts []string
		for i := range list.Len() {
			text, ok := s.write(list.At(i))
			if !ok {
				return
			}
			texts = append(texts, text)
		}
		s.add(s.insert(id.End(), "[%s]", strings.Join(texts, ", ")))
	})
}

// Inferred gives the name and the type arguments of a generic function that is called
// without them, where one follows from a function among the arguments only; else nil.
func Inferred(info *types.Info, c *ast.CallExpr) (*ast.Ident, *types.TypeList) {
	id, ok := ast.Unparen(c.Fun).(*ast.Ident)
	if !ok {
		return nil, nil
	}
	f, ok := info.Uses[id].(*types.Func)
	if !ok {
		return nil, nil
	}
	t := f.Origin().Type().(*types.Signature)
	for i := range t.TypeParams().Len() {
		follows := false
		for j := range t.Params().Len() {
			p := t.Params().At(j).Type()
			if _, function := p.Underlying().(*types.Signature); !function {
				follows = follows || holds(p, t.TypeParams().At(i))
			}
		}
		if !follows {
			return id, info.Instances[id].TypeArgs
		}
	}
	return nil, nil
}

// holds says whether a type mentions a type parameter.
func holds(t types.Type, param *types.TypeParam) bool {
	switch t := types.Unalias(t).(type) {
	case *types.TypeParam:
		return t == param
	case *types.Pointer:
		return holds(t.Elem(), param)
	case *types.Slice:
		return holds(t.Elem(), param)
	case *types.Array:
		return holds(t.Elem(), param)
	case *types.Map:
		return holds(t.Key(), param) || holds(t.Elem(), param)
	case *types.Named:
		for i := range t.TypeArgs().Len() {
			if holds(t.TypeArgs().At(i), param) {
				return true
			}
		}
	}
	return false
}
