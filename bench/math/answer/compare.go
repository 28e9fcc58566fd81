package answer

// comparison counts the work of comparing two answers.
type comparison struct{ work int }

// equal compares an answer with a reference.
func (c *comparison) equal(a, r *node) (bool, error) {
	a, r = families(a, r)
	if r.op != opRelation {
		a = c.value(a)
	} else if a.op != opRelation {
		if named, ok := c.named(r); ok {
			r = named
		} else {
			r = c.span(r)
		}
	}
	if a.op == opRelation && r.op == opRelation {
		same, err := c.relations(a, r)
		if same || err != nil {
			return same, err
		}
		first, second := c.span(a), c.span(r)
		if first == a && second == r {
			return false, nil
		}
		return c.equal(first, second)
	}
	return c.kinds(a, r)
}

// kinds compares by what the two are.
func (c *comparison) kinds(a, r *node) (bool, error) {
	if c.work++; c.work > maxWork {
		return false, ErrLarge
	}
	if regions(a) || regions(r) {
		return c.regionsEqual(a, r)
	}
	list := func(n *node) bool { s := n.shape(); return s == opList || s == opSet }
	either := hasEither(a) || hasEither(r)
	switch {
	case infinite(a) != 0 || infinite(r) != 0:
		return infinite(a) == infinite(r), nil
	case list(a) || list(r) || either:
		return c.lists(a, r)
	case a.shape() == opRatio || r.shape() == opRatio:
		return c.ratios(a, r)
	case a.op == opMatrix && r.op == opMatrix:
		return c.matrices(a, r)
	case a.expression() && r.expression():
		return c.quantities(a, r)
	case a.op == opMeasured || r.op == opMeasured: // a unit around something else
		return c.kinds(bare(a), bare(r))
	case a.op == opRelation && r.op == opRelation: // one inside another value
		return false, ErrSyntax
	}
	return false, nil
}

// infinite is the sign of an infinity, 0 for anything else.
func infinite(n *node) int {
	switch n.op {
	case opInfinity:
		return 1
	case opNegate:
		return -infinite(n.args[0])
	case opMeasured:
		return infinite(n.args[0])
	}
	return 0
}

// value strips what an answer says beside its value: `x = 5`, `x \in S`, `2 + 3 = 5`,
// `x > 2` as the interval it means.
func (c *comparison) value(n *node) *node {
	if n.op != opRelation {
		return n
	}
	if named, ok := c.named(n); ok {
		return named
	}
	if last := c.chain(n); last != n {
		return last
	}
	return c.span(n)
}

// chain is the last part of `a = b = c` when that is a constant with which every constant
// before it agrees, otherwise the chain.
func (c *comparison) chain(n *node) *node {
	last := n.args[len(n.args)-1]
	if !allRelations(n, "=") || !last.constant() {
		return n
	}
	for _, side := range n.args[:len(n.args)-1] {
		if !side.constant() {
			continue
		}
		if same, err := c.kinds(side, last); err != nil || !same {
			return n
		}
	}
	return last
}

// span is what a relation alone says: the value of a chain of constants, the interval of
// an inequality, the set of `x \in S`. Others stay as they are.
func (c *comparison) span(n *node) *node {
	if len(n.args) == 2 && n.relations[0] == "∈" && n.args[0].op == opSymbol {
		return n.args[1]
	}
	if n.constant() {
		return c.chain(n)
	}
	if interval := region(n); interval != nil {
		return interval
	}
	return c.solve(n)
}

// named is the right side of `x = ...`, `f(x) = ...` and `x \in ...`.
func (c *comparison) named(n *node) (*node, bool) {
	if len(n.args) != 2 {
		return nil, false
	}
	left, right := n.args[0], n.args[1]
	if right.op == opSymbol && left.constant() { // 5 = x
		left, right = right, left
	}
	function := left.op == opMultiply && left.args[0].op == opSymbol && (left.args[1].op == opSymbol || left.args[1].op == opBracket)
	if n.relations[0] != "=" || left.op != opSymbol && !function {
		return nil, false
	}
	return right, true
}

func allRelations(n *node, sign string) bool {
	for _, r := range n.relations {
		if r != sign {
			return false
		}
	}
	return true
}

