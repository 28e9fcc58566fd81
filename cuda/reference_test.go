package cuda

import "math"

// Double-precision references of all operators, written from the formulas of
// spec/models.md 1 and spec/rsft.md 2 and 3, on dense matrices.

func refMatMul(y, x, w []float64, T, N, M int) {
	for t := range T {
		for n := range N {
			for m := range M {
				y[t*N+n] += x[t*M+m] * w[n*M+m]
			}
		}
	}
}

func refMatMulGradX(dx, dy, w []float64, T, N, M int) {
	for t := range T {
		for n := range N {
			for m := range M {
				dx[t*M+m] += dy[t*N+n] * w[n*M+m]
			}
		}
	}
}

func refMatMulGradW(dw, dy, x []float64, T, N, M int) {
	for t := range T {
		for n := range N {
			for m := range M {
				dw[n*M+m] += dy[t*N+n] * x[t*M+m]
			}
		}
	}
}

func refRMSNorm(x, w []float64, rows, n int, eps float64) (y, rstd []float64) {
	y, rstd = make([]float64, rows*n), make([]float64, rows)
	for r := range rows {
		var s float64
		for i := range n {
			s += x[r*n+i] * x[r*n+i]
		}
		rstd[r] = 1 / math.Sqrt(s/float64(n)+eps)
		for i := range n {
			y[r*n+i] = w[i] * x[r*n+i] * rstd[r]
		}
	}
	return y, rstd
}

func refRMSNormGrad(dy, x, w, rstd []float64, rows, n int) (dx, dw []float64) {
	dx, dw = make([]float64, rows*n), make([]float64, n)
	for r := range rows {
		var mean float64
		for i := range n {
			hat := x[r*n+i] * rstd[r]
			mean += dy[r*n+i] * w[i] * hat / float64(n)
			dw[i] += dy[r*n+i] * hat
		}
		for i := range n {
			dx[r*n+i] = rstd[r] * (dy[r*n+i]*w[i] - x[r*n+i]*rstd[r]*mean)
		}
	}
	return dx, dw
}

// ropeTable is cos and sin of pos * theta^(-2i/R), [maxPos, R/2] each.
func ropeTable(maxPos, R int, theta float64) (cos, sin []float64) {
	for p := range maxPos {
		for i := range R / 2 {
			phi := float64(p) * math.Pow(theta, -2*float64(i)/float64(R))
			cos, sin = append(cos, math.Cos(phi)), append(sin, math.Sin(phi))
		}
	}
	return cos, sin
}

func refRope(x []float64, pos []int32, cos, sin []float64, heads, d, R int, inverse bool) {
	for t, p := range pos {
		for h := range heads {
			row := x[(t*heads+h)*d:]
			for i := range R / 2 {
				c, s := cos[int(p)*R/2+i], sin[int(p)*R/2+i]
				if inverse {
					s = -s
				}
				row[i], row[i+R/2] = row[i]*c-row[i+R/2]*s, row[i+R/2]*c+row[i]*s
			}
		}
	}
}

// attShape is the shape of packed attention on dense q [T, H, d], k and v [T, K, d]; until is
// nil unless the sequences are trees.
type attShape struct {
	start   []int32
	H, K, d int
	until   []int32
}

func (a attShape) T() int         { return int(a.start[len(a.start)-1]) }
func (a attShape) scale() float64 { return 1 / math.Sqrt(float64(a.d)) }

// seen are the rows that row t of sequence b sees.
func (a attShape) seen(b, t int) (rows []int) {
	for j := int(a.start[b]); j <= t; j++ {
		if a.until == nil || t < int(a.until[j]) {
			rows = append(rows, j)
		}
	}
	return rows
}

// each calls f for every query row and head with the rows that it sees and their probabilities.
func (a attShape) each(q, k []float64, f func(t, h int, seen []int, p []float64, lse float64)) {
	for b := range len(a.start) - 1 {
		for t := int(a.start[b]); t < int(a.start[b+1]); t++ {
			seen := a.seen(b, t)
			for h := range a.H {
				p := make([]float64, len(seen))
				top := math.Inf(-1)
				for j, key := range seen {
					for i := range a.d {
						p[j] += q[(t*a.H+h)*a.d+i] * k[a.key(key, h)+i]
					}
					p[j] *= a.scale()
					top = max(top, p[j])
				}
				var sum float64
				for j := range p {
					p[j] = math.Exp(p[j] - top)
					sum += p[j]
				}
				for j := range p {
					p[j] /= sum
				}
				f(t, h, seen, p, top+math.Log(sum))
			}
		}
	}
}

