package answer

// regions tells whether an answer is a tuple, an interval, a union or an inequality.
func regions(n *node) bool {
	n = bare(n)
	return n.op == opBracket || n.op == opUnion || n.op == opRelation && region(n) != nil
}

// region is the interval that an inequality of one symbol means, the union of two for
// `x \ne 3`; nil for others.
func region(n *node) *node {
	if n.op != opRelation {
		return nil
	}
	low := func(sign string) bool { return sign == "<" || sign == "≤" }
	bracket := func(sign, open, closed string) string {
		if sign == "<" || sign == ">" {
			return open
		}
		return closed
	}
	minus, plus := apply(opNegate, apply(opInfinity)), apply(opInfinity)
	args, signs := n.args, n.relations
	if len(args) == 2 && signs[0] == "≠" && args[0].op == opSymbol {
		return apply(opUnion, &node{op: opBracket, name: "()", args: []*node{minus, args[1]}},
			&node{op: opBracket, name: "()", args: []*node{args[1], plus}})
	}
	for _, sign := range signs {
		if sign == "=" || sign == "≠" || sign == "∈" {
			return nil
		}
	}
	switch {
	case len(args) == 3 && args[1].op == opSymbol && low(signs[0]) == low(signs[1]):
		if !low(signs[0]) {
			args = []*node{args[2], args[1], args[0]}
			signs = []string{signs[1], signs[0]}
		}
		return &node{op: opBracket, name: bracket(signs[0], "(", "[") + bracket(signs[1], ")", "]"), args: []*node{args[0], args[2]}}
	case len(args) != 2:
		return nil
	case args[0].op == opSymbol && low(signs[0]):
		return &node{op: opBracket, name: "(" + bracket(signs[0], ")", "]"), args: []*node{minus, args[1]}}
	case args[0].op == opSymbol:
		return &node{op: opBracket, name: bracket(signs[0], "(", "[") + ")", args: []*node{args[1], plus}}
	case args[1].op == opSymbol && low(signs[0]):
		return &node{op: opBracket, name: bracket(signs[0], "(", "[") + ")", args: []*node{args[0], plus}}
	case args[1].op == opSymbol:
		return &node{op: opBracket, name: "(" + bracket(signs[0], ")", "]"), args: []*node{minus, args[0]}}
	}
	return nil
}

// pieces are the parts of a union. A list of inequalities is one too: `x < 1 or x > 2`.
func pieces(n *node) []*node {
	switch n.op {
	case opUnion:
		return n.args
	case opMeasured:
		return pieces(n.args[0])
	case opRelation:
		if r := region(n); r != nil {
			return pieces(r)
		}
	case opList, opSet:
		var list []*node
		for _, a := range n.args {
			list = append(list, pieces(a)...)
		}
		return list
	}
	return []*node{n}
}

// regionsEqual compares tuples, intervals and unions. The parts of a union have no order.
func (c *comparison) regionsEqual(a, r *node) (bool, error) {
	first, second := bare(a), bare(r)
	if first.op == opBracket && second.op == opBracket {
		return c.brackets(first, second)
	}
	return c.unordered(pieces(first), pieces(second), c.pieces)
}

// pieces compares two parts of unions.
func (c *comparison) pieces(a, r *node) (bool, error) {
	switch {
	case a.op == opBracket && r.op == opBracket:
		return c.brackets(a, r)
	case regions(a) || regions(r):
		return false, nil
	}
	return c.kinds(a, r)
}

// brackets compares in order. Two entries may be an interval, so their brackets have to be
// the same; longer ones are tuples, however they are written.
func (c *comparison) brackets(a, r *node) (bool, error) {
	if len(a.args) == 2 && a.name != r.name {
		return false, nil
	}
	return c.inOrder(a.args, r.args)
}

// lists compares lists and sets, in which order does not count. One value is a list of
// one, a value with ± a list of two.
func (c *comparison) lists(a, r *node) (bool, error) {
	if !c.unitsAgree(a, r) {
		return false, nil
	}
	first, second := bare(a), bare(r)
	left, err := spread(first)
	if err != nil {
		return false, err
	}
	right, err := spread(second)
	if err != nil {
		return false, err
	}
	if first.op == opSet || second.op == opSet {
		if left, err = c.distinct(left); err != nil {
			return false, err
		}
		if right, err = c.distinct(right); err != nil {
			return false, err
		}
	}
	return c.unordered(left, right, c.equal)
}

// spread are the elements of a list with ± written out.
func spread(n *node) ([]*node, error) {
	elements := []*node{n}
	if n.op == opList || n.op == opSet {
		elements = n.args
	}
	var list []*node
	for _, e := range elements {
		if !hasEither(e) {
			list = append(list, e)
			continue
		}
		if size(e) > maxTokens {
			return nil, ErrLarge
		}
		list = append(list, choose(e, 0), choose(e, 1))
	}
	if len(list) > 2*maxItems {
		return nil, ErrLarge
	}
	return list, nil
}

func size(n *node) int {
	total := 1
	for _, a := range n.args {
		total += size(a)
	}
	return total
}

// hasEither tells whether a ± is in a value.
func hasEither(n *node) bool {
	if n.op == opEither {
		return true
	}
	if n.op == opList || n.op == opSet || n.op == opBracket {
		return false
	}
	for _, a := range n.args {
		if hasEither(a) {
			return true
		}
	}
	return false
}

// choose writes every ± of a value as its first or second case.
func choose(n *node, which int) *node {
	if n.op == opEither {
		return choose(n.args[which], which)
	}
	chosen := &node{op: n.op, name: n.name, relations: n.relations, rat: n.rat}
	for _, a := range n.args {
		chosen.args = append(chosen.args, choose(a, which))
	}
	return chosen
}

// distinct drops repeated elements.
func (c *comparison) distinct(list []*node) ([]*node, error) {
	var kept []*node
	for _, n := range list {
		found := false
		for _, k := range kept {
			same, err := c.equal(n, k)
			if err != nil {
				return nil, err
			}
			if found = same; found {
				break
			}
		}
		if !found {
			kept = append(kept, n)
		}
	}
	return kept, nil
}

// unordered pairs elements off. Equality is transitive, so the first partner will do.
func (c *comparison) unordered(a, r []*node, equal func(a, r *node) (bool, error)) (bool, error) {
	if len(a) != len(r) {
		return false, nil
	}
	used := make([]bool, len(r))
	for _, n := range a {
		found := false
		for i, m := range r {
			if used[i] {
				continue
			}
			same, err := equal(n, m)
			if err != nil {
				return false, err
			}
			if same {
				used[i], found = true, true
				break
			}
		}
		if !found {
			return false, nil
		}
	}
	return true, nil
}
