package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"github.com/seed-7c27e6b8/whale/sandbox/lower"
)

var switchRules = []Rule{
	{Name: "SWITCH-MULTI", Why: "only the first is evaluated", Hint: "join conditions with ||, or put calls in variables first", find: switchMultiple},
	{Name: "SWITCH-DEFAULT", Why: "it changes places with the last clause", Hint: "write default last", find: switchDefault},
	{Name: "SWITCH-IFACE", Why: "it panics or takes a wrong branch", Hint: "write if x, ok := ...; ok, or switch on a concrete value", find: switchInterface},
	{Name: "SWITCH-NIL", Why: "it takes a wrong branch", Hint: "write if x == nil", find: switchNil},
	{Name: "SWITCH-CONST", Why: "it takes a wrong branch", Hint: "write the integer without a point or exponent", find: switchConstant},
	{Name: "SWITCH-CALL", Why: "the tag is read again", Hint: "call before the switch", find: switchCall},
	{Name: "TSWITCH-NIL", Why: "the variable is stale", Hint: "give nil its own case", find: typeSwitchNil},
	{Name: "TYPE-ID", Why: "types of one structure are the same type to it", Hint: "switch on a Kind() string of your own, then x.(*T)", find: typeIdentity},
	{Name: "ASSERT-IFACE", Why: "it does not match, or panics", Hint: "assert concrete types", find: assertInterface},
	{Name: "RECOVER-TYPE", Why: "it never matches", Hint: "panic with a string", find: recoverType},
}

// clauses gives the case clauses of a switch.
func clauses(body *ast.BlockStmt) (list []*ast.CaseClause) {
	for _, s := range body.List {
		if c, ok := s.(*ast.CaseClause); ok {
			list = append(list, c)
		}
	}
	return list
}

func switchMultiple(p *program) {
	each(p, func(s *ast.SwitchStmt) {
		for _, c := range clauses(s.Body) {
			for i, e := range c.List {
				_, name := unparen(e).(*ast.Ident)
				if len(c.List) > 1 && !p.constant(e) && (s.Tag == nil || i > 0 && !name) {
					p.refuse(e, "case with several conditions")
					break
				}
			}
		}
	})
}

func switchDefault(p *program) {
	each(p, func(s *ast.SwitchStmt) {
		list := clauses(s.Body)
		for i, c := range list {
			if c.List == nil && p.orderMatters(list, i) {
				p.refuse(c, "default before other cases")
			}
		}
	})
}

// orderMatters says whether a default at index i that changes places with the last clause
// changes what happens: when clauses fall through, or several behind it may hold at once.
func (p *program) orderMatters(list []*ast.CaseClause, i int) bool {
	computed := 0
	for j, c := range list {
		for _, e := range c.List {
			if j > i && !p.constant(e) {
				computed++
				break
			}
		}
		if n := len(c.Body); n > 0 {
			if b, ok := c.Body[n-1].(*ast.BranchStmt); ok && b.Tok == token.FALLTHROUGH {
				return i < len(list)-1
			}
		}
	}
	return computed >= 2
}

func switchInterface(p *program) {
	each(p, func(s *ast.SwitchStmt) {
		if s.Tag == nil || !isInterface(p.typeOf(s.Tag)) {
			return
		}
		if !isErrorType(p.typeOf(s.Tag)) || p.userError {
			p.refuse(s, "switch on an interface")
		}
	})
}

func switchNil(p *program) {
	each(p, func(s *ast.SwitchStmt) {
		for _, c := range clauses(s.Body) {
			for _, e := range c.List {
				if s.Tag != nil && p.info.Types[e].IsNil() {
					p.refuse(e, "case nil")
				}
			}
		}
	})
}

func switchConstant(p *program) {
	each(p, func(s *ast.SwitchStmt) {
		if s.Tag == nil {
			return
		}
		b, ok := under(p.typeOf(s.Tag)).(*types.Basic)
		for _, c := range clauses(s.Body) {
			for _, e := range c.List {
				if l, is := unparen(e).(*ast.BasicLit); ok && is && l.Kind == token.FLOAT && b.Info()&types.IsInteger != 0 {
					p.refuse(e, "float literal as a case of an integer")
				}
			}
		}
	})
}

func switchCall(p *program) {
	each(p, func(s *ast.SwitchStmt) {
		v := p.variable(s.Tag)
		if s.Tag == nil || v == nil || len(v.captured) == 0 && v.function != nil {
			return
		}
		for _, c := range clauses(s.Body) {
			for _, e := range c.List {
				if p.calls(e) {
					p.refuse(e, "call in a case, with a tag that it may change")
				}
			}
		}
	})
}

func typeSwitchNil(p *program) {
	each(p, func(s *ast.TypeSwitchStmt) {
		if _, named := s.Assign.(*ast.AssignStmt); !named {
			return
		}
		for _, c := range clauses(s.Body) {
			for _, e := range c.List {
				if len(c.List) > 1 && p.info.Types[e].IsNil() {
					p.refuse(e, "nil in a list of types")
				}
			}
		}
	})
}

// asserted calls f for every type that an interface is asserted to.
func (p *program) asserted(f func(e ast.Expr, from, to types.Type)) {
	each(p, func(a *ast.TypeAssertExpr) {
		if a.Type != nil {
			f(a.Type, p.typeOf(a.X), p.typeOf(a.Type))
		}
	})
	each(p, func(s *ast.TypeSwitchStmt) {
		var x ast.Expr
		switch a := s.Assign.(type) {
		case *ast.AssignStmt:
			x = a.Rhs[0]
		case *ast.ExprStmt:
			x = a.X
		}
		from := p.typeOf(x.(*ast.TypeAssertExpr).X)
		for _, c := range clauses(s.Body) {
			for _, e := range c.List {
				if !p.info.Types[e].IsNil() {
					f(e, from, p.typeOf(e))
				}
			}
		}
	})
}

// typeIdentity refuses assertions to types of the source, but for a pointer to one, or a
// structure without methods, that no other converted type looks like.
func typeIdentity(p *program) {
	p.asserted(func(e ast.Expr, _, to types.Type) {
		if p.own(to) == nil || isInterface(to) {
			return
		}
		_, pointer := types.Unalias(to).(*types.Pointer)
		_, structure := under(to).(*types.Struct)
		if !pointer && (!structure || p.withMethods(to)) || p.looksLike(to) {
			p.refuse(e, "assertion to %s", types.TypeString(to, types.RelativeTo(p.pkg)))
		}
	})
}

// looksLike says whether a second type with the structure of t becomes an interface.
func (p *program) looksLike(t types.Type) bool {
	return slices.ContainsFunc(p.made, func(c lower.Conversion) bool {
		return !types.Identical(c.From, t) && p.bare(c.From) == p.bare(t)
	})
}

// bare is the text of a type without the names of the source: what the interpreter keeps.
func (p *program) bare(t types.Type) string {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		return "*" + p.bare(pointer.Elem())
	}
	if p.own(t) != nil {
		t = under(t)
	}
	return types.TypeString(t, nil)
}

func assertInterface(p *program) {
	p.asserted(func(e ast.Expr, _, to types.Type) {
		if isInterface(to) && !isAny(to) {
			p.refuse(e, "assertion to an interface")
		}
	})
}

func recoverType(p *program) {
	each(p, func(a *ast.TypeAssertExpr) {
		if a.Type != nil && p.builtin(a.X) == "recover" && p.own(p.typeOf(a.Type)) != nil {
			p.refuse(a, "type of a recovered value")
		}
	})
}
