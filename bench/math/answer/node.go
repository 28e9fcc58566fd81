package answer

import "math/big"

// op says what a node is.
type op byte

const (
	opNumber    op = iota // rat, perhaps written in a base (name)
	opSymbol              // name
	opInfinity            // positive; a negate above makes it negative
	opAdd                 // args
	opMultiply            // args
	opDivide              // args[0] / args[1]
	opPower               // args[0] ^ args[1]
	opNegate              // -args[0]
	opEither              // args[0] or args[1]: a sum or sign with ± in its two cases
	opCall                // function name of args
	opFactorial           // args[0]!
	opPercent             // args[0] %
	opDegree              // args[0] °
	opMeasured            // args[0] with the unit name
	opText                // name is its canonical form
	opList                // args, order is free
	opSet                 // args, order and repetition are free
	opBracket             // args in order between name[0] and name[1]
	opUnion               // args, order is free
	opRelation            // args joined by relations
	opMatrix              // args are rows, lists of cells
	opRatio               // args[0] : args[1] ...
)

// node is a parsed answer. Nodes live for one comparison; the samples are its memory.
type node struct {
	op        op
	args      []*node
	name      string
	relations []string // of opRelation
	rat       *big.Rat
	symbols   int // 0 = not yet looked, 1 = has none, 2 = has some

	samples [points]*sample
}

// sample is the value at one point.
type sample struct {
	value number
	err   error
}

func apply(o op, args ...*node) *node { return &node{op: o, args: args} }

func call(name string, args ...*node) *node { return &node{op: opCall, name: name, args: args} }

func whole(n int64) *node { return &node{op: opNumber, rat: big.NewRat(n, 1)} }

// constant tells whether a value does not depend on symbols. The imaginary unit, e and pi
// are no symbols.
func (n *node) constant() bool {
	if n.symbols == 0 {
		n.symbols = 1
		if n.op == opSymbol && n.name != "pi" && n.name != "e" && n.name != "i" {
			n.symbols = 2
		}
		for _, a := range n.args {
			if !a.constant() {
				n.symbols = 2
			}
		}
	}
	return n.symbols == 1
}

// expression tells whether a node has a single value.
func (n *node) expression() bool {
	switch n.op {
	case opNumber, opSymbol, opAdd, opMultiply, opDivide, opPower, opNegate, opCall, opFactorial, opPercent, opDegree:
		return true
	case opMeasured:
		return n.args[0].expression()
	}
	return false
}

// shape strips what a comparison of kinds has to see through: a unit around a list.
func (n *node) shape() op {
	if n.op == opMeasured {
		return n.args[0].op
	}
	return n.op
}
