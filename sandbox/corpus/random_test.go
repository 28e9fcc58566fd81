package corpus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// generator writes random programs: structs with methods, interfaces, closures, maps,
// loops, switches, named results, several assignments at once, comma-ok. They compile,
// end soon and don't panic.
type generator struct {
	r      *rand.Rand
	lines  []string
	scopes []map[string]string // name to type
	fixed  map[string]bool     // loop variables: not written, so that loops end
	names  int
	indent int
	calls  []function
}

// function is one that was written already, so there is no recursion.
type function struct {
	name    string
	params  []string
	results []string
}

// preamble is what every random program can use.
const preamble = `type point struct { a int; s string; xs []int }
type shape interface { Area(k int) int; Name() string }
type box struct { w int; name string }
type disc struct { r int }
type level int
const ( low level = iota; mid; high )
func (b box) Area(k int) int { return b.w * k }
func (b box) Name() string { return "box" + b.name }
func (d *disc) Area(k int) int { d.r++; return d.r + k }
func (d *disc) Name() string { return fmt.Sprint("disc", d.r) }
func (p *point) inc(n int) { p.a += n }
func (p point) sum(n int) int { for _, x := range p.xs { n += x }; return n + p.a }
func at(xs []int, i int) int { if len(xs) == 0 { return -1 }; return xs[(i&0xffff)%len(xs)] }
func word(xs []string, i int) string { if len(xs) == 0 { return "none" }; return xs[(i&0xffff)%len(xs)] }
func cut(s string) string { if len(s) > 12 { return s[:12] }; return s }
func few(xs []int) []int { if len(xs) > 4 { return xs[:4] }; return xs }
func clone(xs []int) []int { out := make([]int, len(xs)); copy(out, xs); return out }
func call(f func(int) int, n int) int { return f(n) }
func bound(n int) int { return n % 1000 }
var gi, gs = 5, "glob"
var gm = map[string]int{"k1": 1, "a": 2}
var one, yes = 1, true
`

// random is the program of a seed.
func random(seed uint64) program {
	g := &generator{r: rand.New(rand.NewPCG(seed, 7)), fixed: map[string]bool{}}
	globals := map[string]string{"gi": "int", "gs": "string", "gm": "map", "yes": "bool"}
	for range 2 + g.r.IntN(3) {
		g.scopes = []map[string]string{globals}
		g.function()
	}
	g.scopes = []map[string]string{globals, {}}
	g.line("func main() {")
	g.indent = 1
	for range 8 + g.r.IntN(8) {
		g.statement(3)
	}
	for _, name := range g.every() {
		switch g.typeOf(name) {
		case "func", "shape", "*point":
		default:
			g.line("fmt.Println(%q, %s)", name, name)
		}
	}
	g.indent = 0
	g.line("}")
	return program{fmt.Sprintf("random%d", seed), preamble + strings.Join(g.lines, "\n") + "\n"}
}

func (g *generator) line(format string, args ...any) {
	g.lines = append(g.lines, strings.Repeat("\t", g.indent)+fmt.Sprintf(format, args...))
}

func (g *generator) name() string { g.names++; return fmt.Sprintf("v%d", g.names) }

func (g *generator) add(name, kind string) { g.scopes[len(g.scopes)-1][name] = kind }

