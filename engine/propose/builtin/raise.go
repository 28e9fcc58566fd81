package builtin

import (
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// limitOperator raises or lowers a number, by steps that suit what it limits.
type limitOperator struct{}

// everything is written for "no limit" where zero does not mean that already.
const everything = 1000

// ladder is how the numbers of one role move.
type ladder struct {
	what         string
	axis         string
	low, high    int
	cures        symptom
	sign         string // what the cured rollouts show
	share, trust float64
}

// Votes come last: they cost as many times the tokens as there are samples, and a
// candidate is compared by its score alone.
var ladders = map[role]ladder{
	turnsRole:   {"turns", onStopping, 1, 16, endedAsking, "ended with a tool call in the last turn", 1, .5},
	retriesRole: {"retries", onRecovery, 0, 4, unreadable | brokenCall, "ended with a reply that could not be read", .5, .3},
	cutRole:     {"length kept", onContext, 0, everything, cutResult, "read only the beginning of a tool result", 1, .5},
	argRole:     {"tool argument", onTools, 1, 8, nothingFound | wrongAnswer, "found nothing or answered wrong", .2, .15},
	tokensRole:  {"tokens a call", onStopping, 8, 8192, ranOut, "had a reply cut by the limit on tokens", .8, .2},
	samplesRole: {"samples", onRecovery, 1, 5, wrongAnswer, "gave a readable wrong answer", .06, .05},
}

func (limitOperator) moves(c *source, d *diagnosis) []move {
	var all []move
	for _, l := range c.limits() {
		rung := ladders[l.role]
		zeroIsAll := l.role == cutRole && c.zeroMeansAll(l)
		for i, to := range steps(l, rung, zeroIsAll) {
			text := strconv.Itoa(to)
			if l.quote {
				text = strconv.Quote(text)
			}
			shown := strconv.Itoa(to)
			if l.role == cutRole && (to == everything || to == 0 && zeroIsAll) {
				shown = "all"
			}
			m := move{
				name: rung.what + " (" + l.name + ")", step: fmt.Sprintf("%d -> %s", l.value, shown),
				axis: rung.axis, edits: []edit{c.replace(l.lit, text)},
				share: rung.share, trust: rung.trust,
			}
			raises := to > l.value || shown == "all"
			if raises {
				m.cures = rung.cures
				m.share *= 1 / float64(i+1)
				m.trust *= 1 / float64(i+1)
				m.why = because(d.evidence(rung.cures, rung.sign), fmt.Sprintf("set %s to %s instead of %d", l.name, shown, l.value))
			} else {
				m.trust *= .15
				m.why = because("", fmt.Sprintf("set %s to %s instead of %d, for less to read and fewer tokens", l.name, shown, l.value))
			}
			all = append(all, m)
		}
	}
	return all
}

// steps are the values to try for a limit, the most promising first, all within the
// ladder's bounds and different from the present one.
func steps(l limit, rung ladder, zeroIsAll bool) []int {
	v := l.value
	var tried []int
	switch l.role {
	case turnsRole:
		tried = []int{3 * v, 2 * v, v + 1, v - 1}
	case retriesRole:
		tried = []int{v + 1, v + 2, v - 1}
	case argRole:
		tried = []int{v + 1, v + 2, v - 1}
	case samplesRole:
		tried = []int{v + 2, v - 2}
	case tokensRole:
		tried = []int{2 * v, 4 * v, v / 2}
	case cutRole:
		switch {
		case zeroIsAll && v == 0:
			tried = []int{24}
		case zeroIsAll:
			tried = []int{0, 2 * v, 3 * v, v / 2}
		case v == 0:
			tried = []int{2, 4}
		default:
			tried = []int{everything, 2 * v, 3 * v, v / 2}
		}
	}
	var kept []int
	known := map[int]bool{v: true}
	for _, to := range tried {
		within := to >= rung.low && to <= rung.high
		if l.role == cutRole && to == 0 {
			within = zeroIsAll
		}
		if within && !known[to] {
			known[to] = true
			kept = append(kept, to)
		}
	}
	return kept
}

// zeroMeansAll tells whether the harness reads zero of a cut as "no cut": the number, or
// a parameter it is passed to, is compared with zero before a return of the uncut text,
// or the comment behind it says so.
func (c *source) zeroMeansAll(l limit) bool {
	holder := c.holder(l.lit)
	if holder == nil {
		return false
	}
	if spec, ok := c.parent[l.lit].(*ast.ValueSpec); ok && spec.Comment != nil {
		comment := strings.ReplaceAll(spec.Comment.Text(), " ", "")
		if strings.Contains(comment, "0=all") || strings.Contains(comment, "0=no") {
			return true
		}
	}
	found := false
	for id, used := range c.info.Uses {
		if used != c.info.Defs[holder] {
			continue
		}
		found = found || c.comparedWithZero(id)
		call, ok := c.parent[id].(*ast.CallExpr)
		if !ok {
			continue
		}
		fun, ok := call.Fun.(*ast.Ident)
		if !ok || c.function(fun.Name) == nil {
			continue
		}
		params := c.signature(c.function(fun.Name)).Params()
		for i, a := range call.Args {
			if a != ast.Expr(id) || i >= params.Len() {
				continue
			}
			for inner, object := range c.info.Uses {
				found = found || object == params.At(i) && c.comparedWithZero(inner)
			}
		}
	}
	return found
}

// comparedWithZero: `id == 0` or `id <= 0` as the condition of an if that returns.
func (c *source) comparedWithZero(id *ast.Ident) bool {
	cmp, ok := c.parent[id].(*ast.BinaryExpr)
	if !ok || cmp.X != ast.Expr(id) || (cmp.Op != token.EQL && cmp.Op != token.LEQ) {
		return false
	}
	zero, ok := cmp.Y.(*ast.BasicLit)
	branch, isIf := c.parent[cmp].(*ast.IfStmt)
	if !ok || zero.Value != "0" || !isIf || len(branch.Body.List) != 1 {
		return false
	}
	_, returns := branch.Body.List[0].(*ast.ReturnStmt)
	return returns
}
