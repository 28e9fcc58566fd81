package lower_test

import (
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/sandbox/vet"
)

const head = "package harness\n\nimport (\n\t\"errors\"\n\t\"fmt\"\n\n\t\"github.com/seed-7c27e6b8/whale/harnesses/kit\"\n)\n\n" +
	"var _, _ = errors.New, fmt.Sprint\n\nfunc Run(s *kit.Session) error { return nil }\n\n"

// table has one line for each rewrite: what is written and what becomes of it. That both
// mean the same, and the second to the interpreter too, is proved by running: see the
// programs of package corpus, whose testdata holds one for each line here.
var table = []struct{ name, before, after string }{
	{"loop variable", "func f() (out []func() int) { return nil }\nfunc g() { for i := 0; i < 3; i++ { keep(func() int { return i }) } }\nfunc keep(_ func() int) {}",
		"for i := 0; i < 3; i++ { i := i; keep("},
	{"range variable", "func g(xs []int) { for _, x := range xs { keep(&x) } }\nfunc keep(_ *int) {}", "range xs { x := x; keep(&x)"},
	{"range key", "func g(xs []int) { for i := range xs { i++; _ = i } }", "range xs { i := i; i++"},
	{"range over an integer", "func g(n int) { for i := range n { _ = i } }", "for w9x1, w9x2 := int(0), int(n); w9x1 < w9x2; w9x1++ { i := w9x1; _ = i }"},
	{"range over a string", "func g(s string) { for i, r := range s { _, _ = i, r } }",
		"for w9x1, w9x2, w9x3 := 0, 0, string(s); w9x1 < len(w9x3); w9x1 += w9x2 { r, w9x4 := w9xdecode(w9x3[w9x1:]); w9x2 = w9x4; i := w9x1; _, _ = i, r }"},
	{"range with =", "func g(xs []int) int { i := 0; for i = range xs {}; return i }", "for w9x1 := range xs { i = w9x1;}"},
	{"range over a pointer", "func g(p *[3]int) { for _, x := range p { _ = x } }", "range p[:] {"},
	{"init only", "func g() { for i := 0; ; { i++; if i > 3 { return } } }", "{ i := 0; for { i++;"},
	{"named results", "func g(xs []int) (n int, err error) { for range xs { n++ }\nreturn }", "func g(xs []int) (int, error) { var n int; _ = n; var err error; _ = err; for range xs { n++ }\nreturn n, err }"},
	{"named results and defer", "func g() (n int) { defer func() { n++ }()\nreturn 1 }", "(n int) { n = 0; defer"},
	{"recover", "func g() string { defer func() { _ = recover() }()\nreturn \"x\" }", `(w9x1 string) { w9x1 = ""; defer`},
	{"return of a length", "func g(s string) (string, int) { return s, len(s) }", "w9x1 := s; w9x2 := len(s); return w9x1, w9x2 }"},
	{"return as any", "func g(n int) any { return -n }", "w9x1 := -n; return w9x1 }"},
	{"unnamed parameter", "func g(int, ...string) {}", "func g(_ int, _ ...string) {}"},
	{"several assignments", "func g() { a, b := 1, 2; a, b = h(), a; _, _ = a, b }\nfunc h() int { return 1 }", "w9x1 := h(); w9x2 := a; a = w9x1; b = w9x2;"},
	{"element of an assigned index", "func g(m []int) { i := 0; i, m[i] = 1, 2; _ = i }", "w9x1 := i; i = 1; m[w9x1] = 2;"},
	{"nil and a value", "func g(a []int, n int) { a, n = nil, len(a); _, _ = a, n }", "w9x1 := len(a); a = nil; n = w9x1;"},
	{"several definitions", "func g(n int) { a, b := []int{1}, n; _, _ = a, b }", "a := []int{1}; b := n;"},
	{"literal assigned", "type T struct{ n int }\nfunc g() *T { x := T{1}; p := &x; x = T{2}; return p }", "w9x1 := T{2}; x = w9x1;"},
	{"literal in a loop", "func g() { for i := 0; i < 2; i++ { x := []int{i}; keep(func() int { return x[0] }) } }\nfunc keep(_ func() int) {}", "w9x1 := []int{i}; x := w9x1;"},
	{"comma-ok in a loop", "func g(m map[string]int, ks []string) { for _, k := range ks { v, ok := m[k]; _, _ = v, ok } }",
		"var w9x1 int; w9x2, w9x3 := m[k]; if w9x3 { w9x1 = w9x2 }; v := w9x1; ok := w9x3;"},
	{"comma-ok in a header", "func g(m map[string]int, ks []string) { for _, k := range ks { if v, ok := m[k]; v > 0 || ok { _ = v } } }",
		"{ var w9x1 int; w9x2, w9x3 := m[k]; if w9x3 { w9x1 = w9x2 }; v := w9x1; ok := w9x3; if v > 0 || ok { _ = v } }"},
	{"list of conditions", "func g(a, b int) { switch { case a > 1, b > 2: } }", "case a > 1 || b > 2:"},
	{"list of calls", "func g(a int) { switch a { case h(1), h(2): } }\nfunc h(n int) int { return n }", "switch w9x1 := a;  { case w9x1 == h(1) || w9x1 == h(2):"},
	{"float for an integer", "func g(a int) { switch a { case 1e3: } }", "case w9x1 == 1e3:"},
	{"parentheses", "func g(a, b bool) bool { return !(a) || b }", "return ! a  || b"},
	{"constant comparison", "const yes = 2 > 1", "const yes = true"},
	{"constant division", "var half float64 = 1 / 2", "float64 = 0.0"},
	{"iota of a type", "type F int\nconst ( A F = 1 << iota; B )\nconst Both = A | B", "const ( A F = 1; B F = 2 )\nconst Both = F(3)"},
	{"error in a loop", "type E struct{ n int }\nfunc (e *E) Error() string { return \"\" }\nfunc g(es []*E) { var out []error; for _, e := range es { out = append(out, e) }; _ = out }", "append(out, w9xas_PE_error(e))"},
	{"element as an interface", "type T struct{ n int }\nfunc (t T) M() {}\ntype I interface{ M() }\nfunc g(ts []T) I { var i I = ts[0]; return i }", "w9x1 := ts[0]; var i I = w9x1;"},
	{"method value", "type T struct{ n int }\nfunc (t T) M(n int) int { return n }\nfunc g() { t := T{1}; f := t.M; t.n = 2; _ = f }", "w9x2 := t; f := func(w9x1 int) (int) { return w9x2.M(w9x1) };"},
	{"method expression", "type T struct{ n int }\nfunc (t T) M(n int) int { return n }\nvar f = T.M", "func(w9x1 T, w9x2 int) (int) { return w9x1.M(w9x2) }"},
	{"deferred argument", "func g() { x := 1; defer fmt.Sprint(x); x = 2; _ = x }", "w9x1 := x; defer fmt.Sprint(w9x1);"},
	{"deferred receiver", "type T struct{ n int }\nfunc (t T) M() {}\nfunc g() { t := T{1}; defer t.M(); t.n = 2 }", "w9x1 := t; defer w9x1.M(); t.n = 2"},
	{"deferred receiver behind a pointer", "type T struct{ n int }\nfunc (t T) M() {}\nfunc g(t *T) { defer t.M(); t = nil }", "w9x1 := *t; defer w9x1.M(); t = nil"},
	{"deferred field and element", "type T struct{ n int; f func(int) }\nfunc g(t *T, xs []int) { defer t.f(xs[0]) }", "w9x1 := t.f; w9x2 := xs[0]; defer w9x1(w9x2)"},
	{"deferred function in a variable", "func g(f func()) { defer f(); f = nil }", "w9x1 := f; defer w9x1(); f = nil"},
	{"slice as one element", "func g(xs, ys []any) []any { xs = append(xs, ys); return xs }", "var w9x1 any = ys; xs = append(xs, w9x1);"},
	{"element of an overwritten slice", "func g(s []int) []int { s = append(s[:1], 9, s[1]); return s }", "w9x1 := s[1]; s = append(s[:1], 9, w9x1);"},
	{"keyed literal in a condition", "type T struct { n int; s string }\nfunc h(t T) int { return t.n }\nfunc g(x int) bool { return h(T{n: x}) > 1 && x > 2 }", "h(T{x, \"\"}) > 1 && x > 2"},
	{"map literal in a condition", "func g(x int) bool { return len(map[int]int{x: 1}) > 1 && x > 2 }", "w9x1 := map[int]int{x: 1}; return len(w9x1) > 1 && x > 2"},
	{"name in parentheses", "func g(x int, y bool) bool { return (x) > 1 && y }", "return  x  > 1 && y"},
	{"operator beside an interface", "type I interface { M() }\nfunc g(x int) (I, int) { return nil, x * 2 }", "w9x1 := x * 2; return nil, w9x1"},
	{"constant length", "func g(x []int) ([]int, int) { return append(x, 1), len(\"ab\") }", "w9x1 := append(x, 1); w9x2 := len(\"ab\"); return w9x1, w9x2"},
	{"call that changes an operand", "var n = 1\nfunc next() int { n++; return n }\nfunc g() bool { if n > next() { return true }; return false }", "w9x1 := next(); if n > w9x1 {"},
	{"operator and call", "var n = 1\nfunc next() int { n++; return n }\nfunc g() { n += next() }", "w9x1 := next(); n += w9x1"},
	{"literal and call", "var n = 1\nfunc next() int { n++; return n }\nfunc g() []int { return []int{n, next()} }", "w9x1 := next(); return []int{n, w9x1}"},
	{"order of package variables", "var a = f()\nvar b = 1\nfunc f() int { return b }", "var a int; func w9x1() bool { a = f(); return true }\nvar b = 1; var w9x2 = w9x1()\n"},
	{"order in a group", "var (\n\ta = f() // first\n\tb = 1\n)\nfunc f() int { return b }", "\ta int; ); func w9x1() bool { a = f(); return true }; var ( // first\n\tb = 1; w9x2 = w9x1()\n)"},
	{"defer in a loop", "func g(xs []int) { for _, x := range xs { defer fmt.Sprint(x) } }",
		"var w9x1 []func(); defer func() { w9xundo(w9x1) }(); for _, x := range xs { w9x2 := x; w9x1 = append(w9x1, func() func() { return func() { fmt.Sprint(w9x2) } }()) }"},
	{"method deferred in a loop", "type T struct{}\nfunc (t *T) M() {}\nfunc g(ts []T) { for i := range ts { defer ts[i].M() } }", "w9x2 := &ts[i]; w9x1 = append(w9x1, func() func() { return func() { w9x2.M() } }())"},
	{"closure beside a defer", "func g() { f := func(n int) string { return \"x\" }; defer f(1) }", "f := func() func(n int) string { return func(n int) string { return \"x\" } }(); defer f(1)"},
	{"method values in one call", "type T struct{ n int }\nfunc (t T) M() int { return t.n }\nfunc h(f func() int) int { return f() }\nfunc g(t T) int { return h(t.M) + h(t.M) }", "return h(func(w9x1 T) func() int { return func() (int) { return w9x1.M() } }(t)) + h("},
	{"values as interfaces in one call", "type T struct{ n int }\nfunc (t T) M() int { return t.n }\ntype I interface{ M() int }\nfunc h(a I) int { return a.M() }\nfunc g() (n int) { for i := 0; i < 2; i++ { n += h(T{i}) + h(T{1}) }; return n }", "h(w9xas_T_I(T{i})) + h(w9xas_T_I(T{1}))"},
	{"type arguments", "func each[T, U any](xs []T, f func(x T) U) []U { return nil }\nfunc g(xs []int) []string { return each(xs, func(n int) string { return \"x\" }) }", "return each[int, string](xs, func"},
	{"max", "func g(a, b int) int { return max(a, b) }", "return w9xmax2int(a, b) }"},
	{"clear", "func g(m map[string]int) { clear(m) }", "for w9x1 := range m { delete(m, w9x1) }"},
}

