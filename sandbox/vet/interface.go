package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/seed-7c27e6b8/whale/sandbox/lower"
)

var interfaceRules = []Rule{
	{Name: "IFACE-ALIAS", Why: "the interface follows later changes of it", Hint: "c := src on the line before, and store c", find: interfaceAlias},
	{Name: "ERR-METHOD", Why: "errors.Is and errors.As do not call it", Hint: "use errors.New and fmt.Errorf with %w", find: errorMethod},
	{Name: "ERR-IS", Why: "it panics on error types of the source", Hint: "use errors.New and fmt.Errorf with %w in place of error types", find: errorIs},
	{Name: "ERR-AS", Why: "it panics", Hint: "use package-level errors and errors.Is", find: errorAs},
	{Name: "ASSERT-ERROR", Why: "it never matches", Hint: "use e, ok := err.(*T), or errors.Is with package-level errors", find: assertError},
	{Name: "IFACE-EQ", Why: "it is false, or panics", Hint: "compare a name or an id", find: interfaceEqual},
	{Name: "TYPED-NIL", Why: "it becomes nil", Hint: "return nil", find: typedNil},
	{Name: "EMBED-IFACE", Why: "it panics when used as an interface", Hint: "name the field and write the methods", find: embedInterface},
	{Name: "PROMOTED", Why: "it takes one from the wrong depth", Hint: "write the method out", find: promoted},
}

func interfaceAlias(p *program) {
	for _, c := range p.made {
		if !c.Kept || !p.withMethods(c.From) {
			continue
		}
		if why := p.alias(c); why != "" {
			p.refuse(c.Expr, "%s becomes an interface", why)
		}
	}
}

// alias says what makes a converted value shared with a slot that changes, or "".
func (p *program) alias(c lower.Conversion) string {
	_, pointer := types.Unalias(c.From).(*types.Pointer)
	loop := p.loop(c.Expr) != nil
	if _, returned := p.above(c.Expr).(*ast.ReturnStmt); loop && !returned && p.own(c.To) == nil && !isAny(c.To) {
		return "a value in a loop, wrapped for a standard interface,"
	}
	switch e := unparen(c.Expr).(type) {
	case *ast.Ident:
		v := p.variable(e)
		switch {
		case v == nil:
			return ""
		case v.kind == loopHead:
			return "loop variable " + e.Name
		case len(v.writes) > 0:
			return "variable " + e.Name + ", which changes,"
		case !pointer && (len(v.fields) > 0 || len(v.address) > 0):
			return "variable " + e.Name + ", a part of which changes,"
		}
	case *ast.SelectorExpr, *ast.IndexExpr, *ast.StarExpr:
		return "a part of something"
	case *ast.CallExpr, *ast.UnaryExpr, *ast.BinaryExpr, *ast.CompositeLit:
		if loop {
			return "a new value in a loop"
		}
	}
	return ""
}

func errorMethod(p *program) {
	each(p, func(f *ast.FuncDecl) {
		if f.Recv == nil {
			return
		}
		switch f.Name.Name {
		case "Is", "As", "Unwrap":
			if o, ok := p.info.Defs[f.Name].(*types.Func); ok && hasMethod(receiver(o), "Error") {
				p.refuse(f, "method %s of an error type", f.Name.Name)
			}
		}
	})
}

// receiver is the named type that a method belongs to.
func receiver(f *types.Func) types.Type {
	t := f.Type().(*types.Signature).Recv().Type()
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		return pointer.Elem()
	}
	return t
}

func errorIs(p *program) {
	each(p, func(c *ast.CallExpr) {
		if path, name := p.standard(c); path == "errors" && name == "Is" && p.userError {
			p.refuse(c, "errors.Is beside error types of the source")
		}
	})
}

func errorAs(p *program) {
	each(p, func(c *ast.CallExpr) {
		path, name := p.standard(c)
		if path != "errors" || name != "As" || len(c.Args) != 2 {
			return
		}
		target, ok := types.Unalias(p.typeOf(c.Args[1])).(*types.Pointer)
		if ok && p.own(target.Elem()) != nil {
			p.refuse(c, "errors.As to a type of the source")
		}
	})
}

func assertError(p *program) {
	p.asserted(func(e ast.Expr, from, to types.Type) {
		if !isErrorType(from) || p.own(to) == nil {
			return
		}
		_, pointer := types.Unalias(to).(*types.Pointer)
		_, inSwitch := p.parent[e].(*ast.CaseClause)
		if !pointer || inSwitch {
			p.refuse(e, "assertion of an error to a type of the source")
		}
	})
}

func interfaceEqual(p *program) {
	bad := func(e ast.Expr) bool {
		t := p.typeOf(e)
		if isErrorType(t) {
			return p.userError
		}
		return within(t, func(part types.Type) bool {
			if _, ok := part.(*types.Pointer); ok {
				return false
			}
			return isInterface(part) && !isErrorType(part) && (p.named || !isAny(part))
		}) && !isPointer(t)
	}
	each(p, func(b *ast.BinaryExpr) {
		if b.Op != token.EQL && b.Op != token.NEQ || p.info.Types[b.X].IsNil() || p.info.Types[b.Y].IsNil() {
			return
		}
		if bad(b.X) || bad(b.Y) {
			p.refuse(b, "comparison of interfaces")
		}
	})
	each(p, func(m *ast.MapType) {
		if bad(m.Key) {
			p.refuse(m, "map with keys that hold interfaces")
		}
	})
}

func isPointer(t types.Type) bool {
	_, ok := under(t).(*types.Pointer)
	return ok
}

func typedNil(p *program) {
	for _, c := range p.made {
		v := p.variable(c.Expr)
		if v == nil || !isPointer(c.From) || len(v.writes) > 0 || !c.Kept {
			continue
		}
		if s, ok := v.declared.(*ast.ValueSpec); ok && len(s.Values) == 0 {
			p.refuse(c.Expr, "nil pointer as an interface")
		}
	}
}

func embedInterface(p *program) {
	each(p, func(s *ast.StructType) {
		for _, f := range s.Fields.List {
			if len(f.Names) == 0 && isInterface(p.typeOf(f.Type)) {
				p.refuse(f, "embedded interface")
			}
		}
	})
}

// promoted finds structs with two embedded types that have a method of one name.
func promoted(p *program) {
	each(p, func(t *ast.TypeSpec) {
		s, ok := t.Type.(*ast.StructType)
		if !ok {
			return
		}
		seen := map[string]bool{}
		for _, f := range s.Fields.List {
			if len(f.Names) > 0 || isInterface(p.typeOf(f.Type)) {
				continue
			}
			embedded := p.typeOf(f.Type)
			if !isPointer(embedded) {
				embedded = types.NewPointer(embedded)
			}
			set := types.NewMethodSet(embedded)
			for i := range set.Len() {
				name := set.At(i).Obj().Name()
				if seen[name] && !p.declares(t, name) {
					p.refuse(f, "method %s from two embedded types", name)
				}
				seen[name] = true
			}
		}
	})
}

// declares says whether a type of the source has a method of its own.
func (p *program) declares(t *ast.TypeSpec, name string) (found bool) {
	each(p, func(f *ast.FuncDecl) {
		if f.Recv == nil || f.Name.Name != name {
			return
		}
		o, ok := p.info.Defs[f.Name].(*types.Func)
		n, named := types.Unalias(receiver(o)).(*types.Named)
		found = found || ok && named && n.Obj() == p.info.Defs[t.Name]
	})
	return found
}
