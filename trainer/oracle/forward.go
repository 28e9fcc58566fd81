package oracle

import (
	"fmt"
	"math"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// Weights are the tensors of a model by name, row-major.
type Weights map[string][]float64

// Row is one sequence: Weights[t] is the weight of predicting IDs[t]; Weights[0] is 0.
type Row struct {
	IDs     []int32
	Weights []float64
}

// check verifies that weights and row fit the config.
func check(c checkpoint.Config, w Weights, row Row) error {
	if err := c.Check(); err != nil {
		return err
	}
	for _, t := range c.Tensors() {
		if len(w[t.Name]) != t.Elements() {
			return fmt.Errorf("tensor %q has %d values, %v needs %d: %w", t.Name, len(w[t.Name]), t.Shape, t.Elements(), checkpoint.ErrFormat)
		}
	}
	if len(row.IDs) < 2 || len(row.Weights) != len(row.IDs) {
		return fmt.Errorf("row of %d ids and %d weights", len(row.IDs), len(row.Weights))
	}
	for _, id := range row.IDs {
		if id < 0 || int(id) >= c.Vocab {
			return fmt.Errorf("id %d of a vocabulary of %d", id, c.Vocab)
		}
	}
	return nil
}

// Loss is sum(weight * negative log-likelihood) of a row, in plain Go.
func Loss(c checkpoint.Config, w Weights, row Row) (float64, error) {
	if err := check(c, w, row); err != nil {
		return 0, err
	}
	x := embed(c, w, row.IDs[:len(row.IDs)-1])
	for i := range c.Layers {
		part := func(name string) []float64 { return w[checkpoint.LayerName(i, name)] }
		mix(c, part, x)
		for t := range x {
			h := normed(x[t], part("post_attention_layernorm"), c.RMSEps)
			gate, up := times(part("mlp.gate_proj"), h), times(part("mlp.up_proj"), h)
			for j, g := range gate {
				up[j] *= g / (1 + math.Exp(-g))
			}
			add(x[t], times(part("mlp.down_proj"), up))
		}
	}
	head := w[checkpoint.HeadName]
	if c.Tied {
		head = w[checkpoint.EmbedName]
	}
	loss := 0.0
	for t := range x {
		z := times(head, normed(x[t], w[checkpoint.NormName], c.RMSEps))
		loss += row.Weights[t+1] * (logSum(z) - z[row.IDs[t+1]])
	}
	return loss, nil
}

func embed(c checkpoint.Config, w Weights, ids []int32) [][]float64 {
	x := make([][]float64, len(ids))
	for t, id := range ids {
		x[t] = append([]float64(nil), w[checkpoint.EmbedName][int(id)*c.Hidden:][:c.Hidden]...)
	}
	return x
}

// mix adds causal attention over all rows of x to x.
func mix(c checkpoint.Config, part func(string) []float64, x [][]float64) {
	d := c.HeadDim
	var keys, values [][]float64
	sums := make([][]float64, len(x)) // added only after all rows were read
	for t := range x {
		h := normed(x[t], part("input_layernorm"), c.RMSEps)
		query, key := times(part("self_attn.q_proj"), h), times(part("self_attn.k_proj"), h)
		keys = append(keys, positioned(c, key, part("self_attn.k_norm"), t))
		values = append(values, times(part("self_attn.v_proj"), h))
		query = positioned(c, query, part("self_attn.q_norm"), t)
		out := make([]float64, len(query))
		for head := range c.Heads {
			at := head / (c.Heads / c.KVHeads) * d
			scores := make([]float64, t+1)
			for s := range scores {
				for j := range d {
					scores[s] += query[head*d+j] * keys[s][at+j] / math.Sqrt(float64(d))
				}
			}
			total := logSum(scores)
			for s, score := range scores {
				for j := range d {
					out[head*d+j] += math.Exp(score-total) * values[s][at+j]
				}
			}
		}
		sums[t] = times(part("self_attn.o_proj"), out)
	}
	for t := range x {
		add(x[t], sums[t])
	}
}

// positioned norms every head of x, when the model does, and rotates it to position t.
func positioned(c checkpoint.Config, x, weight []float64, t int) []float64 {
	d := c.HeadDim
	out := make([]float64, 0, len(x))
	for at := 0; at < len(x); at += d {
		head := x[at : at+d]
		if c.QKNorm {
			head = normed(head, weight, c.RMSEps)
		}
		turned := make([]float64, d)
		for i := range d / 2 {
			sin, cos := math.Sincos(float64(t) * math.Pow(c.RopeTheta, -2*float64(i)/float64(d)))
			turned[i] = head[i]*cos - head[i+d/2]*sin
			turned[i+d/2] = head[i+d/2]*cos + head[i]*sin
		}
		out = append(out, turned...)
	}
	return out
}

func normed(x, weight []float64, eps float64) []float64 {
	square := 0.0
	for _, v := range x {
		square += v * v
	}
	scale := 1 / math.Sqrt(square/float64(len(x))+eps)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = weight[i] * v * scale
	}
	return out
}

// times is W x for W [rows, len(x)].
func times(w, x []float64) []float64 {
	out := make([]float64, len(w)/len(x))
	for r := range out {
		for i, v := range x {
			out[r] += w[r*len(x)+i] * v
		}
	}
	return out
}

func add(x, y []float64) {
	for i := range x {
		x[i] += y[i]
	}
}

func logSum(z []float64) float64 {
	top := math.Inf(-1)
	for _, v := range z {
		top = max(top, v)
	}
	sum := 0.0
	for _, v := range z {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}