// relations compares equations up to a constant factor and inequalities up to a positive
// one.
func (c *comparison) relations(a, r *node) (bool, error) {
	if len(a.args) != 2 || len(r.args) != 2 {
		return c.chains(a, r)
	}
	first, second := a.relations[0], r.relations[0]
	left, right := difference(a), difference(r)
	for _, flip := range []struct {
		sign *string
		side *node
	}{{&first, left}, {&second, right}} {
		if *flip.sign == ">" || *flip.sign == "≥" {
			*flip.sign = map[string]string{">": "<", "≥": "≤"}[*flip.sign]
			flip.side.args[0], flip.side.args[1] = apply(opNegate, flip.side.args[0]), apply(opNegate, flip.side.args[1])
		}
	}
	if first != second {
		return false, nil
	}
	if first == "∈" {
		same, err := c.kinds(a.args[0], r.args[0])
		if err != nil || !same {
			return same, err
		}
		return c.kinds(a.args[1], r.args[1])
	}
	if !expressions(a) || !expressions(r) {
		same, err := c.kinds(a.args[0], r.args[0])
		if err != nil || !same {
			return same, err
		}
		return c.kinds(a.args[1], r.args[1])
	}
	return c.proportional(left, right, first == "<" || first == "≤")
}

func expressions(n *node) bool {
	for _, a := range n.args {
		if !a.expression() || hasEither(a) {
			return false
		}
	}
	return true
}

// difference is left minus right of a relation.
func difference(n *node) *node {
	return apply(opAdd, n.args[0], apply(opNegate, n.args[1]))
}

// chains compares longer relations side by side, in either direction.
func (c *comparison) chains(a, r *node) (bool, error) {
	if len(a.args) != len(r.args) {
		return false, nil
	}
	mirror := map[string]string{"<": ">", ">": "<", "≤": "≥", "≥": "≤"}
	for _, back := range []bool{false, true} {
		equal := true
		for i := range a.args {
			j := i
			if back {
				j = len(a.args) - 1 - i
			}
			same, err := c.kinds(a.args[i], r.args[j])
			if err != nil {
				return false, err
			}
			equal = equal && same
		}
		for i := range a.relations {
			if !back {
				equal = equal && a.relations[i] == r.relations[i]
				continue
			}
			sign := r.relations[len(a.relations)-1-i]
			if m := mirror[sign]; m != "" {
				sign = m
			}
			equal = equal && a.relations[i] == sign
		}
		if equal {
			return true, nil
		}
	}
	return false, nil
}

// proportional tells whether two expressions have a constant quotient at all points, the
// same sign of it when it matters.
func (c *comparison) proportional(a, b *node, oriented bool) (bool, error) {
	var factor *number
	agreed := 0
	var last error
	for point := range points {
		x, first := c.at(a, point)
		y, second := c.at(b, point)
		if first != nil || second != nil {
			if last = first; last == nil {
				last = second
			}
			continue
		}
		if x.isZero() || y.isZero() {
			if x.isZero() != y.isZero() {
				return false, nil
			}
			continue
		}
		q, err := divide(x, y)
		if err != nil {
			return false, err
		}
		if factor == nil {
			factor = &q
		}
		if !same(*factor, q) {
			return false, nil
		}
		agreed++
	}
	switch {
	case agreed < 3 && last != nil:
		return false, last
	case agreed == 0: // the two sides are the same everywhere, in both relations
		return true, nil
	}
	return !oriented || factor.isReal() && factor.sign() > 0, nil
}

// matrices compares cell by cell.
func (c *comparison) matrices(a, r *node) (bool, error) {
	if len(a.args) != len(r.args) {
		return false, nil
	}
	for i := range a.args {
		if same, err := c.inOrder(a.args[i].args, r.args[i].args); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// inOrder compares two sequences.
func (c *comparison) inOrder(a, r []*node) (bool, error) {
	if len(a) != len(r) {
		return false, nil
	}
	for i := range a {
		if same, err := c.equal(a[i], r[i]); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// ratios compares a:b:c up to a common factor, and a:b with a fraction. Times of day are
// compared as they are written.
func (c *comparison) ratios(a, r *node) (bool, error) {
	first, second := bare(a), bare(r)
	if first.op == opRatio && second.op == opRatio {
		if !c.unitsAgree(a, r) {
			return false, nil
		}
		if first.name != "" || second.name != "" {
			return c.inOrder(first.args, second.args)
		}
		if len(first.args) != len(second.args) {
			return false, nil
		}
		for i := range first.args[1:] {
			x := apply(opMultiply, first.args[0], second.args[i+1])
			y := apply(opMultiply, second.args[0], first.args[i+1])
			if same, err := c.values(x, y); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	}
	fraction := func(n *node) *node {
		if n.op == opRatio && len(n.args) == 2 && n.name == "" {
			return apply(opDivide, n.args[0], n.args[1])
		}
		return n
	}
	first, second = fraction(first), fraction(second)
	if !first.expression() || !second.expression() {
		return false, nil
	}
	return c.values(first, second)
}
