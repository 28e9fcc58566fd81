package lower

import (
	"fmt"
	"go/ast"
	"go/types"
	"strings"
)

// extremes: max(a, b)  =>  maxN_int(a, b), a function added at the end of the source.
func extremes(s *source) {
	each(s, func(c *ast.CallExpr) {
		name := s.builtin(c)
		if name != "min" && name != "max" {
			return
		}
		b, ok := s.under(c).(*types.Basic)
		text, written := s.write(s.typeOf(c))
		if v := s.Info.Types[c].Value; v != nil && ok {
			if l := s.literal(v, b); l != "" {
				s.add(s.replace(c.Pos(), c.End(), "%s", l))
			}
			return
		}
		if !ok || !written {
			return
		}
		helper := fmt.Sprintf("%s%s%d%s", prefix, name, len(c.Args), strings.NewReplacer(".", "_").Replace(text))
		s.addWith(extreme(helper, name, text, len(c.Args), b.Info()&types.IsFloat != 0),
			s.replace(c.Fun.Pos(), c.Fun.End(), "%s", helper))
	})
}

// extreme is the text of a function like min or max of n values. A value that is not a
// number wins, and so does the zero of the right sign.
func extreme(helper, name, kind string, n int, float bool) string {
	sign := "<"
	if name == "max" {
		sign = ">"
	}
	var params []string
	steps := ""
	for i := range n {
		p := fmt.Sprintf("p%d", i)
		params = append(params, p)
		if i == 0 {
			steps = "m := p0; "
			continue
		}
		condition := p + " " + sign + " m"
		if float {
			condition += " || " + p + " != " + p + " || " + p + " == 0 && m == 0 && 1/" + p + " " + sign + " 1/m"
			steps += "if m == m && (" + condition + ") { m = " + p + " }; "
			continue
		}
		steps += "if " + condition + " { m = " + p + " }; "
	}
	return fmt.Sprintf("func %s(%s %s) %s { %sreturn m }\n", helper, strings.Join(params, ", "), kind, kind, steps)
}

// clearing: clear(m)  =>  for k := range m { delete(m, k) }, clear(s) sets zeros. The
// argument must be a name or a field, since it is written twice.
func clearing(s *source) {
	each(s, func(e *ast.ExprStmt) {
		if s.builtin(e.X) != "clear" {
			return
		}
		c := ast.Unparen(e.X).(*ast.CallExpr)
		if s.calls(c.Args[0]) > 0 || strings.Contains(s.text(c), "\n") {
			return
		}
		k, text := s.name(), s.text(c.Args[0])
		switch t := s.under(c.Args[0]).(type) {
		case *types.Map:
			if b, ok := t.Key().Underlying().(*types.Basic); ok && b.Info()&(types.IsInteger|types.IsString|types.IsBoolean) != 0 {
				s.add(s.replace(e.Pos(), e.End(), "for %s := range %s { delete(%s, %s) }", k, text, text, k))
			}
		case *types.Slice:
			if kind, ok := s.write(t.Elem()); ok {
				s.add(s.replace(e.Pos(), e.End(), "for %s := range %s { var %sz %s; %s[%s] = %sz }", k, text, k, kind, text, k, k))
			}
		}
	})
}
