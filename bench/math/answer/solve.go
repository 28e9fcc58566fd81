package answer

// solve is the interval that an inequality means whose one side is linear in one symbol,
// or the absolute value of that: `2x + 1 < 5`, `|x - 1| < 3`, `-1 \le 3 - x < 4`. Others
// stay as they are.
func (c *comparison) solve(n *node) *node {
	args, signs := n.args, n.relations
	for _, sign := range signs {
		if sign != "<" && sign != "≤" && sign != ">" && sign != "≥" {
			return n
		}
	}
	var solved *node
	switch {
	case len(args) == 3 && args[0].constant() && args[2].constant():
		solved = c.between(args, signs)
	case len(args) == 2 && args[1].constant():
		solved = c.bound(args[0], signs[0], args[1])
	case len(args) == 2 && args[0].constant():
		solved = c.bound(args[1], mirrored[signs[0]], args[0])
	}
	if solved == nil {
		return n
	}
	return solved
}

var mirrored = map[string]string{"<": ">", ">": "<", "≤": "≥", "≥": "≤"}

// between solves low < side < high.
func (c *comparison) between(args []*node, signs []string) *node {
	below := func(sign string) bool { return sign == "<" || sign == "≤" }
	low, high, first, last := args[0], args[2], signs[0], signs[1]
	switch {
	case below(first) != below(last):
		return nil
	case !below(first):
		low, high, first, last = high, low, mirrored[last], mirrored[first]
	}
	return c.interval(args[1], end{low, first == "≤"}, end{high, last == "≤"})
}

// bound solves side sign limit.
func (c *comparison) bound(side *node, sign string, limit *node) *node {
	minus, plus := end{at: apply(opNegate, apply(opInfinity))}, end{at: apply(opInfinity)}
	closed := sign == "≤" || sign == "≥"
	below := sign == "<" || sign == "≤"
	if side.op != opCall || side.name != "abs" {
		if below {
			return c.interval(side, minus, end{limit, closed})
		}
		return c.interval(side, end{limit, closed}, plus)
	}
	if v, err := c.at(limit, 0); err != nil || !v.isReal() || v.sign() <= 0 {
		return nil // always or never so
	}
	inner, low, high := side.args[0], end{apply(opNegate, limit), closed}, end{limit, closed}
	if below {
		return c.interval(inner, low, high)
	}
	left, right := c.interval(inner, minus, low), c.interval(inner, high, plus)
	if left == nil || right == nil {
		return nil
	}
	return apply(opUnion, left, right)
}

// end is one end of an interval, which it belongs to where it is closed.
type end struct {
	at     *node
	closed bool
}

// interval are the values of the one symbol of a linear side that lies between two ends.
func (c *comparison) interval(side *node, low, high end) *node {
	name, ok := onlySymbol(side)
	if !ok || !side.expression() {
		return nil
	}
	at := func(v int64) *node { return substitute(side, name, whole(v)) }
	slope := apply(opAdd, at(1), apply(opNegate, at(0)))
	next := apply(opAdd, at(2), apply(opNegate, at(1)))
	far := apply(opAdd, at(-6), apply(opNegate, at(-7)))
	if same, err := c.values(slope, next); err != nil || !same {
		return nil
	}
	if same, err := c.values(slope, far); err != nil || !same {
		return nil
	}
	v, err := c.at(slope, 0)
	if err != nil || !v.isReal() || v.sign() == 0 {
		return nil
	}
	solved := func(n *node) *node {
		switch sign := infinite(n); {
		case sign == 0:
			return apply(opDivide, apply(opAdd, n, apply(opNegate, at(0))), slope)
		case (sign > 0) == (v.sign() > 0):
			return apply(opInfinity)
		}
		return apply(opNegate, apply(opInfinity))
	}
	if v.sign() < 0 {
		low, high = high, low
	}
	brackets := map[bool]string{true: "[", false: "("}[low.closed] + map[bool]string{true: "]", false: ")"}[high.closed]
	return &node{op: opBracket, name: brackets, args: []*node{solved(low.at), solved(high.at)}}
}

// onlySymbol is the symbol of a node that has just one.
func onlySymbol(n *node) (name string, ok bool) {
	if n.op == opSymbol && !n.constant() {
		return n.name, true
	}
	for _, a := range n.args {
		if a.constant() {
			continue
		}
		other, one := onlySymbol(a)
		if !one || name != "" && other != name {
			return "", false
		}
		name = other
	}
	return name, name != ""
}

// substitute is a node with something in the place of a symbol.
func substitute(n *node, name string, by *node) *node {
	if n.op == opSymbol {
		if n.name == name {
			return by
		}
		return n
	}
	if n.constant() {
		return n
	}
	out := &node{op: n.op, name: n.name, relations: n.relations, rat: n.rat}
	for _, a := range n.args {
		out.args = append(out.args, substitute(a, name, by))
	}
	return out
}

// families makes two answers with a free parameter comparable: `k\pi, k \in Z`. The
// parameter's name has no meaning, and where only one of the two says what it runs over,
// that is left out.
func families(a, r *node) (*node, *node) {
	i, j := parameter(a), parameter(r)
	switch {
	case i < 0 && j < 0:
	case i < 0:
		r = without(r, j)
	case j < 0:
		a = without(a, i)
	default:
		mine, theirs := a.args[i].args[0], r.args[j].args[0]
		if mine.name != theirs.name && !mentions(a, theirs.name) {
			a = substitute(a, mine.name, theirs)
		}
	}
	return a, r
}

// parameter is the place of the only `k \in S` in a list, -1 for none.
func parameter(n *node) int {
	place := -1
	if n.op != opList || len(n.args) < 2 {
		return -1
	}
	for i, e := range n.args {
		if e.op == opRelation && len(e.args) == 2 && e.relations[0] == "∈" && e.args[0].op == opSymbol {
			if place >= 0 {
				return -1
			}
			place = i
		}
	}
	return place
}

// without is a list without one entry; the last that is left stands for itself.
func without(n *node, i int) *node {
	rest := append(append([]*node{}, n.args[:i]...), n.args[i+1:]...)
	if len(rest) == 1 {
		return rest[0]
	}
	return &node{op: n.op, name: n.name, args: rest}
}

func mentions(n *node, name string) bool {
	if n.op == opSymbol {
		return n.name == name
	}
	for _, a := range n.args {
		if mentions(a, name) {
			return true
		}
	}
	return false
}
