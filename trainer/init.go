package trainer

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// mimetic returns starting weights for a model that should soon learn to copy from its
// context (spec/nano.md section 2): values and output projections of a layer are a
// projector, and the first query head of each group asks for its own key. K*d may not
// exceed D.
func (m *Model) mimetic(seed uint64) ([]float32, error) {
	c := m.Config
	D, d, H, K := c.Hidden, c.HeadDim, c.Heads, c.KVHeads
	if K*d > D {
		return nil, fmt.Errorf("mimetic init: %d kv heads of %d do not fit into %d hidden: %w", K, d, D, checkpoint.ErrUnsupported)
	}
	w := newDraw(m, seed)
	wide := 0.6 / math.Sqrt(float64(D))
	w.normal(m.layout.embed, 0.1)
	for i, l := range m.layout.layers {
		full, ok := l.mixer.(attention)
		if !ok {
			return nil, fmt.Errorf("mimetic init: layer %d is %s: %w", i, c.Layers[i], checkpoint.ErrUnsupported)
		}
		q, k, v := w.projections(m, full)
		w.fillNormal(q, wide)
		w.fillNormal(k, wide)
		for j := range K {
			first := j * (H / K) * d * D
			copy(q[first:first+d*D], k[j*d*D:])
		}
		w.orthonormal(v, K*d, D)
		out := l.out.of(w.host)
		share := float32(1 / float64(H/K))
		for h := range H {
			for i := range d {
				row := v[(h/(H/K)*d+i)*D:]
				for n := range D {
					out[n*H*d+h*d+i] = share * row[n]
				}
			}
		}
		w.normal(l.gateUp, wide)
		w.normal(l.down, 0.6/math.Sqrt(float64(c.Intermediate))/math.Sqrt(2*float64(len(c.Layers))))
		w.norms(l, 1)
	}
	w.constant(m.layout.norm, 0.3)
	if !c.Tied {
		w.normal(m.layout.head, 0.1)
	}
	return w.host, nil
}

// gaussian returns weights that are all N(0, std), norm weights N(1, std).
func (m *Model) gaussian(seed uint64, std float64) []float32 {
	w := newDraw(m, seed)
	for _, t := range m.layout.tensors {
		w.normal(t.span, std)
		if len(t.Shape) == 1 {
			for i := range t.of(w.host) {
				w.host[t.at+i]++
			}
		}
	}
	return w.host
}

// draw fills an arena's layout on the host from one seeded stream.
type draw struct {
	host []float32
	rng  *rand.Rand
}

func newDraw(m *Model, seed uint64) *draw {
	return &draw{host: make([]float32, m.layout.size), rng: rand.New(rand.NewPCG(seed, 0x7768616c65))}
}

// of returns the part of a host arena that a span names.
func (s span) of(host []float32) []float32 { return host[s.at : s.at+s.n] }

func (w *draw) normal(s span, std float64) { w.fillNormal(s.of(w.host), std) }

func (w *draw) fillNormal(x []float32, std float64) {
	for i := range x {
		x[i] = float32(w.rng.NormFloat64() * std)
	}
}

func (w *draw) constant(s span, value float32) {
	x := s.of(w.host)
	for i := range x {
		x[i] = value
	}
}

func (w *draw) norms(l layer, value float32) {
	_, own := l.mixer.weights()
	for _, s := range append(own, l.norm1, l.norm2) {
		w.constant(s, value)
	}
}

// projections cuts the fused projection of an attention into q, k and v.
func (w *draw) projections(m *Model, l attention) (q, k, v []float32) {
	c := m.Config
	x := l.qkv.of(w.host)
	nq, nk := c.Heads*c.HeadDim*c.Hidden, c.KVHeads*c.HeadDim*c.Hidden
	return x[:nq], x[nq : nq+nk], x[nq+nk:]
}

// orthonormal fills x [rows, n], rows <= n, with random orthonormal rows: Gram-Schmidt in
// double precision, each row twice, since once leaves an error that grows with rows.
func (w *draw) orthonormal(x []float32, rows, n int) {
	basis := make([][]float64, rows)
	for r := range basis {
		row := make([]float64, n)
		for i := range row {
			row[i] = w.rng.NormFloat64()
		}
		for range 2 {
			for _, b := range basis[:r] {
				project(row, b)
			}
		}
		norm := math.Sqrt(dot(row, row))
		for i := range row {
			row[i] /= norm
			x[r*n+i] = float32(row[i])
		}
		basis[r] = row
	}
}

// project removes from x its part along the unit vector b.
func project(x, b []float64) {
	c := dot(x, b)
	for i := range x {
		x[i] -= c * b[i]
	}
}

func dot(x, y []float64) float64 {
	sum := 0.0
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}