// key is where the key of a row begins that query head h reads.
func (a attShape) key(row, h int) int { return (row*a.K + h/(a.H/a.K)) * a.d }

func refAttention(a attShape, q, k, v []float64) (o, lse []float64) {
	o, lse = make([]float64, a.T()*a.H*a.d), make([]float64, a.T()*a.H)
	a.each(q, k, func(t, h int, seen []int, p []float64, l float64) {
		lse[t*a.H+h] = l
		for j := range p {
			for i := range a.d {
				o[(t*a.H+h)*a.d+i] += p[j] * v[a.key(seen[j], h)+i]
			}
		}
	})
	return o, lse
}

func refAttentionGrad(a attShape, q, k, v, do []float64) (dq, dk, dv []float64) {
	dq, dk, dv = make([]float64, len(q)), make([]float64, len(k)), make([]float64, len(v))
	a.each(q, k, func(t, h int, seen []int, p []float64, _ float64) {
		row := (t*a.H + h) * a.d
		dp := make([]float64, len(p))
		var mean float64
		for j := range p {
			key := a.key(seen[j], h)
			for i := range a.d {
				dp[j] += do[row+i] * v[key+i]
				dv[key+i] += p[j] * do[row+i]
			}
			mean += p[j] * dp[j]
		}
		for j := range p {
			key := a.key(seen[j], h)
			ds := p[j] * (dp[j] - mean) * a.scale()
			for i := range a.d {
				dq[row+i] += ds * k[key+i]
				dk[key+i] += ds * q[row+i]
			}
		}
	})
	return dq, dk, dv
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func refSwiGLU(gu []float64, T, I int) []float64 {
	y := make([]float64, T*I)
	for t := range T {
		for i := range I {
			g, u := gu[t*2*I+i], gu[t*2*I+I+i]
			y[t*I+i] = g * sigmoid(g) * u
		}
	}
	return y
}

func refSwiGLUGrad(gu, dy []float64, T, I int) []float64 {
	d := make([]float64, T*2*I)
	for t := range T {
		for i := range I {
			g, u, e := gu[t*2*I+i], gu[t*2*I+I+i], dy[t*I+i]
			s := sigmoid(g)
			d[t*2*I+i] = e * u * s * (1 + g*(1-s))
			d[t*2*I+I+i] = e * g * s
		}
	}
	return d
}

func refLogSumExp(z []float64, tau float64) float64 {
	top, sum := math.Inf(-1), 0.0
	for _, x := range z {
		top = max(top, x/tau)
	}
	for _, x := range z {
		sum += math.Exp(x/tau - top)
	}
	return top + math.Log(sum)
}

func refCrossEntropy(z []float64, target []int32, weight []float64, T, V int, tau float64) (nll, dz []float64) {
	nll, dz = make([]float64, T), make([]float64, T*V)
	for t := range T {
		row := z[t*V : (t+1)*V]
		lse := refLogSumExp(row, tau)
		nll[t] = lse - row[target[t]]/tau
		for i, x := range row {
			dz[t*V+i] = weight[t] / tau * math.Exp(x/tau-lse)
		}
		dz[t*V+int(target[t])] -= weight[t] / tau
	}
	return nll, dz
}

func refAdamW(a AdamW, p, m, v, g []float64) {
	for i := range p {
		x := float64(a.Clip) * g[i]
		p[i] *= 1 - float64(a.LR)*float64(a.Decay)
		m[i] = float64(a.B1)*m[i] + (1-float64(a.B1))*x
		v[i] = float64(a.B2)*v[i] + (1-float64(a.B2))*x*x
		p[i] -= float64(a.LR) / a.C1 * m[i] / (math.Sqrt(v[i])/math.Sqrt(a.C2) + float64(a.Eps))
	}
}
