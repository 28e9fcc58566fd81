package answer

import (
	"hash/fnv"
	"math/big"
)

// points at which formulas with symbols are compared. At the first ones every symbol is
// positive, at the next one all are negative, at the last one some are.
const (
	points   = 6
	positive = 4
)

// functionWork is what a function or power costs in additions; the slowest are the inverse
// trigonometric ones with about 0.1 ms.
const functionWork = 250

// at evaluates a node at a point and remembers it. Constants have one value for all.
func (c *comparison) at(n *node, point int) (number, error) {
	if n.constant() {
		point = 0
	}
	if s := n.samples[point]; s != nil {
		return s.value, s.err
	}
	if c.work++; c.work > maxWork {
		return number{}, ErrLarge
	}
	value, err := c.evaluate(n, point)
	if err == nil && n.constant() && value.rat == nil {
		for _, f := range []*big.Float{value.re, value.im} {
			if f.Sign() != 0 && f.MantExp(nil) > maxExponent {
				err = ErrLarge
			}
		}
	}
	if err == nil && value.rat != nil { // wide numbers cost more
		c.work += (value.rat.Num().BitLen() + value.rat.Denom().BitLen()) / 32
	}
	n.samples[point] = &sample{value, err}
	return value, err
}

func (c *comparison) evaluate(n *node, point int) (number, error) {
	switch n.op {
	case opNumber:
		return number{rat: n.rat}, nil
	case opSymbol:
		return symbolValue(n.name, point)
	case opMeasured:
		return c.at(n.args[0], point)
	}
	if !n.expression() {
		return number{}, ErrSyntax
	}
	values := make([]number, len(n.args))
	for i, a := range n.args {
		var err error
		if values[i], err = c.at(a, point); err != nil {
			return number{}, err
		}
	}
	switch n.op {
	case opAdd:
		return add(values[0], values[1])
	case opMultiply:
		return multiply(values[0], values[1])
	case opDivide:
		return divide(values[0], values[1])
	case opNegate:
		return negate(values[0]), nil
	case opPower:
		c.work += functionWork
		return c.power(n, values)
	case opFactorial:
		c.work += 100
		return factorial(values[0])
	case opPercent:
		return multiply(values[0], number{rat: big.NewRat(1, 100)})
	case opDegree:
		return multiply(values[0], realNumber(newFloat().Quo(constantPi(), newFloat().SetInt64(180))))
	}
	c.work += functionWork
	if n.name == "binom" && values[1].rat != nil && values[1].rat.IsInt() && values[1].rat.Num().IsInt64() {
		c.work += 4 * int(min(abs(values[1].rat.Num().Int64()), maxFactorial))
	}
	return callFunction(n.name, values)
}

func abs(n int64) int64 {
	return max(n, -n, 0) // the smallest one has no positive partner
}

// power takes e^x through the series, so that e^{i\pi} has a value.
func (c *comparison) power(n *node, values []number) (number, error) {
	if base := n.args[0]; base.op == opSymbol && base.name == "e" {
		return exponential(values[1])
	}
	return power(values[0], values[1])
}

// symbolValue is what a symbol stands for at a point: a number that only its name and
// the point decide, so that two answers mean the same by it.
func symbolValue(name string, point int) (number, error) {
	switch name {
	case "pi":
		return realNumber(newFloat().Set(constantPi())), nil
	case "e":
		return exponential(number{rat: one})
	case "i":
		return number{re: newFloat(), im: newFloat().SetInt64(1)}, nil
	}
	h := fnv.New64a()
	// A hash never fails to write.
	_, _ = h.Write([]byte(name))
	_, _ = h.Write([]byte{byte(point)})
	sum := h.Sum64()
	// 0.3 to 2.5 in steps that no short formula hits.
	value := newFloat().SetRat(big.NewRat(int64(3000+sum%22000)*7+1, 70007))
	if point == positive || point > positive && sum>>40%2 == 0 {
		value.Neg(value)
	}
	return realNumber(value), nil
}

// values compares two expressions point by point. It needs two points with positive
// symbols at which both have a value; where neither has one, the point says nothing.
func (c *comparison) values(a, b *node) (bool, error) {
	n := points
	if a.constant() && b.constant() {
		n = 1
	}
	agreed := 0
	var last error
	for point := range n {
		x, first := c.at(a, point)
		y, second := c.at(b, point)
		switch {
		case first != nil && second != nil:
			last = first
		case first != nil || second != nil:
			if last = first; last == nil {
				last = second
			}
			if point < positive {
				return false, last
			}
		case !same(x, y):
			return false, nil
		case point < positive:
			agreed++
		}
	}
	if agreed < min(2, n) {
		return false, last
	}
	return true, nil
}
