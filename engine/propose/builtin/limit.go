package builtin

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
)

// role says what a number in a harness limits, told by how it is used.
type role int

const (
	noRole      role = iota
	turnsRole        // bounds a loop in which the model writes
	retriesRole      // compared with a counter of repairs inside such a loop
	cutRole          // how much of a text or list is kept
	argRole          // a number among the arguments of a tool
	tokensRole       // kit.Options.MaxTokens
	samplesRole      // kit.Options.Samples
)

// limit is a number in a source with its role.
type limit struct {
	role  role
	name  string // of the constant, or what and where for a bare literal
	value int
	lit   *ast.BasicLit // the literal to edit: an integer, or a string of digits
	quote bool          // the literal is a string
}

// limits finds the numbers that a limit operator can change, in text order.
func (c *source) limits() []limit {
	var found []limit
	bare := map[string]int{}
	ast.Inspect(c.file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok {
			return true
		}
		l := limit{lit: lit}
		switch lit.Kind {
		case token.INT:
			l.value, ok = number(lit.Value)
		case token.STRING:
			l.quote = true
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				return true
			}
			l.value, ok = number(text)
		default:
			ok = false
		}
		if !ok || l.value < 0 {
			return true
		}
		if holder := c.holder(lit); holder != nil {
			l.name = holder.Name
			l.role = c.roleOfObject(c.info.Defs[holder], 0)
		} else if fn := c.within(lit); fn != nil && !c.starts(fn, lit) {
			l.role = c.roleOfUse(lit, 0)
			if l.role == cutRole && l.value <= 2 {
				l.role = noRole // len(x) == 0 and x[1:] are structure, not limits
			}
			place := fmt.Sprintf("%s in %s", roleNames[l.role], fn.Name.Name)
			bare[place]++
			l.name = place
			if bare[place] > 1 {
				l.name += " (" + strconv.Itoa(bare[place]) + ")"
			}
		}
		if l.role != noRole {
			found = append(found, l)
		}
		return true
	})
	return found
}

