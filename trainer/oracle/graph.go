package oracle

import (
	"fmt"
	"math"

	g "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// graph is the loss of one row as an expression of weights and constants. Every
// node is named, because Gorgonia takes nodes that look alike for one. Weights
// are stored transposed, [in, out], so that no transposition is needed: T rows,
// D hidden, d head.
type graph struct {
	c       checkpoint.Config
	expr    *g.ExprGraph
	weights map[string]*g.Node
	order   []string // of weights
	names   int
	err     error
}

// headCopy is the embedding in its role as the head of a tied model; the two
// gradients are added afterwards.
const headCopy = "tied head"

// fresh gives a name that no other node has.
func (b *graph) fresh(what string) string {
	b.names++
	return fmt.Sprintf("%s %d", what, b.names)
}

// matrix adds a node with values.
func (b *graph) matrix(name string, rows, columns int, values []float64) *g.Node {
	t := tensor.New(tensor.WithShape(rows, columns), tensor.WithBacking(values))
	return g.NewMatrix(b.expr, tensor.Float64, g.WithShape(rows, columns), g.WithName(name), g.WithValue(t))
}

// constant makes a matrix from a formula.
func (b *graph) constant(what string, rows, columns int, at func(r, c int) float64) *g.Node {
	values := make([]float64, rows*columns)
	for i := range values {
		values[i] = at(i/columns, i%columns)
	}
	return b.matrix(b.fresh(what), rows, columns, values)
}

func (b *graph) same(what string, rows, columns int, x float64) *g.Node {
	return b.constant(what, rows, columns, func(int, int) float64 { return x })
}

// keep records the first error of building.
func (b *graph) keep(n *g.Node, err error) *g.Node {
	if b.err == nil {
		b.err = err
	}
	return n
}

// binary applies an operator unless something failed before.
func (b *graph) binary(op func(x, y *g.Node, _ ...byte) (*g.Node, error), x, y *g.Node) *g.Node {
	if b.err != nil {
		return x
	}
	return b.keep(op(x, y))
}

func (b *graph) unary(op func(x *g.Node) (*g.Node, error), x *g.Node) *g.Node {
	if b.err != nil {
		return x
	}
	return b.keep(op(x))
}

func product(x, y *g.Node, _ ...byte) (*g.Node, error)  { return g.Mul(x, y) }
func sum(x, y *g.Node, _ ...byte) (*g.Node, error)      { return g.Add(x, y) }
func minus(x, y *g.Node, _ ...byte) (*g.Node, error)    { return g.Sub(x, y) }
func scaled(x, y *g.Node, _ ...byte) (*g.Node, error)   { return g.HadamardProd(x, y) }
func quotient(x, y *g.Node, _ ...byte) (*g.Node, error) { return g.HadamardDiv(x, y) }

func (b *graph) mul(x, y *g.Node) *g.Node { return b.binary(product, x, y) }

// weight adds a tensor [out, in] transposed.
func (b *graph) weight(name string, w []float64, out, in int) *g.Node {
	values := make([]float64, len(w))
	for i, x := range w {
		values[i%in*out+i/in] = x
	}
	n := b.matrix(name, in, out, values)
	b.weights[name] = n
	b.order = append(b.order, name)
	return n
}

// norm is RMSNorm of x [T, n] with a weight node [1, n].
func (b *graph) norm(x, weight *g.Node, T, n int) *g.Node {
	mean := b.mul(b.binary(scaled, x, x), b.same("mean", n, n, 1/float64(n)))
	root := b.unary(g.Sqrt, b.binary(sum, mean, b.same("eps", T, n, b.c.RMSEps)))
	return b.binary(scaled, b.binary(quotient, x, root), b.mul(b.same("rows", T, 1, 1), weight))
}

// rotate is RoPE of a head x [T, d].
func (b *graph) rotate(x *g.Node, T int) *g.Node {
	d := b.c.HeadDim
	angle := func(t, i int) float64 {
		return float64(t) * math.Pow(b.c.RopeTheta, -2*float64(i%(d/2))/float64(d))
	}
	cos := b.constant("cos", T, d, func(t, i int) float64 { return math.Cos(angle(t, i)) })
	sin := b.constant("sin", T, d, func(t, i int) float64 { return math.Sin(angle(t, i)) })
	turn := b.constant("turn", d, d, func(r, c int) float64 {
		switch {
		case c < d/2 && r == c+d/2:
			return -1
		case c >= d/2 && r == c-d/2:
			return 1
		}
		return 0
	})
	return b.binary(sum, b.binary(scaled, x, cos), b.binary(scaled, b.mul(x, turn), sin))
}

// pick is the matrix that takes head h out of several: [heads*d, d].
func (b *graph) pick(heads, h int) *g.Node {
	d := b.c.HeadDim
	return b.constant("pick", heads*d, d, func(r, c int) float64 { return indicator(r == h*d+c) })
}

// put is its transpose: [d, heads*d].
func (b *graph) put(heads, h int) *g.Node {
	d := b.c.HeadDim
	return b.constant("put", d, heads*d, func(r, c int) float64 { return indicator(c == h*d+r) })
}

func indicator(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// pairs are the places (t, s) with s <= t, in order: those that attention
// looks at. A matrix [pairs, ...] holds one row for each.
type pairs struct {
	T     int
	place [][2]int
}

func newPairs(T int) pairs {
	p := pairs{T: T}
	for t := range T {
		for s := range t + 1 {
			p.place = append(p.place, [2]int{t, s})
		}
	}
	return p
}

// attention is causal attention of x [T, D], output projection included. No
// transposition and no mask: everything is laid out over the pairs.
func (b *graph) attention(x *g.Node, part func(name string) *g.Node, T int) *g.Node {
	c := b.c
	d := c.HeadDim
	q := b.mul(x, part("self_attn.q_proj"))
	k := b.mul(x, part("self_attn.k_proj"))
	v := b.mul(x, part("self_attn.v_proj"))
	var qNorm, kNorm *g.Node
	if c.QKNorm {
		qNorm, kNorm = part("self_attn.q_norm"), part("self_attn.k_norm")
	}
	head := func(x *g.Node, heads, h int, weight *g.Node) *g.Node {
		x = b.mul(x, b.pick(heads, h))
		if weight != nil {
			x = b.norm(x, weight, T, d)
		}
		return b.rotate(x, T)
	}
	var out *g.Node
	for h := range c.Heads {
		kv := h / (c.Heads / c.KVHeads)
		o := b.attend(head(q, c.Heads, h, qNorm), head(k, c.KVHeads, kv, kNorm), b.mul(v, b.pick(c.KVHeads, kv)), newPairs(T))
		o = b.mul(o, b.put(c.Heads, h))
		if out == nil {
			out = o
		} else {
			out = b.binary(sum, out, o)
		}
	}
	return b.mul(out, part("self_attn.o_proj"))
}

// attend is one head: q, k, v [T, d].
func (b *graph) attend(q, k, v *g.Node, p pairs) *g.Node {
	n, d := len(p.place), b.c.HeadDim
	queries := b.constant("queries", n, p.T, func(r, t int) float64 { return indicator(p.place[r][0] == t) })
	gather := b.constant("gather", p.T, n, func(t, r int) float64 { return indicator(p.place[r][0] == t) })
	keys := b.constant("keys", n, p.T, func(r, s int) float64 { return indicator(p.place[r][1] == s) })
	scores := b.mul(b.binary(scaled, b.mul(queries, q), b.mul(keys, k)), b.same("scale", d, 1, 1/math.Sqrt(float64(d))))
	mass := b.unary(g.Exp, scores) // [pairs, 1]; toy models have small scores, so none overflows
	share := b.binary(quotient, mass, b.mul(queries, b.mul(gather, mass)))
	return b.mul(gather, b.binary(scaled, b.mul(share, b.same("columns", 1, d, 1)), b.mul(keys, v)))
}

// mlp is the gated MLP of x [T, D].
func (b *graph) mlp(x *g.Node, part func(name string) *g.Node, T int) *g.Node {
	I := b.c.Intermediate
	gate, up := b.mul(x, part("mlp.gate_proj")), b.mul(x, part("mlp.up_proj"))
	decay := b.unary(g.Exp, b.binary(scaled, gate, b.same("minus", T, I, -1)))
	silu := b.binary(quotient, gate, b.binary(sum, decay, b.same("one", T, I, 1)))
	return b.mul(b.binary(scaled, silu, up), part("mlp.down_proj"))
}

// build makes the loss of a row: sum(weight * nll).
func (b *graph) build(w Weights, row Row) *g.Node {
	c, T := b.c, len(row.IDs)-1
	shapes := map[string][2]int{}
	for _, t := range c.Tensors() {
		shape := [2]int{t.Shape[0], 1}
		if len(t.Shape) == 2 {
			shape[1] = t.Shape[1]
		}
		shapes[t.Name] = shape
	}
	named := func(name string) *g.Node { return b.weight(name, w[name], shapes[name][0], shapes[name][1]) }
	// The embedding is looked up by rows, so it is stored as it is, [V, D].
	table := b.matrix(checkpoint.EmbedName, c.Vocab, c.Hidden, append([]float64(nil), w[checkpoint.EmbedName]...))
	b.weights[checkpoint.EmbedName] = table
	b.order = append(b.order, checkpoint.EmbedName)
	x := b.mul(b.constant("ids", T, c.Vocab, func(t, id int) float64 { return indicator(int(row.IDs[t]) == id) }), table)
	for i := range c.Layers {
		part := func(name string) *g.Node { return named(checkpoint.LayerName(i, name)) }
		x = b.binary(sum, x, b.attention(b.norm(x, part("input_layernorm"), T, c.Hidden), part, T))
		x = b.binary(sum, x, b.mlp(b.norm(x, part("post_attention_layernorm"), T, c.Hidden), part, T))
	}
	x = b.norm(x, named(checkpoint.NormName), T, c.Hidden)
	var head *g.Node
	if c.Tied {
		head = b.weight(headCopy, w[checkpoint.EmbedName], c.Vocab, c.Hidden)
	} else {
		head = named(checkpoint.HeadName)
	}
	z := b.mul(x, head) // [T, V]
	logs := b.unary(g.Log, b.mul(b.unary(g.Exp, z), b.same("ids of all", c.Vocab, 1, 1)))
	weights := b.constant("weights", 1, T, func(_, t int) float64 { return row.Weights[t+1] })
	targets := b.constant("targets", T, c.Vocab, func(t, id int) float64 { return row.Weights[t+1] * indicator(int(row.IDs[t+1]) == id) })
	chosen := b.mul(b.same("rows of one", 1, T, 1), b.mul(b.binary(scaled, z, targets), b.same("columns of one", c.Vocab, 1, 1)))
	return b.unary(func(x *g.Node) (*g.Node, error) { return g.Sum(x) }, b.binary(minus, b.mul(weights, logs), chosen))
}
