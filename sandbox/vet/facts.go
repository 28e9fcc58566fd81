package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/seed-7c27e6b8/whale/sandbox/lower"
)

// variable is what the rules ask about one variable.
type variable struct {
	declared ast.Node    // the statement or field that declares it
	function ast.Node    // that it belongs to; nil = package
	loop     ast.Node    // innermost loop of that function around the declaration
	kind     kind        // how it is declared
	writes   []token.Pos // assignments after the declaration
	fields   []token.Pos // assignments to a part of it
	address  []token.Pos // & of it or a part, method calls through its address
	captured []*ast.FuncLit
}

type kind int

const (
	plain    kind = iota // var, :=
	loopHead             // declared by for or range
	commaOK              // v, ok := m[k]
	bound                // by a type switch
	literal              // := with a composite literal
	param
	result
)

// collect finds parents and variables.
func (p *program) collect() {
	p.parent, p.vars = map[ast.Node]ast.Node{}, map[*types.Var]*variable{}
	p.uses, p.again, p.defers = map[types.Object][]*ast.Ident{}, map[ast.Node]ast.Node{}, map[ast.Node][]*ast.DeferStmt{}
	var stack []ast.Node
	ast.Inspect(p.file, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if len(stack) > 0 {
			p.parent[n] = stack[len(stack)-1]
		}
		stack = append(stack, n)
		p.nodes = append(p.nodes, n)
		return true
	})
	each(p, func(id *ast.Ident) {
		if o := p.info.Uses[id]; o != nil {
			p.uses[o] = append(p.uses[o], id)
		}
	})
	each(p, func(d *ast.DeferStmt) { p.defers[p.function(d)] = append(p.defers[p.function(d)], d) })
	for id, o := range p.info.Defs {
		if v, ok := o.(*types.Var); ok && !v.IsField() {
			p.declare(id, v)
		}
	}
	for n, o := range p.info.Implicits {
		if v, ok := o.(*types.Var); ok {
			p.vars[v] = &variable{declared: n, function: p.function(n), loop: p.loop(n), kind: bound}
		}
	}
	ast.Inspect(p.file, func(n ast.Node) bool {
		p.use(n)
		return true
	})
	for _, name := range p.pkg.Scope().Names() {
		if t, ok := p.pkg.Scope().Lookup(name).(*types.TypeName); ok && hasMethod(t.Type(), "Error") {
			p.userError = true
		}
	}
	p.made = lower.Conversions(p.checked())
	for _, c := range p.made {
		p.converted = p.converted || isAny(c.To) && p.withMethods(c.From)
		p.named = p.named || c.Kept && within(c.From, func(part types.Type) bool {
			_, generic := part.(*types.TypeParam)
			return generic || p.own(part) != nil
		})
	}
}

func (p *program) declare(id *ast.Ident, o *types.Var) {
	v := &variable{declared: p.parent[id], function: p.function(id), loop: p.loop(id)}
	p.vars[o] = v
	switch d := p.parent[id].(type) {
	case *ast.RangeStmt:
		v.kind, v.loop = loopHead, d
	case *ast.AssignStmt:
		if f, ok := p.parent[d].(*ast.ForStmt); ok && f.Init == ast.Stmt(d) {
			v.kind, v.loop = loopHead, f
		} else if len(d.Rhs) == 1 && len(d.Lhs) == 2 && isCommaOK(d.Rhs[0]) {
			v.kind = commaOK
		} else if len(d.Lhs) == len(d.Rhs) {
			for i, l := range d.Lhs {
				if _, lit := unparen(d.Rhs[i]).(*ast.CompositeLit); l == ast.Expr(id) && lit {
					v.kind = literal
				}
			}
		}
	case *ast.Field:
		list, _ := p.parent[d].(*ast.FieldList)
		v.kind = param
		if f, ok := p.parent[list].(*ast.FuncType); ok {
			v.function = p.parent[f]
			if f.Results == list {
				v.kind = result
			}
		} else if f, ok := p.parent[list].(*ast.FuncDecl); ok { // receiver
			v.function = f
		}
	}
}

// use notes what a node does to variables.
func (p *program) use(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, l := range n.Lhs {
			if id, ok := l.(*ast.Ident); n.Tok == token.DEFINE && ok && p.info.Defs[id] != nil {
				continue
			}
			p.write(l, n.Pos())
		}
	case *ast.IncDecStmt:
		p.write(n.X, n.Pos())
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			p.write(n.Key, n.Pos())
			if n.Value != nil {
				p.write(n.Value, n.Pos())
			}
		}
	case *ast.UnaryExpr:
		if v := p.root(n.X); n.Op == token.AND && v != nil {
			v.address = append(v.address, n.Pos())
		}
	case *ast.SliceExpr:
		if _, array := under(p.typeOf(n.X)).(*types.Array); array {
			if v := p.root(n.X); v != nil {
				v.address = append(v.address, n.Pos())
			}
		}
	case *ast.SelectorExpr:
		if p.byAddress(n) {
			if v := p.root(n.X); v != nil {
				v.address = append(v.address, n.Pos())
			}
		}
	case *ast.Ident:
		o, ok := p.info.Uses[n].(*types.Var)
		if v := p.vars[o]; ok && v != nil && v.function != nil {
			for f := p.function(n); f != nil && f != v.function; f = p.function(f) {
				if lit, ok := f.(*ast.FuncLit); ok {
					v.captured = append(v.captured, lit)
				}
			}
		}
	}
}