// starts tells whether a literal is the first value of a variable that is counted up.
func (c *source) starts(fn *ast.FuncDecl, lit *ast.BasicLit) bool {
	assign, ok := c.parent[lit].(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 {
		return false
	}
	id, ok := assign.Lhs[0].(*ast.Ident)
	if !ok {
		return false
	}
	object := c.info.Defs[id]
	if object == nil {
		object = c.info.Uses[id]
	}
	return c.counts(fn, object)
}

var roleNames = map[role]string{
	turnsRole: "turns", retriesRole: "retries", cutRole: "length kept",
	argRole: "tool argument", tokensRole: "tokens a call", samplesRole: "samples",
}

// number reads a plain decimal number.
func number(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && strconv.Itoa(n) == text
}

// holder returns the name of the constant or variable that a literal is the whole
// initial value of, nil if there is none.
func (c *source) holder(lit *ast.BasicLit) *ast.Ident {
	spec, ok := c.parent[lit].(*ast.ValueSpec)
	if !ok || len(spec.Names) != len(spec.Values) {
		return nil
	}
	for i, v := range spec.Values {
		if v == lit {
			return spec.Names[i]
		}
	}
	return nil
}

// roleOfObject joins the roles of all uses of a constant, variable, parameter or field;
// the first in the order of the role constants wins.
func (c *source) roleOfObject(object types.Object, depth int) role {
	if object == nil || depth > 4 {
		return noRole
	}
	best := noRole
	for id, used := range c.info.Uses {
		if used != object {
			continue
		}
		var expr ast.Expr = id
		if sel, ok := c.parent[id].(*ast.SelectorExpr); ok && sel.Sel == id {
			expr = sel
		}
		if r := c.roleOfUse(expr, depth); r != noRole && (best == noRole || r < best) {
			best = r
		}
	}
	return best
}

// roleOfUse tells what a value limits where it stands.
func (c *source) roleOfUse(e ast.Expr, depth int) role {
	switch p := c.parent[e].(type) {
	case *ast.ParenExpr:
		return c.roleOfUse(p, depth)
	case *ast.BinaryExpr:
		switch p.Op {
		case token.ADD, token.SUB, token.MUL, token.QUO:
			return c.roleOfUse(p, depth)
		case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ:
			other := p.X
			if other == e {
				other = p.Y
			}
			return c.roleOfComparison(p, other)
		}
	case *ast.SliceExpr:
		if p.X != e {
			return cutRole
		}
	case *ast.CallExpr:
		return c.roleOfArgument(p, e, depth)
	case *ast.KeyValueExpr:
		if key, ok := p.Key.(*ast.Ident); ok && p.Value == e {
			return c.roleOfTarget(key, depth)
		}
	case *ast.AssignStmt:
		for i, rhs := range p.Rhs {
			if rhs != e || len(p.Lhs) != len(p.Rhs) {
				continue
			}
			switch lhs := p.Lhs[i].(type) {
			case *ast.Ident:
				return c.roleOfTarget(lhs, depth)
			case *ast.SelectorExpr:
				return c.roleOfTarget(lhs.Sel, depth)
			}
		}
	case *ast.ValueSpec:
		for i, v := range p.Values {
			if v == e && len(p.Names) == len(p.Values) {
				return c.roleOfObject(c.info.Defs[p.Names[i]], depth+1)
			}
		}
	}
	return noRole
}

// roleOfTarget is the role of a variable or field that a value flows into.
func (c *source) roleOfTarget(id *ast.Ident, depth int) role {
	object := c.info.Uses[id]
	if object == nil {
		object = c.info.Defs[id]
	}
	if object != nil && object.Pkg() != nil && object.Pkg().Path() == kitPath {
		switch object.Name() {
		case "MaxTokens":
			return tokensRole
		case "Samples":
			return samplesRole
		}
		return noRole
	}
	return c.roleOfObject(object, depth+1)
}

// roleOfComparison is the role of a value compared with other.
func (c *source) roleOfComparison(cmp *ast.BinaryExpr, other ast.Expr) role {
	if call, ok := other.(*ast.CallExpr); ok {
		if fun, ok := call.Fun.(*ast.Ident); ok && fun.Name == "len" {
			return cutRole
		}
		return noRole
	}
	name, ok := other.(*ast.Ident)
	if !ok {
		return noRole
	}
	fn := c.within(cmp)
	if fn == nil {
		return noRole
	}
	wrapper := isGenerate(c.signature(fn))
	for n := c.parent[cmp]; n != nil; n = c.parent[n] {
		f, ok := n.(*ast.ForStmt)
		if !ok || f.Cond == nil || cmp.Pos() < f.Cond.Pos() || cmp.End() > f.Cond.End() {
			continue
		}
		switch {
		case !c.generates(f.Body):
			return cutRole
		case wrapper:
			return retriesRole
		}
		return turnsRole
	}
	loop := c.loop(cmp)
	switch {
	case !c.counts(fn, c.info.Uses[name]):
		return noRole
	case loop != nil && c.generates(loop):
		if k, ok := c.counted(loop); ok && k.name == name.Name {
			return turnsRole
		}
		return retriesRole
	case !c.generates(fn.Body):
		return cutRole
	}
	return noRole
}

// counts tells whether a function counts a variable up.
func (c *source) counts(fn *ast.FuncDecl, object types.Object) bool {
	found := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		var target ast.Expr
		switch s := n.(type) {
		case *ast.IncDecStmt:
			target = s.X
		case *ast.AssignStmt:
			if s.Tok == token.ADD_ASSIGN || s.Tok == token.SUB_ASSIGN {
				target = s.Lhs[0]
			}
		case *ast.RangeStmt:
			if key, ok := s.Key.(*ast.Ident); ok && c.info.Defs[key] == object {
				found = true
			}
		}
		if id, ok := target.(*ast.Ident); ok && c.info.Uses[id] == object {
			found = true
		}
		return !found
	})
	return found && object != nil
}

// roleOfArgument is the role of a value that is an argument of a call.
func (c *source) roleOfArgument(call *ast.CallExpr, e ast.Expr, depth int) role {
	at := -1
	for i, a := range call.Args {
		if a == e {
			at = i
		}
	}
	if at < 0 || depth > 4 {
		return noRole
	}
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		if f := c.function(fun.Name); f != nil {
			params := c.signature(f).Params()
			if at < params.Len() {
				return c.roleOfObject(params.At(at), depth+1)
			}
		} else if _, ok := c.info.Uses[fun].(*types.TypeName); ok {
			return c.roleOfUse(call, depth) // a conversion
		}
	case *ast.SelectorExpr:
		pkg, ok := fun.X.(*ast.Ident)
		if !ok {
			return noRole
		}
		switch pkg.Name + "." + fun.Sel.Name {
		case "strconv.Itoa", "fmt.Sprint", "fmt.Sprintf":
			return c.roleOfUse(call, depth)
		case "strings.SplitN", "strings.SplitAfterN":
			return cutRole
		case "kit.Args":
			if at%2 == 1 {
				return argRole
			}
		}
	}
	return noRole
}
