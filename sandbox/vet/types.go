package vet

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/image"
)

// Language versions: of what may be written, and of what the interpreter can do, which has
// no range over integers and functions, no min, max, clear, and no new of a value.
const (
	written = "go1.26"
	known   = "go1.20"
)

// packages are the types of what may be imported, read once per process.
var packages = sync.OnceValues(func() (types.Importer, error) {
	data, err := image.Types()
	if err != nil {
		return nil, err
	}
	i := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		b, ok := data[path]
		if !ok {
			return nil, fmt.Errorf("import of %q", path)
		}
		return io.NopCloser(bytes.NewReader(b)), nil
	})
	read := imported{}
	for _, path := range Imports() {
		if read[path], err = i.Import(path); err != nil {
			return nil, fmt.Errorf("sandbox image: types of %s: %w: run make", path, err)
		}
	}
	return read, nil
})

// imported is an importer of what was read already; it is safe for concurrent use.
type imported map[string]*types.Package

func (i imported) Import(path string) (*types.Package, error) {
	if p := i[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("import of %q", path)
}

// check runs Go's type checker and then the part of the contract that needs types.
func check(p *program) error {
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
		Uses: map[*ast.Ident]types.Object{}, Implicits: map[ast.Node]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		Instances: map[*ast.Ident]types.Instance{}}
	var err error
	p.pkg, err = checked(p, written, p.info, func(e types.Error) {
		at := p.position(e.Pos)
		p.found = append(p.found, finding{e.Pos, &engine.LoadError{Line: at.Line, Column: at.Column, Rule: "type", Reason: e.Msg}})
	})
	if err != nil || len(p.found) > 0 {
		return err
	}
	run, _ := p.pkg.Scope().Lookup("Run").(*types.Func)
	if run == nil || types.TypeString(run.Type(), nil) != "func(s *"+kitPath+".Session) error" && !isRun(run.Type().(*types.Signature)) {
		p.refuseAs(p.file.Name, "contract", "Run is not func(s *kit.Session) error", "write func Run(s *kit.Session) error")
	}
	kitNames(p)
	return nil
}

// engines are the names of the kit that are not for harnesses.
var engines = []string{"NewSession", "Start", "Host", "Note"}

// kitNames keeps a harness to the session that it is given.
func kitNames(p *program) {
	for id, o := range p.info.Uses {
		if o.Pkg() != nil && o.Pkg().Path() == kitPath && o.Parent() == o.Pkg().Scope() && slices.Contains(engines, o.Name()) {
			p.refuseAs(id, "contract", "kit."+o.Name()+" is the engine's", "use the session that Run is given")
		}
	}
}

// isRun compares without the names of parameters.
func isRun(s *types.Signature) bool {
	return s.Params().Len() == 1 && !s.Variadic() && s.TypeParams().Len() == 0 && s.Results().Len() == 1 &&
		types.TypeString(s.Params().At(0).Type(), nil) == "*"+kitPath+".Session" &&
		types.TypeString(s.Results().At(0).Type(), nil) == "error"
}

// checked runs the type checker; its errors go to report, but for those that only go on
// about the one before. It fails where there are no types to check against.
func checked(p *program, version string, info *types.Info, report func(e types.Error)) (*types.Package, error) {
	from, err := packages()
	if err != nil {
		return nil, engine.Fail(engine.AtSandbox, "vet", err)
	}
	config := types.Config{Importer: from, GoVersion: version, Error: func(err error) {
		var e types.Error
		if errors.As(err, &e) && (!e.Soft || !strings.HasPrefix(e.Msg, "\t")) {
			report(e)
		}
	}}
	pkg, _ := config.Check("harness", p.fset, []*ast.File{p.file}, info) // its error is the first of those above
	return pkg, nil
}

// newer refuses what lowering left of the language after Go 1.20.
func newer(p *program) {
	_, err := checked(p, known, nil, func(e types.Error) {
		hint := p.rule.Hint
		if strings.Contains(e.Msg, "range over") {
			hint = "write for i := 0; i < n; i++"
		}
		p.refuseAs(at(e.Pos), p.rule.Name, e.Msg+": "+p.rule.Why, hint)
	})
	for id, o := range p.info.Uses {
		if f, ok := o.(*types.Func); ok && f.Pkg() != nil && f.Pkg() != p.pkg && f.Type().(*types.Signature).TypeParams().Len() > 0 {
			p.refuse(id, "generic function %s.%s", f.Pkg().Name(), f.Name())
		}
	}
	if err != nil {
		p.refuseAs(p.file, p.rule.Name, err.Error(), "") // can't be: they were there a moment ago
	}
}