// every is all names in scope, in order.
func (g *generator) every() (list []string) {
	for _, scope := range g.scopes {
		for name := range scope {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func (g *generator) typeOf(name string) string {
	for _, scope := range g.scopes {
		if kind := scope[name]; kind != "" {
			return kind
		}
	}
	return ""
}

// pick is a variable of a type, or "".
func (g *generator) pick(kind string, writable bool) string {
	var list []string
	for _, name := range g.every() {
		if g.typeOf(name) == kind && !(writable && g.fixed[name]) {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return list[g.r.IntN(len(list))]
}

// kinds are the types that values have; "map" stands for map[string]int and "func" for
// func(int) int.
var kinds = []string{"int", "int", "int", "string", "string", "bool", "[]int", "map", "point", "*point", "func", "shape", "level"}

func (g *generator) kind() string { return kinds[g.r.IntN(len(kinds))] }

func goType(kind string) string {
	switch kind {
	case "map":
		return "map[string]int"
	case "func":
		return "func(int) int"
	}
	return kind
}

func (g *generator) one(list ...string) string { return list[g.r.IntN(len(list))] }

// form fills a template: each <type> becomes a value of the type.
func (g *generator) form(depth int, templates ...string) string {
	var b strings.Builder
	rest := templates[g.r.IntN(len(templates))]
	for {
		before, after, found := strings.Cut(rest, "<")
		kind, tail, closed := strings.Cut(after, ">")
		b.WriteString(before)
		if !found || !closed {
			return b.String()
		}
		b.WriteString(g.value(kind, depth))
		rest = tail
	}
}

// value is an expression of a type.
func (g *generator) value(kind string, depth int) string {
	if v := g.pick(kind, false); v != "" && (depth <= 0 || g.r.IntN(10) < 4) {
		return v
	}
	d := depth - 1
	switch kind {
	case "int":
		return g.number(d)
	case "string":
		return g.words(d)
	case "bool":
		if depth <= 0 {
			return "yes"
		}
		return g.form(d, "<int> == <int> + one", "!(<int> - one >= <int>)", "(<bool> && <bool>)", "<bool> || <bool>", "!(<bool>)", "<level> == mid", "<string> != gs")
	case "[]int":
		return g.form(d, "[]int{<int>, <int>}", "append(clone("+g.pickOr("[]int", "[]int{4}")+"), <int>)", "[]int{3, 1}")
	case "map":
		return g.form(d, "map[string]int{\"k1\": <int>}", "map[string]int{\"a\": <int>, \"k2\": 1}")
	case "point":
		return g.form(d, "point{<int>, <string>, nil}", "point{a: <int>}", "*&point{s: <string>}")
	case "*point":
		return g.form(d, "&point{a: <int>, s: <string>}")
	case "func":
		x := g.name()
		g.scopes = append(g.scopes, map[string]string{x: "int"})
		body := g.value("int", d)
		g.scopes = g.scopes[:len(g.scopes)-1]
		return fmt.Sprintf("func(%s int) int { return bound(%s + %s) }", x, x, body)
	case "shape":
		return g.form(d, "box{<int>, <string>}", "&disc{<int>}", "shape(box{w: <int>})")
	}
	return g.one("low", "mid", "high")
}

func (g *generator) pickOr(kind, otherwise string) string {
	if v := g.pick(kind, false); v != "" {
		return v
	}
	return otherwise
}

func (g *generator) number(d int) string {
	if d < 0 {
		return fmt.Sprint(g.r.IntN(12))
	}
	forms := []string{"7", "bound(<int> + <int>)", "bound(<int> - <int>)", "bound(<int> * <int>)", "len(<string>)", "len(<[]int>)", "len(<map>)",
		"at(<[]int>, <int>)", g.pickOr("map", "gm") + "[<string>]", "call(<func>, <int>)"}
	if g.r.IntN(40) == 0 { // the interpreter knows no max: most programs shall do without
		return g.form(d, "max(<int>, <int>)")
	}
	if p := g.pick(g.one("point", "*point"), false); p != "" {
		forms = append(forms, p+".a", p+".sum(<int>)")
	}
	if p := g.pick("shape", false); p != "" {
		forms = append(forms, p+".Area(<int>)", p+".Area(2)")
	}
	for _, f := range g.calls {
		if len(f.results) == 1 && f.results[0] == "int" {
			forms = append(forms, f.template())
		}
	}
	return g.form(d, forms...)
}

func (g *generator) words(d int) string {
	text := fmt.Sprintf("%q", g.one("a", "bc", "x y", "", "k1", "k2", "Zed", "é"))
	if d < 0 {
		return text
	}
	forms := []string{text, "cut(<string> + <string>)", "strconv.Itoa(<int>)", "fmt.Sprintf(\"%d-%s\", <int>, <string>)", "strings.ToUpper(<string>)"}
	if p := g.pick("shape", false); p != "" {
		forms = append(forms, p+".Name()")
	}
	if p := g.pick(g.one("point", "*point"), false); p != "" {
		forms = append(forms, p+".s")
	}
	return g.form(d, forms...)
}

// template is a call, for form.
func (f function) template() string {
	var args []string
	for _, p := range f.params {
		args = append(args, "<"+p+">")
	}
	return f.name + "(" + strings.Join(args, ", ") + ")"
}

// function writes one of up to three parameters and up to two results, named or not.
func (g *generator) function() {
	f := function{name: fmt.Sprintf("f%d", len(g.calls))}
	g.scopes = append(g.scopes, map[string]string{})
	var params, results []string
	for range g.r.IntN(3) {
		kind, name := g.kind(), g.name()
		f.params, params = append(f.params, kind), append(params, name+" "+goType(kind))
		g.add(name, kind)
	}
	named := g.r.IntN(3) == 0
	for range 1 + g.r.IntN(2) {
		kind, name := g.one("int", "int", "string", "[]int", "bool", "point", "shape"), g.name()
		f.results = append(f.results, kind)
		if named {
			if kind != "shape" {
				g.add(name, kind)
			}
			results = append(results, name+" "+goType(kind))
		} else {
			results = append(results, goType(kind))
		}
	}
	g.line("func %s(%s) (%s) {", f.name, strings.Join(params, ", "), strings.Join(results, ", "))
	g.indent = 1
	for range 2 + g.r.IntN(4) {
		g.statement(2)
	}
	if named && g.r.IntN(2) == 0 && !slices.Contains(f.results, "shape") {
		g.line("return")
	} else {
		var values []string
		for _, kind := range f.results {
			values = append(values, g.value(kind, 2))
		}
		g.line("return %s", strings.Join(values, ", "))
	}
	g.indent = 0
	g.line("}")
	g.scopes = g.scopes[:len(g.scopes)-1]
	g.calls = append(g.calls, f)
}

// block writes statements with variables of their own.
func (g *generator) block(budget int, more map[string]string) {
	g.scopes = append(g.scopes, more)
	g.indent++
	for _, name := range sortedNames(more) {
		g.line("_ = %s", name)
	}
	for range 1 + g.r.IntN(3) {
		g.statement(budget)
	}
	g.indent--
	g.scopes = g.scopes[:len(g.scopes)-1]
}

func sortedNames(m map[string]string) (list []string) {
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// statement writes one statement; compound ones hold blocks of a smaller budget.
func (g *generator) statement(budget int) {
	if budget > 0 && g.r.IntN(3) == 0 {
		g.compound(budget - 1)
		return
	}
	switch g.r.IntN(13) {
	case 0, 1, 2:
		kind, name := g.kind(), g.name()
		value := g.value(kind, 2)
		if kind == "shape" {
			g.line("var %s shape = %s", name, value)
		} else {
			g.line("%s := %s", name, value)
		}
		g.line("_ = %s", name)
		g.add(name, kind)
	case 3, 4:
		if v := g.pick(g.one("int", "string", "bool", "[]int", "point", "*point", "shape", "level"), true); v != "" {
			g.line("%s = %s", v, g.value(g.typeOf(v), 2))
		}
	case 5:
		a, b := g.pick("int", true), g.pick(g.one("int", "string", "point"), true)
		if a != "" && b != "" && a != b {
			g.line("%s, %s = %s, %s", a, b, g.value("int", 1), g.value(g.typeOf(b), 1))
		}
	case 6:
		if v := g.pick("int", true); v != "" {
			g.line("%s", g.one(v+"++", v+" = bound("+v+" * 3)", v+" -= "+g.value("int", 1)))
		}
	case 7:
		if p := g.pick(g.one("point", "*point"), true); p != "" {
			g.line("%s", g.one(p+".a = "+g.value("int", 1), p+".inc("+g.value("int", 1)+")", p+".xs = append("+p+".xs, "+g.value("int", 1)+")", p+".s = "+g.value("string", 1)))
		}
	case 8:
		m := g.pickOr("map", "gm")
		g.line("%s", g.one(m+"["+g.value("string", 1)+"] = "+g.value("int", 1), m+"["+g.value("string", 1)+"]++", "delete("+m+", "+g.value("string", 1)+")"))
	case 9:
		v, ok := g.name(), g.name()
		g.line("%s, %s := %s[%s]", v, ok, g.pickOr("map", "gm"), g.value("string", 1))
		g.line("_, _ = %s, %s", v, ok)
		g.add(v, "int")
		g.add(ok, "bool")
	case 10:
		for _, f := range g.calls {
			if len(f.results) == 2 && g.r.IntN(2) == 0 {
				a, b := g.name(), g.name()
				g.line("%s, %s := %s", a, b, g.form(1, f.template()))
				g.line("_, _ = %s, %s", a, b)
				g.add(a, f.results[0])
				g.add(b, f.results[1])
				return
			}
		}
	default:
		g.line("fmt.Println(%s, %s)", g.value(g.one("int", "string", "bool", "[]int", "point"), 1), g.value(g.one("int", "string"), 1))
	}
}

func (g *generator) compound(budget int) {
	n := g.name()
	switch g.r.IntN(8) {
	case 0:
		g.line("if %s := %s; %s > %s {", n, g.value("int", 1), n, g.value("int", 1))
		g.block(budget, map[string]string{n: "int"})
	case 1:
		g.line("if %s {", g.value("bool", 2))
		g.block(budget, map[string]string{})
		g.line("} else {")
		g.block(budget, map[string]string{})
	case 2:
		g.fixed[n] = true
		g.line("for %s := 0; %s < %d; %s++ {", n, n, 1+g.r.IntN(3), n)
		g.block(budget, map[string]string{n: "int"})
	case 3:
		key := g.name()
		g.fixed[key] = g.r.IntN(2) == 0
		g.line("for %s, %s := range few(%s) {", key, n, g.value("[]int", 1))
		g.block(budget, map[string]string{key: "int", n: "int"})
	case 4:
		g.line("for %s, %sr := range %s {", n, n, g.value("string", 1))
		g.line("\t_ = %sr", n)
		g.block(budget, map[string]string{n: "int"})
	case 5:
		g.line("switch {")
		g.line("case %s, %s:", g.value("bool", 1), g.value("bool", 1))
		g.block(budget, map[string]string{})
		g.line("default:")
		g.block(budget, map[string]string{})
	case 6:
		g.line("switch %s {", g.value("int", 1))
		g.line("case %s, %s + 40:", g.value("int", 1)+" + 20*one", g.pickOr("int", "one"))
		g.block(budget, map[string]string{})
	case 7:
		g.line("if %s, ok%s := %s[%s]; ok%s {", n, n, g.pickOr("map", "gm"), g.value("string", 1), n)
		g.block(budget, map[string]string{n: "int"})
	}
	g.line("}")
}
