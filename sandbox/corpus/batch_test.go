package corpus

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/sandbox/image"
)

// merger makes one harness of many programs: what each declares at package level gets a
// name of its own, and Run runs the program that the task's input names.
type merger struct {
	importer types.Importer
	fset     *token.FileSet
	imports  map[string]bool
	body     strings.Builder
	members  []int
}

func newMerger(t testing.TB) *merger {
	data, err := image.Types()
	if err != nil {
		t.Fatal(err)
	}
	m := &merger{fset: token.NewFileSet(), imports: map[string]bool{}}
	m.importer = importer.ForCompiler(m.fset, "gc", func(path string) (io.ReadCloser, error) {
		b, ok := data[path]
		if !ok {
			return nil, fmt.Errorf("import of %q", path)
		}
		return io.NopCloser(bytes.NewReader(b)), nil
	})
	return m
}

// mark is what a merged name ends with; outputs are compared without it.
func mark(n int) string { return fmt.Sprintf("_q%dq", n) }

// add renames a program, whose source must compile, and appends it.
func (m *merger) add(n int, source string) error {
	file, err := parser.ParseFile(m.fset, "harness.go", source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{Importer: m.importer}).Check("harness", m.fset, []*ast.File{file}, info)
	if err != nil {
		return err
	}
	var ends []int
	ast.Inspect(file, func(node ast.Node) bool {
		id, ok := node.(*ast.Ident)
		if !ok {
			return true
		}
		o := info.Defs[id]
		if o == nil {
			o = info.Uses[id]
		}
		if global(o, pkg) && id.Name != "_" && id.Name != "init" {
			ends = append(ends, m.fset.Position(id.End()).Offset)
		}
		return true
	})
	slices.Sort(ends)
	at := 0
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			at = m.fset.Position(g.End()).Offset
		}
	}
	for _, i := range file.Imports {
		m.imports[i.Path.Value] = true
	}
	m.body.WriteString("\n")
	for _, end := range slices.Compact(ends) {
		m.body.WriteString(source[at:end] + mark(n))
		at = end
	}
	m.body.WriteString(source[at:])
	m.members = append(m.members, n)
	return nil
}

// global says whether a name is declared at package level, or is that of an embedded field
// and so of a type that is.
func global(o types.Object, pkg *types.Package) bool {
	if o == nil || o.Pkg() != pkg {
		return false
	}
	if v, ok := o.(*types.Var); ok && v.Embedded() {
		t := types.Unalias(v.Type())
		if p, ok := t.(*types.Pointer); ok {
			t = types.Unalias(p.Elem())
		}
		n, ok := t.(*types.Named)
		return ok && n.Obj().Parent() == pkg.Scope()
	}
	return o.Parent() == pkg.Scope()
}

// source is the harness.
func (m *merger) source() string {
	var b strings.Builder
	b.WriteString("package harness\n\nimport (\n")
	for _, path := range sorted(m.imports) {
		b.WriteString("\t" + path + "\n")
	}
	b.WriteString(")\n\nfunc Run(s *kit.Session) error {\n\tdefer func() { s.Log(text9) }()\n\tswitch s.Task().Input {\n")
	for _, n := range m.members {
		fmt.Fprintf(&b, "\tcase \"%d\":\n\t\treturn Run%s(s)\n", n, mark(n))
	}
	b.WriteString("\t}\n\treturn nil\n}\n")
	return b.String() + print9 + m.body.String()
}

// print9 are functions that log in the place of those of fmt, as a guest has no stdout.
const print9 = `
var text9 string

func say9(a ...any)                 { text9 += fmt.Sprintln(a...) }
func sayf9(format string, a ...any) { text9 += fmt.Sprintf(format, a...) }
func put9(a ...any)                 { text9 += fmt.Sprint(a...) }
`
