package vet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

// source makes a harness of declarations: what it uses is imported, and a Run is added
// if there is none.
func source(declarations string) string {
	if !strings.Contains(declarations, "func Run(") {
		declarations += "\n\nfunc Run(s *kit.Session) error { return nil }\n"
	}
	head := "package harness\n\nimport (\n"
	for _, path := range Imports() {
		if strings.Contains(declarations, path[strings.LastIndex(path, "/")+1:]+".") {
			head += "\t\"" + path + "\"\n"
		}
	}
	return head + ")\n\n" + declarations
}

// table is one wrong and one rewritten program for each rule, as declarations.
var table = []struct{ rule, wrong, right string }{
	{"LOOPVAR-CAPTURE",
		`func f() (int) { var list []func() int
	for i := 0; i < 3; i++ { list = append(list, func() int { return i }) }
	return list[0]() }`,
		`func f() int { var list []func() int
	for i := 0; i < 3; i++ { n := i; list = append(list, func() int { return n }) }
	return list[0]() }`},
	{"LOOPVAR-ADDR",
		`func f(xs []int) []*int { var out []*int
	for _, x := range xs { out = append(out, &x) }
	return out }`,
		`func f(xs []int) []*int { var out []*int
	for i := range xs { out = append(out, &xs[i]) }
	return out }`},
	{"LOOP-SLOT",
		`func f(m map[string]int, keys []string) []func() int { var out []func() int
	for _, k := range keys { if v, ok := m[k]; ok { out = append(out, func() int { return v }) } }
	return out }`,
		`func f(m map[string]int, keys []string) []func() int { var out []func() int
	for _, k := range keys { if v, ok := m[k]; ok { w := v; out = append(out, func() int { return w }) } }
	return out }`},
	{"COMMA-OK",
		`func f(m map[string]int, keys []string) int { n := 0
	for _, k := range keys { v, _ := m[k]; n = n + v }
	return n }`,
		`func f(m map[string]int, keys []string) int { n := 0
	for _, k := range keys {
		v, ok := m[k]
		if !ok { continue }
		n = n + v
		if w, ok := m[k]; ok && w > 1 { n = n + w }
	}
	return n }`},
	{"DEFER-LOOP",
		`func f(xs []int) { for _, x := range xs { defer fmt.Sprint(x) } }`,
		`func f(xs []int) { for _, x := range xs { one(x) } }
func one(x int) { defer fmt.Sprint(x) }`},
	{"RANGE-KEY",
		`func f(xs []int) { for i := range xs { i++ } }`,
		`func f(xs []int) { for i := 0; i < len(xs); i++ { i++ } }`},
	{"RANGE-ASSIGN",
		`func f(xs []int) int { i := 0
	for i = range xs {}
	return i }`,
		`func f(xs []int) int { last := 0
	for i := range xs { last = i }
	return last }`},
	{"RANGE-STRING",
		`func f(s string) int { n := 0
	for i, r := range s { if r == 'a' { n = i } }
	return n }`,
		`func f(s string) int { n := 0
	for _, r := range s { if r == 'a' { n++ } }
	return n }`},
	{"RANGE-PTR",
		`func f(a *[3]int) { for range a {} }`,
		`func f(a *[3]int) { for range a[:] {} }`},
	{"FOR-INIT",
		`func f() { for i := 0; ; { i++; if i > 3 { return } } }`,
		`func f() { i := 0
	for { i++; if i > 3 { return } } }`},
	{"NAMED-RESULT",
		`func f(xs []int) (n int) { for range xs { n++ }
	return }`,
		`func f(xs []int) (n int) { n = 0
	for range xs { n++ }
	return }
func g() (name string, err error) { return "", nil }`},
	{"RECOVER-RESULT",
		`func f() string { defer func() { recover() }()
	return "x" }`,
		`func f() (text string) { text = ""
	defer func() { recover() }()
	return "x" }`},
	{"RETURN-NAMED",
		`func f() (a, b int) { a = 1
	b = 2
	return b, a }`,
		`func f() (int, int) { a := 1
	b := 2
	return b, a }`},
	{"RETURN-BUILTIN",
		`func f(s string) (string, int) { return s, len(s) }`,
		`func f(s string) (string, int) { n := len(s)
	return s, n }`},
	{"RETURN-BUILTIN",
		`func f(xs []int) ([]int, int) { return append(xs, 1), len("ab") }`,
		`func f(xs []int) ([]int, int) { n := len("ab")
	return append(xs, 1), n }`},
	{"RETURN-IFACE",
		`func f(x int) any { return -x }`,
		`func f(x int) any { y := -x
	return y }`},
	{"RETURN-IFACE",
		`type I interface { M() }
func f(n int) (I, int) { return nil, n * 2 }`,
		`type I interface { M() }
func f(n int) (I, int) { twice := n * 2
	return nil, twice }`},
	{"RETURN-FUNC",
		`func g(s string) string { return s }
func f() func(string) string { return g }`,
		`func g(s string) string { return s }
func f() func(string) string { return func(s string) string { return g(s) } }`},
	{"DEFER-ARG",
		`func f() { x := 1
	defer fmt.Sprint(x)
	x = 2
	_ = x }`,
		`func f() { x := 1
	y := x
	defer fmt.Sprint(y)
	x = 2
	_ = x }`},
	{"DEFER-PANIC",
		`func f() { defer func() { recover() }()
	defer func() { panic("x") }() }`,
		`func f() { defer func() { recover() }()
	panic("x") }`},
	{"UNNAMED-PARAM",
		`func f(string) int { return 1 }`,
		`func f(_ string) int { return 1 }`},
	{"MULTI-ASSIGN",
		`func g() int { return 1 }
func f() { a, b := 1, 2
	a, b = g(), a
	_, _ = a, b }`,
		`func g() int { return 1 }
func f() { a, b := 1, 2
	a, b = b, a
	a = g()
	_, _ = a, b }`},
	{"MULTI-NIL",
		`func f() { var a []int
	n := 1
	a, n = nil, 2
	_, _ = a, n }`,
		`func f() { var a []int
	n := 1
	a = nil
	n = 2
	_, _ = a, n }`},
	{"LIT-ASSIGN",
		`type T struct{ n int }
func f() *T { s := T{1}
	p := &s
	s = T{2}
	return p }`,
		`type T struct{ n int }
func f() *T { s := T{1}
	p := &s
	t := T{2}
	s = t
	return p }`},
	{"APPEND-ANY",
		`func f(xs, ys []any) []any { return append(xs, ys) }`,
		`func f(xs, ys []any) []any { var y any = ys
	return append(xs, y) }`},
	{"APPEND-ALIAS",
		`func f(s []int) []int { return append(s[:1], 9, s[1]) }`,
		`func f(s []int) []int { x := s[1]
	return append(s[:1], 9, x) }`},
	{"METHOD-VALUE",
		`type T struct{ n int }
func (t T) get() int { return t.n }
func f() func() int { t := T{1}
	g := t.get
	t.n = 2
	return g }`,
		`type T struct{ n int }
func (t T) get() int { return t.n }
func f() func() int { t := T{1}
	g := t.get
	return g }`},
	{"INIT-ORDER",
		`var a = get()
func get() int { return b }
var b = len("x") + 1`,
		`var b = len("x") + 1
var a = get()
func get() int { return b }`},
	{"INIT-MULTI",
		`var a, err = strconv.Atoi("5")`,
		`var a, b = 1, 2
func f() bool { n, err := strconv.Atoi("5")
	return err == nil && n > a+b }`},
	{"SWITCH-MULTI",
		`func f(a, b int) int { switch { case a > 1, b > 2: return 1 }
	return 0 }`,
		`func f(a, b int) int { switch { case a > 1 || b > 2: return 1 }
	switch a { case 1, 2: return 2 }
	return 0 }`},
	{"SWITCH-DEFAULT",
		`func f(a int) int { switch { default: return 0
	case a > 1: return 1
	case a > 0: return 2 } }`,
		`func f(a int) int { switch { case a > 1: return 1
	default: return 0 } }
func g(a int) int { switch a { default: return 0
	case 1: return 1
	case 2: return 2 } }`},
	{"SWITCH-IFACE",
		`func f(x any) int { switch x { case 1: return 1 }
	return 0 }`,
		`func f(x any) int { if n, ok := x.(int); ok { switch n { case 1: return 1 } }
	return 0 }`},
	{"SWITCH-NIL",
		`func f(x []int) int { switch { case x == nil: return 2 }
	var p *int
	switch p { case nil: return 1 }
	return 0 }`,
		`func f(x []int) int { if x == nil { return 1 }
	return 0 }`},
	{"SWITCH-CONST",
		`func f(x int) int { switch x { case 1e3: return 1 }
	return 0 }`,
		`func f(x int) int { switch x { case 1000: return 1 }
	return 0 }`},
	{"SWITCH-CALL",
		`func f() int { x := 1
	g := func() int { x = 2
		return 2 }
	switch x { case g(): return 1 }
	return 0 }`,
		`func f() int { x := 1
	g := func() int { x = 2
		return 2 }
	y := g()
	switch x { case y: return 1 }
	return 0 }`},
	{"TSWITCH-NIL",
		`func f(x any) any { switch v := x.(type) { case nil, int: return v }
	return 0 }`,
		`func f(x any) any { switch v := x.(type) { case nil: return nil
	case int: return v }
	return 0 }`},
	{"TYPE-ID",
		`type A struct{ n int }
type B struct{ n int }
func f(x any) bool { _, ok := x.(A)
	return ok }
var other any = B{1}`,
		`type A struct{ n int }
func g(x any) bool { _, ok := x.(A)
	return ok }
func f(x any) bool { _, ok := x.(*A)
	return ok }`},
	{"ASSERT-IFACE",
		`func f(x any) bool { _, ok := x.(error)
	return ok }`,
		`func f(x any) bool { _, ok := x.(string)
	return ok }`},
	{"RECOVER-TYPE",
		`type E struct{ n int }
func f() { defer func() { if e, ok := recover().(E); ok { _ = e } }() }`,
		`func f() { defer func() { if e, ok := recover().(string); ok { _ = e } }() }`},
	{"IFACE-ALIAS",
		`type T struct{ n int }
func (t T) Get() int { return t.n }
type Getter interface { Get() int }
func f(ts []T) []Getter { var out []Getter
	for _, t := range ts { out = append(out, t) }
	return out }`,
		`type T struct{ n int }
func (t *T) Get() int { return t.n }
type Getter interface { Get() int }
func f() Getter { t := &T{1}
	return t }`},
	{"ERR-METHOD",
		`type E struct{}
func (e *E) Error() string { return "x" }
func (e *E) Is(err error) bool { return true }`,
		`var errX = errors.New("x")`},
	{"ERR-IS",
		`type E struct{}
func (e *E) Error() string { return "x" }
func f(err error) bool { return errors.Is(err, kit.ErrBudget) }`,
		`func f(err error) bool { return errors.Is(err, kit.ErrBudget) }`},
	{"ERR-AS",
		`type E struct{}
func (e *E) Error() string { return "x" }
func f(err error) bool { var e *E
	return errors.As(err, &e) }`,
		`var errX = errors.New("x")
func f(err error) bool { return errors.Is(err, errX) }`},
	{"ASSERT-ERROR",
		`type E struct{}
func (e E) Error() string { return "x" }
func f(err error) bool { _, ok := err.(E)
	return ok }`,
		`type E struct{}
func (e *E) Error() string { return "x" }
func f(err error) bool { _, ok := err.(*E)
	return ok }`},
	{"IFACE-EQ",
		`type T int
func f(a, b any) bool { return a == b }
func g() bool { return f(T(1), 1) }`,
		`func f(a, b any) bool { return a == b || a == 1 }
func g(a, b error) bool { return a == b || a != nil }`},
	{"DEFER-ARG",
		`type T struct { n int; done func() }
func (t T) show() {}
func f(t *T, xs []int, m map[string]func()) { defer fmt.Println(t.n, xs[0], *t)
	defer t.show(); defer t.done(); defer m["x"]() }
func g(h func()) { defer h(); h = nil }`,
		`type T struct { n int; done func() }
func (t T) show() {}
func (t *T) close(ok *bool) {}
func f(t *T, xs []int, h func(), ok bool) { n := t.n; x := xs[0]; u := *t; d := t.done
	defer fmt.Println(n, x + 1, t.n + 1, u)
	defer u.show(); defer d(); defer h(); defer t.close(&ok)
	ok = true }`},
	{"DEFER-CLOSURE",
		`func f() { g := func() {}
	defer g() }`,
		`func f(g func()) { h := func() func() { return func() {} }()
	defer g()
	defer func() { h() }() }`},
	{"TYPED-NIL",
		`type E struct{}
func (e *E) Error() string { return "x" }
func f() error { var p *E
	return p }`,
		`func f() error { return nil }`},
	{"EMBED-IFACE",
		`type I interface { M() }
type T struct { I }`,
		`type I interface { M() }
type T struct { inner I }`},
	{"PROMOTED",
		`type A struct{}
func (A) V() string { return "a" }
type B struct{ A }
type C struct{}
func (C) V() string { return "c" }
type D struct { B; C }`,
		`type A struct{}
func (A) V() string { return "a" }
type B struct{ A }
type C struct{}
func (C) V() string { return "c" }
type D struct { B; C }
func (d D) V() string { return d.C.V() }`},
	{"IFACE-ALIAS",
		`type N int
func (n N) Get() int { return int(n) }
type Getter interface { Get() int }
func f() []Getter { var out []Getter
	n := N(1)
	for i := 0; i < 3; i++ { out = append(out, n + N(i)) }
	return out }`,
		`type N int
func (n N) Get() int { return int(n) }
type Getter interface { Get() int }
func f() []Getter { var out []Getter
	n := N(1)
	for i := 0; i < 3; i++ { m := n + N(i)
		out = append(out, m) }
	return out }`},
	{"CONST-IOTA",
		`type W int
const ( Mon W = iota + 1
	Tue )
func f() bool { return Tue == 2 }`,
		`type W int
const ( Mon W = iota + 1
	Tue )
func f(w W) bool { return w == Tue }`},
	{"FMT-TYPE",
		`func f() string { v := struct{ A int; b string }{1, "x"}
	return fmt.Sprintf("%+v", v) }`,
		`func f() string { v := struct{ A int; b string }{1, "x"}
	return fmt.Sprintf("%v", v) }`},
	{"FMT",
		`type T struct{ n int }
func (t T) String() string { return "t" }
func f(ts []T) string { return fmt.Sprint(ts) }`,
		`type T struct{ n int }
func (t T) String() string { return "t" }
func f(ts []T) string { return fmt.Sprint(ts[0].String(), len(ts)) }`},
	{"FMT-TYPE",
		`type T struct{ n int }
func f(t T) string { return fmt.Sprintf("%T", t) }`,
		`type T struct{ n int }
func f(t T) string { return fmt.Sprintf("%v %d", t, t.n) }`},
	{"FMT-METHOD",
		`type T struct{ n int }
func (t T) GoString() string { return "t" }`,
		`type T struct{ n int }
func (t T) text() string { return "t" }`},
	{"JSON-METHOD",
		`type T struct{ N int }
func (t T) MarshalJSON() ([]byte, error) { return nil, nil }`,
		`type T struct{ N int }`},
	{"JSON",
		`type T struct{ n int }
func f(t T) string { b, _ := json.Marshal(t)
	return string(b) }`,
		"type T struct{ N int `json:\"n\"` }\n" + `func f(t T) string { b, _ := json.Marshal(t)
	var m map[string]any
	_ = json.Unmarshal(b, &m)
	return string(b) }`},
	{"CONST-BOOL", `const a = 2 > 1`, `const n = 2
func f(ok bool) bool { return n > 1 && ok }`},
	{"CONST-DIV", `var h float64 = 1 / 2`, `var h float64 = 0.5
var g = 1 / 2
var q = 1.0 / 2`},
	{"CONST-IOTA",
		`type F int
const ( R F = 1 << iota
	W
	X )
const All = R | W | X`,
		`type F int
const ( R F = 1
	W F = 2 )
const All F = 3
const ( A = iota
	B )`},
	{"PAREN", `func f(a, b bool) bool { return !(a) || b }`, `func f(a, b bool) bool { return !a || (a && b) }`},
	{"METHOD-EXPR",
		`type T struct{}
func (t T) M() int { return 1 }
func f() int { return T.M(T{}) }`,
		`type T struct{}
func (t T) M() int { return 1 }
func f() int { return T{}.M() }`},
	{"LABEL",
		`func f(xs []int) { next := 1
	_ = next
next:
	for range xs { continue next } }`,
		`func f(xs []int) {
again:
	for range xs { continue again } }`},
	{"GENERIC",
		`func f[T interface{ M() }](x T) { x.M() }`,
		`func f[T int | float64](x, y T) T { return x + y }`},
	{"PAREN", `func f(a int, b bool) bool { return (a) > 1 && b }`, `func f(a int, b bool) bool { return (a + 1) > 1 && b }`},
	{"LOGIC",
		`type T struct{ n int }
func g(t T) int { return t.n }
func f(ok bool) bool { return g(T{n: 1}) > 0 && ok }`,
		`type T struct{ n int }
func g(t T) int { return t.n }
func f(ok bool) bool { return ok && g(T{n: 1}) > 0 }`},
	{"IFACE-CALL",
		`type I interface { M() }
type T struct{}
func (t *T) M() {}
func f(t *T) { I(t).M() }`,
		`type I interface { M() }
type T struct{}
func (t *T) M() {}
func f(t *T) { i := I(t)
	i.M() }`},
	{"NEWER",
		`func f(yield func(int) bool) { yield(1) }
func g() int { n := 0
	for i := range f { n += i }
	return n }`,
		`func f(yield func(int) bool) { yield(1) }
func g() int { n := 0
	f(func(i int) bool { n += i; return true })
	return n }`},
	{"GENERIC",
		`func each[T, U any](xs []T, f func(x T) U) []U { return nil }
func g(xs []int) []string { return each(xs, func(n int) string { return "x" }) }`,
		`func each[T, U any](xs []T, f func(x T) U) []U { return nil }
func g(xs []int) []string { return each[int, string](xs, func(n int) string { return "x" }) }`},
	{"NEWER",
		`type E struct{}
func (e *E) Error() string { return "x" }
func f(err error) bool { _, ok := errors.AsType[*E](err)
	return ok }`,
		`type E struct{}
func (e *E) Error() string { return "x" }
func f(err error) bool { _, ok := err.(*E)
	return ok }`},
	{"NEWER", `func f() *int { return new(5) }`, `func f() *int { n := 5
	return &n }`},
	{"ORDER",
		`var n = 1
func next() int { n++
	return n }
func f() string { return fmt.Sprint([]int{n}, next()) }`,
		`var n = 1
func next() int { n++
	return n }
func f() string { was := n
	return fmt.Sprint([]int{was}, n, next(), n) }`},
	{"ORDER",
		`func f() int { used := 0
	spend := func(k int) int { used += k
		return k }
	used += spend(1)
	return used }`,
		`func f() int { used := 0
	spend := func(k int) int { used += k
		return k }
	cost := spend(1)
	used += cost
	return used }`},
	{"FUNC-LIST",
		`type A struct{ n int; steps map[string]func(a *A) int }
func f(a *A) int { return a.steps["x"](a) }`,
		`type step struct{ run func(a *A) int }
type A struct{ n int; steps map[string]step; next func(a *A) int; kids []*A }
func f(a *A) int { return a.steps["x"].run(a) + a.next(a) }`},
	{"FUNC-LIST",
		`type A struct{ n int; parts []struct{ name string; a *A } }`,
		`type part struct{ name string; a *A }
type A struct{ n int; parts []part }`},
	{"FUNC-TYPE",
		`type F func(F) int`,
		`type F func(int) int`},
}