func (p *program) write(l ast.Expr, at token.Pos) {
	if v := p.variable(l); v != nil {
		v.writes = append(v.writes, at)
	} else if v := p.root(l); v != nil {
		v.fields = append(v.fields, at)
	}
}

// byAddress says whether a selector calls a method of the source through the address of
// what it selects from.
func (p *program) byAddress(s *ast.SelectorExpr) bool {
	sel := p.info.Selections[s]
	if sel == nil || sel.Kind() != types.MethodVal || sel.Obj().Pkg() != p.pkg {
		return false
	}
	receiver := sel.Obj().Type().(*types.Signature).Recv()
	_, pointer := types.Unalias(receiver.Type()).(*types.Pointer)
	_, already := under(p.typeOf(s.X)).(*types.Pointer)
	return pointer && !already
}

// variable is the variable that an expression is, or nil.
func (p *program) variable(e ast.Expr) *variable {
	o, _ := p.object(e).(*types.Var)
	return p.vars[o]
}

// object is what an identifier names, or nil.
func (p *program) object(e ast.Expr) types.Object {
	if id, ok := unparen(e).(*ast.Ident); ok {
		return p.info.ObjectOf(id)
	}
	return nil
}

// root is the variable whose own storage an expression x.f[i].g names, or nil.
func (p *program) root(e ast.Expr) *variable {
	for {
		switch x := unparen(e).(type) {
		case *ast.Ident:
			return p.variable(x)
		case *ast.SelectorExpr:
			if _, ok := under(p.typeOf(x.X)).(*types.Struct); !ok {
				return nil
			}
			e = x.X
		case *ast.IndexExpr:
			if _, ok := under(p.typeOf(x.X)).(*types.Array); !ok {
				return nil
			}
			e = x.X
		default:
			return nil
		}
	}
}

// function is the innermost function around a node, the node itself left out.
func (p *program) function(n ast.Node) ast.Node {
	for n = p.parent[n]; n != nil; n = p.parent[n] {
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			return n
		}
	}
	return nil
}

// loop is the innermost loop around a node in the same function. A function with a
// backward goto counts as a loop.
func (p *program) loop(n ast.Node) ast.Node {
	child := n
	for above := p.parent[n]; above != nil; child, above = above, p.parent[above] {
		switch l := above.(type) {
		case *ast.ForStmt:
			if child != ast.Node(l.Init) {
				return l
			}
		case *ast.RangeStmt:
			if child != ast.Node(l.X) {
				return l
			}
		case *ast.FuncDecl, *ast.FuncLit:
			to, known := p.again[l]
			if !known {
				to = backwardGoto(l)
				p.again[l] = to
			}
			return to
		}
	}
	return nil
}

func backwardGoto(function ast.Node) (found ast.Node) {
	seen := map[string]bool{}
	ast.Inspect(function, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.LabeledStmt:
			seen[n.Label.Name] = true
		case *ast.BranchStmt:
			if n.Tok == token.GOTO && seen[n.Label.Name] {
				found = n
			}
		}
		return true
	})
	return found
}

// kept says whether a closure may outlive the statement that makes it: it is not called
// at once, not given to a standard function that only calls it, and not a local variable
// that is only called.
func (p *program) kept(f *ast.FuncLit) bool {
	switch above := p.above(p.moved(f)).(type) {
	case *ast.CallExpr:
		if _, deferred := p.parent[above].(*ast.DeferStmt); deferred {
			return true
		}
		if unparen(above.Fun) == ast.Expr(f) {
			return false
		}
		switch path, _ := p.standard(above); path {
		case "sort", "strings", "bytes", "regexp", "unicode":
			return false
		}
	case *ast.AssignStmt:
		return above.Tok != token.DEFINE || len(above.Lhs) != 1 || !p.onlyCalled(above.Lhs[0])
	}
	return true
}

// moved is the call of a literal that does nothing but return a closure, or else the
// closure.
func (p *program) moved(f *ast.FuncLit) ast.Node {
	r, ok := p.parent[f].(*ast.ReturnStmt)
	if !ok || len(r.Results) != 1 {
		return f
	}
	block, _ := p.parent[r].(*ast.BlockStmt)
	around, is := p.parent[block].(*ast.FuncLit)
	if c, called := p.parent[around].(*ast.CallExpr); is && called && len(block.List) == 1 && c.Fun == ast.Expr(around) {
		return c
	}
	return f
}

// above is the parent, parentheses left out.
func (p *program) above(n ast.Node) ast.Node {
	for {
		n = p.parent[n]
		if _, ok := n.(*ast.ParenExpr); !ok {
			return n
		}
	}
}

func (p *program) onlyCalled(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	if !ok {
		return false
	}
	o := p.info.Defs[id]
	only := true
	for _, use := range p.uses[o] {
		c, ok := p.parent[use].(*ast.CallExpr)
		if !ok || c.Fun != ast.Expr(use) {
			only = false
			continue
		}
		if _, deferred := p.parent[c].(*ast.DeferStmt); deferred {
			only = false
		}
	}
	return only && o != nil
}

// keptCapture is a closure that holds the variable beyond its statement, or nil.
func (p *program) keptCapture(v *variable) *ast.FuncLit {
	for _, f := range v.captured {
		if p.kept(f) {
			return f
		}
	}
	return nil
}
