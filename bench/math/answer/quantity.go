package answer

import (
	"math/big"
	"strings"
)

// unitsAgree tells whether two answers can mean the same unit.
func (c *comparison) unitsAgree(a, r *node) bool {
	x, y := measure(a), measure(r)
	return x.dimension == "" || y.dimension == "" || x.dimension == y.dimension
}

var degreeSize = big.NewRat(1, 1)

// measure is the unit of an answer.
func measure(n *node) unit {
	switch n.op {
	case opMeasured:
		return unitOf(n.name)
	case opPercent:
		return unit{"percent", big.NewRat(1, 100)}
	case opDegree:
		return unit{"angle", degreeSize}
	case opNegate:
		return measure(n.args[0])
	}
	return unit{}
}

// withoutUnit is the number as it is written before its unit.
func withoutUnit(n *node) *node {
	switch n.op {
	case opMeasured, opPercent, opDegree:
		return n.args[0]
	case opNegate:
		if inner := withoutUnit(n.args[0]); inner != n.args[0] {
			return apply(opNegate, inner)
		}
	}
	return n
}

// quantities compares numbers and formulas with their units: known units of one kind are
// converted, of two kinds are different, nouns are passed over.
func (c *comparison) quantities(a, r *node) (bool, error) {
	x, y := measure(a), measure(r)
	plainA, plainR := withoutUnit(a), withoutUnit(r)
	switch {
	case x.dimension != "" && y.dimension != "":
		if x.dimension != y.dimension {
			return false, nil
		}
		scaled := func(n *node, u unit) *node { return apply(opMultiply, n, &node{op: opNumber, rat: u.size}) }
		return c.values(scaled(plainA, x), scaled(plainR, y))
	case x.dimension == "percent" || y.dimension == "percent":
		return c.percents(a, r, plainA, plainR)
	case x.dimension == "angle" || y.dimension == "angle":
		if same, err := c.numbers(plainA, plainR); same || err != nil {
			return same, err
		}
		return c.values(a, r) // as radians
	}
	return c.numbers(plainA, plainR)
}

// percents compares when one side has a percent sign: the question may have asked for
// percent, so 50 and 0.5 both stand for 50 %. Below one percent only the value counts.
func (c *comparison) percents(a, r, plainA, plainR *node) (bool, error) {
	value := func(n, plain *node) *node {
		if measure(n).dimension == "percent" {
			return apply(opPercent, plain)
		}
		return plain
	}
	same, err := c.values(value(a, plainA), value(r, plainR))
	if same || err != nil {
		return same, err
	}
	if v, err := c.at(plainA, 0); err != nil || v.rat != nil && new(big.Rat).Abs(v.rat).Cmp(one) < 0 {
		return false, err
	}
	return c.values(plainA, plainR)
}

// numbers compares two values; a base written as an index has to agree, and `5 m` in
// plain letters is five.
func (c *comparison) numbers(a, r *node) (bool, error) {
	if a.op == opNumber && r.op == opNumber && a.name != "" && r.name != "" && a.name != r.name {
		return false, nil
	}
	if r.constant() && !a.constant() && a.op == opMultiply && a.args[1].op == opSymbol && strings.Contains("m g s h L l", a.args[1].name) {
		a = a.args[0]
	}
	return c.values(a, r)
}
