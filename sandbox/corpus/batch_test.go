package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox"
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
	source = printing.ReplaceAllStringFunc(source, func(name string) string { return says[name] })
	if strings.Contains(source, "\t\"fmt\"\n") {
		source += "\nvar _ = fmt.Sprint\n"
	}
	file, err := parser.ParseFile(m.fset, "harness.go", source+print9, parser.SkipObjectResolution)
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
		end := m.fset.Position(id.End()).Offset
		if global(o, pkg) && id.Name != "_" && id.Name != "init" && end <= len(source) && !strings.HasSuffix(id.Name, "9z") {
			ends = append(ends, end)
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
	b.WriteString(")\n\nfunc Run(s *kit.Session) error {\n\tdefer func() { s.Log(text9z) }()\n\ttext9z = \"\"\n\tswitch s.Task().Input {\n")
	for _, n := range m.members {
		fmt.Fprintf(&b, "\tcase \"%d\":\n\t\treturn Run%s(s)\n", n, mark(n))
	}
	b.WriteString("\t}\n\treturn nil\n}\n")
	return b.String() + print9 + m.body.String()
}

// print9 are functions that log in the place of those of fmt, as a guest has no stdout.
const print9 = `
var text9z string

func say9z(a ...any) (int, error)                 { text9z += fmt.Sprintln(a...); return 0, nil }
func sayf9z(format string, a ...any) (int, error) { text9z += fmt.Sprintf(format, a...); return 0, nil }
func put9z(a ...any) (int, error)                 { text9z += fmt.Sprint(a...); return 0, nil }
`

var (
	printing = regexp.MustCompile(`\bfmt\.Print(ln|f)?\b`)
	says     = map[string]string{"fmt.Println": "say9z", "fmt.Printf": "sayf9z", "fmt.Print": "put9z"}
	marks    = regexp.MustCompile(`_q\d+q`)
)

// batchSize keeps a merged source below what the vet lets through.
const batchSize = 100 << 10

// compiled runs programs by the compile engine, in the sandbox, those that chosen takes: it
// merges as many into one candidate as its source may hold. What runs share is the image
// (one package, all package variables initialised); each has a fork of its own.
func compiled(t *testing.T, list []program, chosen func(i int) bool) []outcome {
	box, err := sandbox.Open(context.Background(), sandbox.Config{Engine: sandbox.Compile, CacheDir: filepath.Join(os.TempDir(), "whale-test-wasm"),
		Limits: sandbox.Limits{Time: patience, Output: 16 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	}()
	out := make([]outcome, len(list))
	m := newMerger(t)
	flush := func() {
		if len(m.members) > 0 {
			m.run(t, box, list, out)
		}
		m = newMerger(t)
	}
	for i, p := range list {
		if !chosen(i) {
			continue
		}
		if m.body.Len()+len(p.source) > batchSize {
			flush()
		}
		if err := m.add(i, p.source); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	flush()
	return out
}

// run loads what was merged and runs each program.
func (m *merger) run(t *testing.T, box *sandbox.Sandbox, list []program, out []outcome) {
	ctx := context.Background()
	m.imports[`"fmt"`] = true
	all, err := box.Load(ctx, engine.NewHarness(m.source(), engine.Meta{}))
	if err != nil {
		t.Errorf("%s to %s: %v", list[m.members[0]].name, list[m.members[len(m.members)-1]].name, err)
		return
	}
	for _, i := range m.members {
		host := &listener{}
		use, err := all.Run(ctx, engine.Start{Input: fmt.Sprint(i)}, host)
		out[i] = outcome{Log: marks.ReplaceAllString(host.log, "")}
		var failure *engine.HarnessError
		switch {
		case use.Engine != sandbox.Compile:
			out[i].End = "ran by " + use.Engine
		case errors.As(err, &failure) && failure.Panic:
			out[i].End, out[i].Why = "panic", err.Error()
		case errors.As(err, &failure):
			out[i].End, out[i].Why = "error", err.Error()
		case err != nil:
			out[i].End, out[i].Why = "crash", err.Error()
		}
	}
	if err := all.Close(); err != nil {
		t.Error(err)
	}
}
