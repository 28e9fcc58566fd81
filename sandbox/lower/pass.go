package lower

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// Checked is a source with its types.
type Checked struct {
	Text Text
	Fset *token.FileSet
	File *ast.File
	Pkg  *types.Package
	Info *types.Info // Types, Defs, Uses, Implicits, Selections and Instances
}

// maxRounds bounds how often rewritten text is rewritten again.
const maxRounds = 12

// finder is one kind of rewrite.
type finder struct {
	name string // of the rule of package vet that it spares
	find func(s *source)
}

// finders in the order in which they may take a place.
var finders = []finder{
	{"NEWER", rangeInteger},
	{"NEWER", extremes},
	{"NEWER", clearing},
	{"UNNAMED-PARAM", parameters},
	{"INIT-ORDER", initOrder},
	{"DEFER-LOOP", loopDefers},
	{"DEFER-CLOSURE", closures},
	{"NAMED-RESULT", namedResults},
	{"RECOVER-RESULT", recoveredResults},
	{"PAREN", parentheses},
	{"LOGIC", logic},
	{"ORDER", operands},
	{"GENERIC", instances},
	{"CONST", constants},
	{"RANGE-STRING", rangeString},
	{"RANGE-ASSIGN", rangeAssign},
	{"RANGE-PTR", rangePointer},
	{"FOR-INIT", forInit},
	{"LOOPVAR", loopCopies},
	{"SWITCH-MULTI", conditions},
	{"SWITCH", taggedSwitch},
	{"COMMA-OK", commaOK},
	{"MULTI-ASSIGN", assignments},
	{"MULTI-ASSIGN", definitions},
	{"LIT-ASSIGN", literals},
	{"RETURN", returns},
	{"METHOD-VALUE", methodValues},
	{"DEFER-ARG", deferred},
	{"APPEND", appended},
	{"IFACE-ALIAS", conversions},
}

// Rewrite lowers a source round by round until nothing is left to do. check parses and
// type-checks a text; ok says whether it holds. A rewrite that would not compile is left
// out.
func Rewrite(c Checked, check func(Text) (next Checked, ok bool)) Checked {
	checks := maxChecks
	for range maxRounds {
		t := trial{from: c, check: check, left: checks}
		t.take(choose(find(c)))
		if len(t.good) == 0 {
			return c
		}
		c, checks = t.next, t.left
	}
	return c
}

// maxChecks bounds how often a source is type-checked in search of rewrites that would not
// compile; the search takes about as many as a source has of them, times log n.
const maxChecks = 100

// trial finds those of a round's rewrites that hold together.
type trial struct {
	from  Checked
	check func(Text) (Checked, bool)
	left  int
	good  []rewrite
	next  Checked
}

// take adds what holds of a list to the good ones.
func (t *trial) take(list []rewrite) {
	if len(list) == 0 || t.left == 0 {
		return
	}
	t.left--
	with := append(t.good[:len(t.good):len(t.good)], list...)
	if next, ok := t.check(t.from.Text.apply(with)); ok {
		t.good, t.next = with, next
	} else if len(list) > 1 {
		t.take(list[:len(list)/2])
		t.take(list[len(list)/2:])
	}
}

func find(c Checked) []rewrite {
	s := &source{Checked: c, fresh: unused(c.Text.Source)}
	s.collect()
	for _, f := range finders {
		f.find(s)
	}
	return s.found
}

// source is what finders look at, and where they put what they find.
type source struct {
	Checked
	parent      map[ast.Node]ast.Node
	vars        map[types.Object]*use
	conversions []Conversion
	becomes     map[types.Object][]ast.Expr  // where a variable becomes an interface
	made        map[ast.Stmt][]*ast.CallExpr // see callsOf
	fresh       int
	found       []rewrite
}

// prefix of the names that rewrites make.
const prefix = "w9x"

// unused is the first number that no name with the prefix has.
func unused(text string) int {
	most := 0
	for {
		_, after, found := strings.Cut(text, prefix)
		if !found {
			return most + 1
		}
		end := 0
		for end < len(after) && end < 9 && after[end] >= '0' && after[end] <= '9' {
			end++
		}
		if n, err := strconv.Atoi(after[:end]); err == nil {
			most = max(most, n)
		}
		text = after
	}
}

// name makes a name that the source doesn't have.
func (s *source) name() string {
	s.fresh++
	return prefix + strconv.Itoa(s.fresh-1)
}

func (s *source) offset(p token.Pos) int { return s.Fset.Position(p).Offset }

// text is what a node looks like in the source.
func (s *source) text(n ast.Node) string {
	return s.Text.Source[s.offset(n.Pos()):s.offset(n.End())]
}

// replace is an edit of what lies between two positions.
func (s *source) replace(from, to token.Pos, format string, args ...any) edit {
	return edit{s.offset(from), s.offset(to), fmt.Sprintf(format, args...)}
}

func (s *source) insert(at token.Pos, format string, args ...any) edit {
	return s.replace(at, at, format, args...)
}

func (s *source) add(edits ...edit) { s.found = append(s.found, rewrite{edits: edits}) }

func (s *source) addWith(helper string, edits ...edit) {
	s.found = append(s.found, rewrite{edits, helper})
}

// each calls f for every node of a kind.
func each[N ast.Node](s *source, f func(n N)) {
	ast.Inspect(s.File, func(n ast.Node) bool {
		if n, ok := n.(N); ok {
			f(n)
		}
		return true
	})
}