// unlowered is List for a source as it is.
func unlowered(t *testing.T, source string) []*engine.LoadError {
	p, found := read(source)
	if len(found) > 0 {
		return found
	}
	if err := check(p); err != nil {
		t.Fatal(err)
	}
	if len(p.found) == 0 {
		p.judge()
	}
	return p.sorted()
}

// TestRules: each rule finds its wrong program and lets the rewritten one pass, and every
// rule has a row.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range table {
		seen[row.rule] = true
		found := unlowered(t, source(row.wrong))
		named := false
		for _, f := range found {
			named = named || f.Rule == row.rule && f.Line > 0 && f.Hint != ""
		}
		if !named {
			t.Errorf("%s: not found, only %v", row.rule, found)
		}
		if found := unlowered(t, source(row.right)); len(found) > 0 {
			t.Errorf("%s: the rewritten program is refused: %v", row.rule, found)
		}
	}
	for _, r := range Rules {
		if !seen[r.Name] {
			t.Errorf("%s has no programs", r.Name)
		}
	}
}

// TestContract: what a harness must and must not be, with the position of the offence.
func TestContract(t *testing.T) {
	const run = "\nfunc Run(s *kit.Session) error { return nil }\n"
	const kit = "import \"" + kitPath + "\"\n"
	for _, c := range []struct {
		name, source string
		line         int
		rule, text   string
	}{
		{"package", "package main\n" + kit + run, 1, "contract", "package main"},
		{"no Run", "package harness\nfunc run() {}\n", 1, "contract", "no function Run"},
		{"Run is a method", "package harness\n" + kit + "type T struct{}\nfunc (t T) Run(s *kit.Session) error { return nil }\n", 1, "contract", "no function Run"},
		{"Run of another type", "package harness\n" + kit + "func Run(s kit.Session) error { return nil }\n", 1, "contract", "Run is not"},
		{"Run with two results", "package harness\n" + kit + "func Run(s *kit.Session) (int, error) { return 0, nil }\n", 1, "contract", "Run is not"},
		{"generic Run", "package harness\n" + kit + "func Run[T any](s *kit.Session) error { return nil }\n", 1, "contract", "Run is not"},
		{"import os", "package harness\nimport \"os\"\n" + kit + run, 2, "contract", `import of "os"`},
		{"import by alias", "package harness\n" + kit + "import fine \"os/exec\"\n" + run, 3, "contract", "os/exec"},
		{"dot import", "package harness\n" + kit + "import . \"strings\"\n" + run, 3, "contract", "as ."},
		{"blank import", "package harness\n" + kit + "import _ \"strings\"\n" + run, 3, "contract", "as _"},
		{"unsafe", "package harness\nimport \"unsafe\"\n" + kit + run, 2, "contract", "unsafe"},
		{"cgo", "package harness\nimport \"C\"\n" + kit + run, 2, "contract", `"C"`},
		{"session of its own", "package harness\n" + kit + run + "func f() { kit.NewSession(kit.Start{}, nil) }", 5, "contract", "the engine's"},
		{"host of its own", "package harness\n" + kit + run + "type h struct{ kit.Host }", 5, "contract", "the engine's"},
		{"relative import", "package harness\nimport \"./x\"\n" + kit + run, 2, "contract", "./x"},
		{"go", "package harness\n" + kit + run + "func f() { go f() }", 5, "contract", "go statement"},
		{"channel", "package harness\n" + kit + run + "func f(c chan int) {}", 5, "contract", "channel"},
		{"select", "package harness\n" + kit + run + "func f() { select {} }", 5, "contract", "channel operation"},
		{"linkname", "package harness\n" + kit + run + "//go:linkname f runtime.f\nfunc f() {}", 5, "contract", "directive"},
		{"no body", "package harness\n" + kit + run + "func f()", 5, "contract", "without a body"},
		{"syntax", "package harness\n" + kit + "func Run(s *kit.Session) error { return }}\n", 3, "parse", ""},
		{"unknown name", "package harness\n" + kit + "func Run(s *kit.Session) error { return nope }\n", 3, "type", "undefined: nope"},
		{"unused variable", "package harness\n" + kit + "func Run(s *kit.Session) error {\n\tx := 1\n\treturn nil }\n", 4, "type", "x"},
		{"range over func", "package harness\n" + kit + "func Run(s *kit.Session) error {\n\tfor range func(func() bool) {} {}\n\treturn nil }\n", 4, "NEWER", "range over"},
		{"giant", "package harness\n// " + strings.Repeat("x", maxSource) + run, 0, "size", "bytes"},
		{"deep brackets", "package harness\nvar x = " + strings.Repeat("(", 10000) + "1" + strings.Repeat(")", 10000) + run, 2, "size", "nested"},
		{"deep without brackets", "package harness\n" + kit + "var x = " + strings.Repeat("-", 1) + strings.Repeat("1 + ", 5000) + "1" + run, 0, "size", "parts"},
		{"not text", "\x00\xff\xfe", 1, "parse", ""},
		{"empty", "", 1, "parse", ""},
	} {
		err := Check(c.source)
		var refusal *engine.LoadError
		if !errors.As(err, &refusal) || refusal.Rule != c.rule || refusal.Line != c.line || !strings.Contains(refusal.Reason, c.text) {
			t.Errorf("%s: %v, want line %d, %s, %q", c.name, err, c.line, c.rule, c.text)
		}
	}
}

// TestSame: two looks at one source find the same in the same order.
func TestSame(t *testing.T) {
	var all strings.Builder
	for i, row := range table {
		if row.rule == "LOOPVAR-CAPTURE" || row.rule == "COMMA-OK" || row.rule == "MULTI-NIL" || row.rule == "RETURN-BUILTIN" {
			fmt.Fprintln(&all, strings.NewReplacer("func f(", fmt.Sprint("func f", i, "("), "func g(", fmt.Sprint("func g", i, "(")).Replace(row.wrong))
		}
	}
	want := ""
	for range 5 {
		list := unlowered(t, source(all.String()))
		if len(list) < 4 {
			t.Fatal(list)
		}
		if got := fmt.Sprint(list); want != "" && got != want {
			t.Fatalf("%s\nthen\n%s", want, got)
		} else {
			want = got
		}
	}
}

// FuzzList: no source makes the vet panic, and every finding has a reason.
func FuzzList(f *testing.F) {
	for _, row := range table {
		f.Add(source(row.wrong))
		f.Add(source(row.right))
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := List(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range list {
			if l.Rule == "" || l.Reason == "" {
				t.Fatalf("%+v", l)
			}
		}
	})
}
