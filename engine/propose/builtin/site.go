package builtin

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// site is a call that an operator can put something around or in front of.
type site struct {
	call *ast.CallExpr
	fn   *ast.FuncDecl // the function it stands in
	// callee is what is called: "Generate" or "Tool" for the session's own method,
	// otherwise the name of a function of the harness that takes the session first.
	callee string
	// session is the text of the session in this call.
	session string
}

// generateSites are the calls that let the model write, as the harness's own control
// flow sees them: s.Generate(messages, options), or a function of the same parameters
// and results that wraps it. Calls inside such a wrapper are no sites.
func (c *source) generateSites() []site {
	return c.sites("Generate", c.wrapsGenerate)
}

// toolSites are the calls of s.Tool(name, args) and of functions that wrap it with any
// further parameters between the session and the name.
func (c *source) toolSites() []site {
	return c.sites("Tool", c.wrapsTool)
}

func (c *source) sites(method string, wraps func(*ast.FuncDecl) bool) []site {
	var found []site
	ast.Inspect(c.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fn := c.within(call)
		if fn == nil || wraps(fn) {
			return true
		}
		switch fun := call.Fun.(type) {
		case *ast.SelectorExpr:
			if fun.Sel.Name == method && len(call.Args) == 2 && isKit(c.info.Types[fun.X].Type, "Session") {
				found = append(found, site{call, fn, method, c.code(fun.X)})
			}
		case *ast.Ident:
			f := c.function(fun.Name)
			if f != nil && len(call.Args) > 0 && wraps(f) {
				found = append(found, site{call, fn, fun.Name, c.code(call.Args[0])})
			}
		}
		return true
	})
	return found
}

func (c *source) signature(f *ast.FuncDecl) *types.Signature {
	if object := c.info.Defs[f.Name]; object != nil {
		if s, ok := object.Type().(*types.Signature); ok {
			return s
		}
	}
	return types.NewSignatureType(nil, nil, nil, nil, nil, false)
}

// isGenerate: func(*kit.Session, []kit.Message, kit.Options) (kit.Reply, error).
func isGenerate(s *types.Signature) bool {
	p, r := s.Params(), s.Results()
	if s.Recv() != nil || p.Len() != 3 || r.Len() != 2 {
		return false
	}
	messages, ok := p.At(1).Type().(*types.Slice)
	return ok && isKit(p.At(0).Type(), "Session") && isKit(messages.Elem(), "Message") &&
		isKit(p.At(2).Type(), "Options") && isKit(r.At(0).Type(), "Reply")
}

// wrapsGenerate tells whether a function has the shape of a wrapper of Generate.
func (c *source) wrapsGenerate(f *ast.FuncDecl) bool { return isGenerate(c.signature(f)) }

// wrapsTool tells whether a function is func(*kit.Session, ..., name, args string)
// (string, error) and hands name and args on to one call.
func (c *source) wrapsTool(f *ast.FuncDecl) bool {
	s := c.signature(f)
	p, r := s.Params(), s.Results()
	n := p.Len()
	if s.Recv() != nil || n < 3 || r.Len() != 2 || !isKit(p.At(0).Type(), "Session") ||
		!isString(p.At(n-1).Type()) || !isString(p.At(n-2).Type()) || !isString(r.At(0).Type()) {
		return false
	}
	found := false
	ast.Inspect(f.Body, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		name, ok1 := call.Args[len(call.Args)-2].(*ast.Ident)
		args, ok2 := call.Args[len(call.Args)-1].(*ast.Ident)
		if ok1 && ok2 && c.info.Uses[name] == p.At(n-2) && c.info.Uses[args] == p.At(n-1) {
			found = true
		}
		return !found
	})
	return found
}

func isString(t types.Type) bool {
	b, ok := t.(*types.Basic)
	return ok && b.Kind() == types.String
}

// generates tells whether a statement lets the model write, directly or through
// functions of the harness.
func (c *source) generates(n ast.Node) bool { return c.reaches(n, map[string]bool{}) }

func (c *source) reaches(n ast.Node, seen map[string]bool) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || found {
			return !found
		}
		switch fun := call.Fun.(type) {
		case *ast.SelectorExpr:
			found = fun.Sel.Name == "Generate" && isKit(c.info.Types[fun.X].Type, "Session")
		case *ast.Ident:
			if f := c.function(fun.Name); f != nil && !seen[fun.Name] {
				seen[fun.Name] = true
				found = c.reaches(f.Body, seen)
			}
		}
		return !found
	})
	return found
}

// counter returns the variable that a for loop counts up and whether the condition
// names its last value: `turn < n` (false) or `turn <= n` (true).
type counter struct {
	name  string
	limit ast.Expr
	// inclusive: the loop still runs when the variable equals the limit.
	inclusive bool
}

// counted returns the counter of a three-clause loop, ok = false for other loops.
func (c *source) counted(loop ast.Stmt) (counter, bool) {
	f, ok := loop.(*ast.ForStmt)
	if !ok || f.Init == nil || f.Post == nil {
		return counter{}, false
	}
	post, ok := f.Post.(*ast.IncDecStmt)
	if !ok || post.Tok != token.INC {
		return counter{}, false
	}
	name, ok := post.X.(*ast.Ident)
	if !ok {
		return counter{}, false
	}
	cond, ok := f.Cond.(*ast.BinaryExpr)
	if !ok || (cond.Op != token.LSS && cond.Op != token.LEQ) {
		return counter{}, false
	}
	left, ok := cond.X.(*ast.Ident)
	if !ok || left.Name != name.Name {
		return counter{}, false
	}
	return counter{name: name.Name, limit: cond.Y, inclusive: cond.Op == token.LEQ}, true
}

// rewired returns the edits that make every site with the first site's callee call
// wrapper instead, with extra arguments after the session.
func (c *source) rewired(sites []site, wrapper string, extra ...string) []edit {
	var edits []edit
	for _, s := range sites {
		if s.callee != sites[0].callee {
			continue
		}
		args := append([]string{s.session}, extra...)
		rest := s.call.Args
		if s.callee != "Generate" && s.callee != "Tool" {
			rest = rest[1:]
		}
		for _, a := range rest {
			args = append(args, c.code(a))
		}
		edits = append(edits, c.replace(s.call, wrapper+"("+strings.Join(args, ", ")+")"))
	}
	return edits
}

// inner is the text of a call of the wrapped callee from inside a wrapper whose
// parameters carry the given names.
func (s site) inner(session string, args ...string) string {
	if s.callee == "Generate" || s.callee == "Tool" {
		return session + "." + s.callee + "(" + strings.Join(args, ", ") + ")"
	}
	return s.callee + "(" + session + ", " + strings.Join(args, ", ") + ")"
}
