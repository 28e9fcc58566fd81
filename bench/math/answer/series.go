package answer

import (
	"math"
	"math/big"
	"sync"
)

// The series work with some bits more than the result has.
const working = precision + 64

func wide() *big.Float { return new(big.Float).SetPrec(working) }

func wideInt(n int64) *big.Float { return wide().SetInt64(n) }

// constantPi is pi by Machin: 16 atan(1/5) - 4 atan(1/239).
var constantPi = sync.OnceValue(func() *big.Float {
	inverse := func(n int64) *big.Float { // atan(1/n)
		sum, term := wide(), wide().Quo(wideInt(1), wideInt(n))
		square := wideInt(n * n)
		for k := int64(1); term.Sign() != 0 && term.MantExp(nil) > -working-8; k += 2 {
			part := wide().Quo(term, wideInt(k))
			if k%4 == 3 {
				part.Neg(part)
			}
			sum.Add(sum, part)
			term = wide().Quo(term, square)
		}
		return sum
	}
	a, b := inverse(5), inverse(239)
	return wide().Sub(a.Mul(a, wideInt(16)), b.Mul(b, wideInt(4)))
})

// constantLn2 is ln 2 = 2 atanh(1/3).
var constantLn2 = sync.OnceValue(func() *big.Float {
	sum, term := wide(), wide().Quo(wideInt(2), wideInt(3))
	for k := int64(1); term.MantExp(nil) > -working-8; k += 2 {
		sum.Add(sum, wide().Quo(term, wideInt(k)))
		term.Quo(term, wideInt(9))
	}
	return sum
})

// expReal is e^x for |x| up to about 100,000.
func expReal(x *big.Float) (*big.Float, error) {
	if x.Sign() != 0 && x.MantExp(nil) > 17 {
		return nil, ErrLarge
	}
	quotient, _ := wide().Quo(x, constantLn2()).Float64()
	k := int(math.Round(quotient))
	r := wide().Sub(x, wide().Mul(constantLn2(), wideInt(int64(k))))
	const halvings = 10
	if r.Sign() != 0 {
		r.SetMantExp(r, -halvings)
	}
	sum, term := wideInt(1), wideInt(1)
	for n := int64(1); term.Sign() != 0 && term.MantExp(nil) > -working-8; n++ {
		term.Quo(term.Mul(term, r), wideInt(n))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum.SetMantExp(sum, k), nil
}

// logReal is ln x for x > 0 by Halley's iteration, each of which triples the bits.
func logReal(x *big.Float) (*big.Float, error) {
	mantissa := wide()
	exponent := x.MantExp(mantissa)
	m, _ := mantissa.Float64()
	y := wide().SetFloat64(math.Log(m))
	for range 2 {
		e, err := expReal(y)
		if err != nil {
			return nil, err
		}
		step := wide().Quo(wide().Sub(mantissa, e), wide().Add(mantissa, e))
		y.Add(y, step.Add(step, step))
	}
	return y.Add(y, wide().Mul(constantLn2(), wideInt(int64(exponent)))), nil
}

// sinCos returns sine and cosine of |x| < 2^40.
func sinCos(x *big.Float) (sin, cos *big.Float, err error) {
	if x.Sign() != 0 && x.MantExp(nil) > 40 {
		return nil, nil, ErrLarge
	}
	turn := wide().Mul(constantPi(), wideInt(2))
	turns, _ := wide().Quo(x, turn).Float64()
	r := wide().Sub(x, turn.Mul(turn, wide().SetFloat64(math.Round(turns))))
	const halvings = 10
	if r.Sign() != 0 {
		r.SetMantExp(r, -halvings)
	}
	sin, cos = wide(), wide()
	term := wideInt(1)
	for n := int64(0); term.Sign() != 0 && term.MantExp(nil) > -working-8; n++ {
		part := sin
		if n%2 == 0 {
			part = cos
		}
		if n%4 < 2 {
			part.Add(part, term)
		} else {
			part.Sub(part, term)
		}
		term.Quo(term.Mul(term, r), wideInt(n+1))
	}
	for range halvings {
		double := wide().Mul(sin, cos)
		c, s := wide().Mul(cos, cos), wide().Mul(sin, sin)
		sin, cos = double.Add(double, double), c.Sub(c, s)
	}
	return sin, cos, nil
}

// atanReal is the arcus tangent by Newton on the sine, each step of which doubles the
// bits.
func atanReal(x *big.Float) (*big.Float, error) {
	f, _ := x.Float64()
	y := wide().SetFloat64(math.Atan(f))
	if math.Abs(f) > 1e12 || f != 0 && math.Abs(f) < 1e-12 {
		return nil, ErrLarge // float64 does not start near enough
	}
	for range 3 {
		sin, cos, err := sinCos(y)
		if err != nil {
			return nil, err
		}
		// tan(x-y) = (x cos y - sin y) / (cos y + x sin y), and it is small
		top := wide().Sub(wide().Mul(x, cos), sin)
		bottom := wide().Add(cos, wide().Mul(x, sin))
		y.Add(y, top.Quo(top, bottom))
	}
	return y, nil
}

// exponential of a complex number.
func exponential(n number) (number, error) {
	n = n.inexact()
	size, err := expReal(n.re)
	if err != nil {
		return number{}, err
	}
	if n.im.Sign() == 0 {
		return bounded(realNumber(newFloat().Set(size)))
	}
	sin, cos, err := sinCos(n.im)
	if err != nil {
		return number{}, err
	}
	return bounded(number{re: newFloat().Mul(size, cos), im: newFloat().Mul(size, sin)})
}

// logarithm is the principal value; of real numbers only, and of negative ones not at all,
// since school logarithms have none.
func logarithm(n number) (number, error) {
	if !n.isReal() || n.sign() <= 0 {
		return number{}, ErrDomain
	}
	l, err := logReal(n.inexact().re)
	if err != nil {
		return number{}, err
	}
	return realNumber(newFloat().Set(l)), nil
}
