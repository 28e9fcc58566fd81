package oracle

import (
	"errors"
	"fmt"
	"math"

	// Only to hold its version in go.mod: the one that Gorgonia asks for ends the program
	// before main on a Go that it does not know.
	_ "go4.org/unsafe/assume-no-moving-gc"
	g "gorgonia.org/gorgonia"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// ErrDisagree: the graph's loss is not that of the forward pass in plain Go, so its
// gradients mean nothing.
var ErrDisagree = errors.New("oracle: graph and plain forward disagree")

// agreement bounds the relative difference of the two losses.
const agreement = 1e-10

// Gradients returns sum(weight * nll) of a row and its gradient by every tensor
// of the config, in the layout of w, which is not changed.
func Gradients(c checkpoint.Config, w Weights, row Row) (float64, Weights, error) {
	want, err := Loss(c, w, row)
	if err != nil {
		return 0, nil, err
	}
	b := &graph{c: c, expr: g.NewGraph(), weights: map[string]*g.Node{}}
	loss := b.build(w, row)
	if b.err != nil {
		return 0, nil, fmt.Errorf("oracle: building the graph: %w", b.err)
	}
	values, err := b.run(loss, want)
	if err != nil {
		return 0, nil, err
	}
	out := Weights{}
	for _, t := range c.Tensors() {
		out[t.Name] = values[t.Name]
		if len(t.Shape) == 2 && t.Name != checkpoint.EmbedName {
			out[t.Name] = transposed(values[t.Name], t.Shape[1], t.Shape[0])
		}
	}
	if c.Tied {
		add(out[checkpoint.EmbedName], transposed(values[headCopy], c.Hidden, c.Vocab))
	}
	return want, out, nil
}

// run differentiates, executes once, and returns the gradients as stored.
func (b *graph) run(loss *g.Node, want float64) (Weights, error) {
	nodes := make(g.Nodes, len(b.order))
	for i, name := range b.order {
		nodes[i] = b.weights[name]
	}
	grads, err := g.Grad(loss, nodes...)
	if err != nil {
		return nil, fmt.Errorf("oracle: differentiation: %w", err)
	}
	read := make([]g.Value, len(grads))
	for i, n := range grads {
		g.Read(n, &read[i])
	}
	var total g.Value
	g.Read(loss, &total)
	vm := g.NewTapeMachine(b.expr)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		return nil, fmt.Errorf("oracle: execution: %w", err)
	}
	if got, ok := total.Data().(float64); !ok || !(math.Abs(got-want) <= agreement*math.Abs(want)) {
		return nil, fmt.Errorf("loss %v, plain forward %v: %w", total, want, ErrDisagree)
	}
	out := Weights{}
	for i, name := range b.order {
		values, ok := read[i].Data().([]float64)
		if !ok {
			return nil, fmt.Errorf("oracle: gradient of %s is %T", name, read[i].Data())
		}
		out[name] = append([]float64(nil), values...)
	}
	return out, nil
}

// transposed turns [rows, columns] into [columns, rows].
func transposed(x []float64, rows, columns int) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i%columns*rows+i/columns] = v
	}
	return out
}
