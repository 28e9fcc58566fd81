package builtin

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// crossovers are the moves that take one function or one constant of a donor over into a
// source: functions of the same name and signature with another body, constants of the
// same name with another value.
func crossovers(c, donor *source, id engine.HarnessID, gain float64) []move {
	var all []move
	take := func(what string, edits []edit) {
		all = append(all, move{
			name: "take " + what, step: "from " + string(id), axis: onTools, share: .3, trust: .2 + gain,
			why:   fmt.Sprintf("%s of %s did well there: use it here", what, id),
			edits: edits, donor: string(id),
		})
	}
	for _, d := range c.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			other := donor.function(d.Name.Name)
			if d.Recv != nil || d.Body == nil || other == nil || c.code(d.Type) != donor.code(other.Type) ||
				c.code(d.Body) == donor.code(other.Body) {
				continue
			}
			edits := append([]edit{c.replace(d, donor.code(other))}, c.adopt(donor, other)...)
			take("function "+d.Name.Name, edits)
		case *ast.GenDecl:
			if d.Tok != token.CONST {
				continue
			}
			for _, s := range d.Specs {
				spec := s.(*ast.ValueSpec)
				if len(spec.Names) != 1 || len(spec.Values) != 1 {
					continue
				}
				other := donor.constant(spec.Names[0].Name)
				if other == nil || donor.code(other) == c.code(spec.Values[0]) {
					continue
				}
				if _, ok := other.(*ast.BasicLit); ok {
					take("constant "+spec.Names[0].Name, []edit{c.replace(spec.Values[0], donor.code(other))})
				}
			}
		}
	}
	return all
}

// constant returns the value expression of a package-level constant, nil if none.
func (c *source) constant(name string) ast.Expr {
	for _, d := range c.file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			spec := s.(*ast.ValueSpec)
			if len(spec.Names) == 1 && len(spec.Values) == 1 && spec.Names[0].Name == name {
				return spec.Values[0]
			}
		}
	}
	return nil
}

// adopt returns the edits that bring what a donor's function needs and c lacks: further
// declarations, recursively, and imports. What c has under the same name, it keeps.
func (c *source) adopt(donor *source, f *ast.FuncDecl) []edit {
	var edits []edit
	var needs []string
	seen := map[types.Object]bool{}
	var visit func(n ast.Node)
	visit = func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			object := donor.info.Uses[id]
			if object == nil || seen[object] {
				return true
			}
			seen[object] = true
			if pkg, ok := object.(*types.PkgName); ok {
				needs = append(needs, pkg.Imported().Path())
				return true
			}
			if object.Parent() != donor.pkg.Scope() || c.pkg.Scope().Lookup(object.Name()) != nil {
				return true
			}
			if decl, text := donor.declaration(object.Name()); decl != nil {
				edits = append(edits, c.atEnd(text+"\n"))
				visit(decl)
			}
			return true
		})
	}
	visit(f)
	return append(c.imports(needs...), edits...)
}

// declaration returns the package-level declaration of a name and its text as a
// declaration of its own.
func (c *source) declaration(name string) (ast.Node, string) {
	for _, d := range c.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == name {
				text := c.code(d)
				if d.Doc != nil {
					text = c.code(d.Doc) + "\n" + text
				}
				return d, text
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					// Groups that share values (iota) can't be taken apart.
					if len(s.Names) == 1 && s.Names[0].Name == name && len(s.Values) == 1 {
						return s, strings.ToLower(d.Tok.String()) + " " + c.code(s)
					}
				case *ast.TypeSpec:
					if s.Name.Name == name {
						return s, "type " + c.code(s)
					}
				}
			}
		}
	}
	return nil, ""
}
