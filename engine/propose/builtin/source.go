package builtin

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// source is one harness with its syntax tree and resolved names. It is never changed;
// apply makes a new one.
type source struct {
	text   string
	fset   *token.FileSet
	file   *ast.File
	info   *types.Info
	pkg    *types.Package
	parent map[ast.Node]ast.Node
}

// edit replaces the bytes [from, to) of a source; from == to inserts.
type edit struct {
	from, to int
	text     string
}

var errNotHarness = errors.New("not a harness")

var kitStubs = sync.OnceValue(newStubs)

// read parses and checks a harness. Texts that break the contract, that do not parse or
// whose names do not resolve are errors.
func read(text string) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "harness.go", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	c := &source{text: text, fset: fset, file: file, parent: map[ast.Node]ast.Node{}}
	c.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Defs:  map[*ast.Ident]types.Object{},
		Uses:  map[*ast.Ident]types.Object{},
	}
	var faults []string
	conf := types.Config{Importer: kitStubs(), Error: func(err error) {
		var typed types.Error
		if errors.As(err, &typed) {
			faults = append(faults, typed.Msg)
		}
	}}
	// The joined error only repeats the first fault; all of them were collected above.
	c.pkg, _ = conf.Check("harness", fset, []*ast.File{file}, c.info)
	if own := ownFaults(faults, file.Imports); len(own) > 0 {
		return nil, errors.New(own[0])
	}
	c.link()
	return c, c.contract()
}

// contract checks the frame that every harness keeps.
func (c *source) contract() error {
	run := c.function("Run")
	if c.file.Name.Name != "harness" || run == nil {
		return errNotHarness
	}
	signature, ok := c.info.Defs[run.Name].Type().(*types.Signature)
	if !ok || signature.Params().Len() != 1 || signature.Results().Len() != 1 ||
		!isKit(signature.Params().At(0).Type(), "Session") ||
		signature.Results().At(0).Type().String() != "error" {
		return errNotHarness
	}
	return nil
}

// link fills parent.
func (c *source) link() {
	var stack []ast.Node
	ast.Inspect(c.file, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if len(stack) > 0 {
			c.parent[n] = stack[len(stack)-1]
		}
		stack = append(stack, n)
		return true
	})
}

// apply makes the edits, formats and checks the result. Edits must not overlap; inserts
// at one place keep their order.
func (c *source) apply(edits []edit) (*source, error) {
	sorted := append([]edit(nil), edits...)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].from < sorted[j].from })
	var b strings.Builder
	at := 0
	for _, e := range sorted {
		if e.from < at || e.to < e.from || e.to > len(c.text) {
			return nil, fmt.Errorf("edit of bytes %d to %d overlaps another", e.from, e.to)
		}
		b.WriteString(c.text[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.WriteString(c.text[at:])
	formatted, err := format.Source([]byte(b.String()))
	if err != nil {
		return nil, err
	}
	pruned, err := withoutUnusedImports(string(formatted))
	if err != nil {
		return nil, err
	}
	return read(pruned)
}

// withoutUnusedImports removes the imports that no selector names.
func withoutUnusedImports(text string) (string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "harness.go", text, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	used := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok {
				used[pkg.Name] = true
			}
		}
		return true
	})
	for i := len(file.Imports) - 1; i >= 0; i-- {
		spec := file.Imports[i]
		if used[importName(spec)] {
			continue
		}
		from, to := fset.Position(spec.Pos()).Offset, fset.Position(spec.End()).Offset
		text = text[:from] + text[to:]
	}
	formatted, err := format.Source([]byte(text))
	return string(formatted), err
}

// importName is the name that a file knows a package by.
func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(strings.Trim(spec.Path.Value, `"`))
}

func (c *source) offset(p token.Pos) int { return c.fset.Position(p).Offset }

// code is the text of a node.
func (c *source) code(n ast.Node) string { return c.text[c.offset(n.Pos()):c.offset(n.End())] }

func (c *source) replace(n ast.Node, text string) edit {
	return edit{c.offset(n.Pos()), c.offset(n.End()), text}
}

func (c *source) before(n ast.Node, text string) edit {
	at := c.offset(n.Pos())
	return edit{at, at, text}
}

// atEnd appends declarations to the file.
func (c *source) atEnd(text string) edit { return edit{len(c.text), len(c.text), "\n" + text} }

// function returns the declaration of a plain function, nil if there is none.
func (c *source) function(name string) *ast.FuncDecl {
	for _, d := range c.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name && f.Body != nil {
			return f
		}
	}
	return nil
}

// within returns the function declaration around a node, nil at package level.
func (c *source) within(n ast.Node) *ast.FuncDecl {
	for ; n != nil; n = c.parent[n] {
		if f, ok := n.(*ast.FuncDecl); ok {
			return f
		}
	}
	return nil
}

// loop returns the innermost for or range statement around a node whose body holds it,
// nil if there is none in the same function.
func (c *source) loop(n ast.Node) ast.Stmt {
	for child := n; child != nil; child = c.parent[child] {
		switch p := c.parent[child].(type) {
		case *ast.ForStmt:
			if p.Body == child {
				return p
			}
		case *ast.RangeStmt:
			if p.Body == child {
				return p
			}
		case *ast.FuncDecl, *ast.FuncLit:
			return nil
		}
	}
	return nil
}

// statement returns the statement around a node that stands directly in a block.
func (c *source) statement(n ast.Node) ast.Stmt {
	for ; n != nil; n = c.parent[n] {
		s, ok := n.(ast.Stmt)
		if !ok {
			continue
		}
		if _, ok := c.parent[n].(*ast.BlockStmt); ok {
			return s
		}
	}
	return nil
}

// fresh returns name, or name with a number if the file uses it already.
func (c *source) fresh(name string) string {
	used := map[string]bool{}
	ast.Inspect(c.file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			used[id.Name] = true
		}
		return true
	})
	candidate := name
	for i := 2; used[candidate]; i++ {
		candidate = name + strconv.Itoa(i)
	}
	return candidate
}

// imports returns the edits that make packages importable under their own names.
func (c *source) imports(paths ...string) []edit {
	var edits []edit
	for _, p := range paths {
		present := false
		for _, spec := range c.file.Imports {
			present = present || spec.Path.Value == strconv.Quote(p)
		}
		if present {
			continue
		}
		for _, d := range c.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.IMPORT {
				continue
			}
			if g.Lparen.IsValid() {
				at := c.offset(g.Lparen) + 1
				edits = append(edits, edit{at, at, "\n\t" + strconv.Quote(p)})
			} else {
				edits = append(edits, c.before(g, "import "+strconv.Quote(p)+"\n"))
			}
			break
		}
	}
	return edits
}

// strings returns the values of all string literals, in order.
func (c *source) strings() []string {
	var values []string
	ast.Inspect(c.file, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if value, err := strconv.Unquote(lit.Value); err == nil {
				values = append(values, value)
			}
		}
		return true
	})
	return values
}

// isKit tells whether a type is a named type of package kit, or a pointer to it.
func isKit(t types.Type, name string) bool {
	if t == nil {
		return false
	}
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := t.(*types.Named)
	return ok && named.Obj().Name() == name && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == kitPath
}
