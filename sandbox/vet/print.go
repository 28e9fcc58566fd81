package vet

import (
	"go/ast"
	"go/constant"
	"go/types"
	"strings"
)

var printRules = []Rule{
	{Name: "FMT", Why: "its method is ignored or its memory is printed", Hint: "call x.String() or x.Error() yourself", find: printMethods},
	{Name: "FMT-TYPE", Why: "types of the source have no names and other field names there", Hint: "use %v, or name the fields yourself", find: printTypes},
	{Name: "FMT-METHOD", Why: "fmt does not call it", Hint: "give it another name and call it yourself", find: printMethodNames},
	{Name: "JSON-METHOD", Why: "encoding/json does not call it", Hint: "use a plain struct", find: jsonMethods},
	{Name: "JSON", Why: "unexported, embedded and interface parts come out wrong", Hint: "use exported fields with tags, concrete types, no embedding", find: jsonTypes},
}

// printed calls f for every value given to fmt, with the format if it is known.
func (p *program) printed(f func(call *ast.CallExpr, value ast.Expr, format string)) {
	each(p, func(c *ast.CallExpr) {
		path, name := p.standard(c)
		if path != "fmt" || strings.Contains(name, "scan") {
			return
		}
		values, format := c.Args, ""
		if strings.HasPrefix(name, "F") && len(values) > 0 {
			values = values[1:] // the writer
		}
		if strings.HasSuffix(name, "f") && len(values) > 0 {
			format = "%T%#v%+v" // unknown: all verbs
			if v := p.info.Types[values[0]].Value; v != nil && v.Kind() == constant.String {
				format = constant.StringVal(v)
			}
			values = values[1:]
		}
		for _, v := range values {
			f(c, v, format)
		}
	})
}

func printMethods(p *program) {
	p.printed(func(_ *ast.CallExpr, v ast.Expr, _ string) {
		t := p.typeOf(v)
		bad := within(t, func(part types.Type) bool {
			if n := p.own(part); n != nil && !isInterface(n) && hasMethod(n, "String", "Error", "Format") {
				return true
			}
			return p.converted && isAny(part) || isInterface(part) && p.own(part) != nil
		})
		if bad {
			p.refuse(v, "value with methods given to fmt")
		}
	})
}

func printTypes(p *program) {
	p.printed(func(_ *ast.CallExpr, v ast.Expr, format string) {
		named := strings.Contains(format, "%T") || strings.Contains(format, "%#")
		if !named && !strings.Contains(format, "%+v") {
			return
		}
		if within(p.typeOf(v), func(part types.Type) bool {
			return isAny(part) && p.named || named && p.own(part) != nil || p.hidden(under(part))
		}) {
			p.refuse(v, "%%T, %%#v or %%+v of a type of the source")
		}
	})
}

// hidden says whether t is a struct with a field that only the source can name, or an
// embedded one.
func (p *program) hidden(t types.Type) bool {
	s, ok := t.(*types.Struct)
	if !ok {
		return false
	}
	for i := range s.NumFields() {
		if f := s.Field(i); f.Pkg() == p.pkg && (!f.Exported() || f.Embedded()) {
			return true
		}
	}
	return false
}

func (p *program) methodsNamed(what string, names ...string) {
	each(p, func(f *ast.FuncDecl) {
		for _, name := range names {
			if f.Recv != nil && f.Name.Name == name {
				p.refuse(f.Name, "%s %s", what, name)
			}
		}
	})
}

func printMethodNames(p *program) { p.methodsNamed("method", "GoString", "Format") }

func jsonMethods(p *program) {
	p.methodsNamed("method", "MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText")
}

func jsonTypes(p *program) {
	each(p, func(c *ast.CallExpr) {
		path, name := p.standard(c)
		if path != "encoding/json" {
			return
		}
		switch name {
		case "Marshal", "MarshalIndent", "Encode":
			p.jsonValue(c.Args[0])
		case "Unmarshal":
			p.jsonValue(c.Args[1])
		case "Decode":
			p.jsonValue(c.Args[0])
		}
	})
}

func (p *program) jsonValue(e ast.Expr) {
	bad := within(p.typeOf(e), func(part types.Type) bool {
		if isInterface(part) {
			return p.own(part) != nil || isAny(part) && p.converted
		}
		if n := p.own(part); n != nil && p.withMethods(n) && hasMethod(n, "Error", "String") {
			return true
		}
		return p.hidden(under(part))
	})
	if bad {
		p.refuse(e, "value given to encoding/json")
	}
}