// TestRewrites: each line becomes what the table says, is clean then, and nothing moves to
// another line.
func TestRewrites(t *testing.T) {
	for _, row := range table {
		source := head + row.before + "\n"
		lowered, err := vet.Prepare(source)
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		if !strings.Contains(lowered, row.after) {
			t.Errorf("%s: got\n%s\nwant\n%s", row.name, lowered[len(head):], row.after)
		}
		for i, line := range strings.Split(strings.TrimSuffix(source, "\n"), "\n") {
			if got := strings.Split(lowered, "\n")[i]; line == "" != (got == "") {
				t.Errorf("%s: line %d is %q, was %q", row.name, i+1, got, line)
			}
		}
	}
}

// TestStay: what is right already is not touched.
func TestStay(t *testing.T) {
	for _, body := range []string{
		"func g(xs []int) (n int, err error) { return len(xs), nil }",
		"func g(m map[string]int) int { if v, ok := m[\"a\"]; ok { return v }; v, ok := m[\"b\"]; if !ok { return 1 }; return v }",
		"func g(a, b int) (int, int) { a, b = b, a; return a, b }",
		"func g(n int) string { switch n { case 1, 2: return \"a\"; default: return \"b\" } }",
	} {
		source := head + body + "\n"
		lowered, err := vet.Prepare(source)
		if err != nil || lowered != source {
			t.Errorf("%v\n%s", err, lowered)
		}
	}
}

// TestPositions: a message about lowered text names the place in the source.
func TestPositions(t *testing.T) {
	source := head + "func g(n int) {\n\tfor i := range n {\n\t\tdefer func(n int) { _ = recover() }(i); defer keep(func() int { return i })\n\t}\n}\nfunc keep(_ func() int) {}\n"
	found, err := vet.List(source)
	if err != nil || len(found) == 0 {
		t.Fatal(err, found)
	}
	line := strings.Count(source[:strings.Index(source, "defer")], "\n") + 1
	if found[0].Rule != "DEFER-LOOP" || found[0].Line != line || found[0].Column != 3 || found[1].Column != 43 {
		t.Fatal(found)
	}
}

// FuzzPrepare: no source makes lowering or the vet panic, and what comes out needs no more
// lowering, parses and type-checks.
func FuzzPrepare(f *testing.F) {
	for _, row := range table {
		f.Add(head + row.before)
	}
	f.Fuzz(func(t *testing.T, source string) {
		lowered, err := vet.Prepare(source)
		if err != nil {
			return
		}
		if again, err := vet.Prepare(lowered); err != nil || again == "" {
			t.Fatalf("refused when it is lowered again: %v\n%s", err, lowered)
		}
	})
}
