package vet

import (
	"go/ast"
	"go/token"
	"go/types"
)

var orderRules = []Rule{
	{Name: "ORDER", Why: "Go leaves open which comes first", Hint: "put the result of the call in a variable on the line before", find: operandOrder},
}

// effects are the variables that a function may write and that aren't its own: those it
// assigns to, and those of the functions of the source that it names.
type effects struct {
	set  map[ast.Node]map[*variable]bool
	left int // steps that may still be taken: sources that need more are refused
}

const maxSteps = 2 << 20

func (p *program) effects() *effects {
	all, names := map[ast.Node]map[*variable]bool{}, map[ast.Node][]ast.Node{}
	declared := map[types.Object]ast.Node{}
	each(p, func(f *ast.FuncDecl) { declared[p.info.Defs[f.Name]] = f })
	p.functions(func(f ast.Node, _ *ast.FuncType, _ *ast.BlockStmt) { all[f] = map[*variable]bool{} })
	wrote := func(n ast.Node, e ast.Expr) {
		v := p.root(e)
		for f := p.function(n); v != nil && f != nil && f != v.function; f = p.function(f) {
			all[f][v] = true
		}
	}
	for _, n := range p.nodes {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				wrote(n, l)
			}
		case *ast.IncDecStmt:
			wrote(n, n.X)
		case *ast.SelectorExpr:
			if p.byAddress(n) {
				wrote(n, n.X)
			}
		case *ast.Ident:
			if g := declared[p.info.Uses[n]]; g != nil {
				for f := p.function(n); f != nil; f = p.function(f) {
					names[f] = append(names[f], g)
				}
			}
		}
	}
	e := &effects{set: all, left: maxSteps}
	for changed := true; changed && e.left > 0; {
		changed = false
		for f, list := range names {
			for _, g := range list {
				e.left -= 1 + len(all[g])
				for v := range all[g] {
					if !all[f][v] && v.function != f {
						all[f][v], changed = true, true
					}
				}
			}
		}
	}
	return e
}

// of gives what evaluating an expression may write: calls of functions of the source, and
// literals that are handed over.
func (e *effects) of(p *program, x ast.Node, declared map[types.Object][]ast.Node) map[*variable]bool {
	sum := map[*variable]bool{}
	add := func(f ast.Node) {
		e.left -= len(e.set[f])
		for v := range e.set[f] {
			sum[v] = true
		}
	}
	calls := false
	ast.Inspect(x, func(n ast.Node) bool {
		if e.left--; e.left < 0 {
			return false
		}
		switch n := n.(type) {
		case *ast.FuncLit:
			if calls {
				add(n)
			}
			return false
		case *ast.CallExpr:
			if p.info.Types[n.Fun].IsType() || p.builtin(n) != "" {
				return true
			}
			calls = true
			switch f := unparen(n.Fun).(type) {
			case *ast.Ident:
				for _, g := range declared[p.info.Uses[f]] {
					add(g)
				}
			case *ast.SelectorExpr:
				for _, g := range declared[p.info.Uses[f.Sel]] {
					add(g)
				}
				if v := p.root(f.X); p.byAddress(f) && v != nil {
					sum[v] = true
				}
			}
			if path, _ := p.standard(n); path == "" && p.variable(n.Fun) != nil { // a function in a variable: any literal
				for f := range e.set {
					if _, literal := f.(*ast.FuncLit); literal {
						add(f)
					}
				}
			}
		}
		return true
	})
	return sum
}

// operandOrder finds expressions of which one operand is a variable and a later one calls a
// function that writes it.
func operandOrder(p *program) {
	all := p.effects()
	shared := false
	for _, set := range all.set {
		shared = shared || len(set) > 0
	}
	if !shared {
		return
	}
	declared := map[types.Object][]ast.Node{}
	each(p, func(f *ast.FuncDecl) {
		o := p.info.Defs[f.Name]
		declared[o] = append(declared[o], f)
	})
	look := func(operands []ast.Expr) {
		for j := len(operands) - 1; j > 0; j-- {
			written := all.of(p, operands[j], declared)
			for _, before := range operands[:j] {
				if len(written) == 0 {
					break
				}
				if id := p.readsOne(before, written); id != nil {
					p.refuse(id, "%s is read beside a call that changes it", id.Name)
					return
				}
			}
		}
	}
	for _, n := range p.nodes {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op != token.LAND && n.Op != token.LOR {
				look([]ast.Expr{n.X, n.Y})
			}
		case *ast.CallExpr:
			look(p.notCopied(n))
		case *ast.CompositeLit:
			look(n.Elts)
		case *ast.ReturnStmt:
			look(n.Results)
		case *ast.AssignStmt:
			if n.Tok != token.ASSIGN && n.Tok != token.DEFINE {
				look([]ast.Expr{n.Lhs[0], n.Rhs[0]})
			} else {
				look(n.Rhs)
			}
		}
	}
	if all.left < 0 {
		p.refuse(p.file.Name, "functions that change each other's variables, too many to follow")
	}
}

// notCopied gives the arguments of a call but for names that become an interface: Go's
// compiler copies these at their place, as the interpreter does.
func (p *program) notCopied(c *ast.CallExpr) (args []ast.Expr) {
	t, ok := under(p.typeOf(c.Fun)).(*types.Signature)
	for i, a := range c.Args {
		_, basic := under(p.typeOf(a)).(*types.Basic)
		if _, name := unparen(a).(*ast.Ident); ok && name && basic && t.Variadic() && i >= t.Params().Len()-1 && !c.Ellipsis.IsValid() {
			if s, ok := under(t.Params().At(t.Params().Len() - 1).Type()).(*types.Slice); ok && isInterface(s.Elem()) {
				continue
			}
		}
		args = append(args, a)
	}
	return args
}

// readsOne is a name in an expression of a variable of a set, calls and function literals
// left out; or nil.
func (p *program) readsOne(e ast.Expr, set map[*variable]bool) (found *ast.Ident) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			return p.info.Types[n.Fun].IsType()
		case *ast.KeyValueExpr:
			if _, field := n.Key.(*ast.Ident); field {
				if found == nil {
					found = p.readsOne(n.Value, set)
				}
				return false
			}
		case *ast.Ident:
			if v := p.variable(n); found == nil && v != nil && set[v] {
				found = n
			}
		}
		return found == nil
	})
	return found
}
