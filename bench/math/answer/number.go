package answer

import "math/big"

// precision of inexact numbers in bits, and how many of them have to agree.
const (
	precision = 256
	agreement = 100
	// maxExponent bounds inexact constants: above 2^150 the fraction bits that are
	// compared would not reach the ones.
	maxExponent = 150
)

var one = big.NewRat(1, 1)

// number is an exact rational, or a complex number of two floats when rat is nil.
// Numbers are never changed after they are made.
type number struct {
	rat    *big.Rat
	re, im *big.Float
}

func newFloat() *big.Float { return new(big.Float).SetPrec(precision) }

func exact(r *big.Rat) (number, error) {
	if r.Num().BitLen()+r.Denom().BitLen() > maxBits {
		return number{}, ErrLarge
	}
	return number{rat: r}, nil
}

func realNumber(f *big.Float) number { return number{re: f, im: newFloat()} }

// inexact is the number as floats.
func (n number) inexact() number {
	if n.rat == nil {
		return n
	}
	return realNumber(newFloat().SetRat(n.rat))
}

// isReal tells whether the imaginary part is nothing, up to rounding.
func (n number) isReal() bool {
	return n.rat != nil || n.im.Sign() == 0 || negligible(n.im, n.re)
}

// negligible: a is zero beside b and one.
func negligible(a, b *big.Float) bool {
	if a.Sign() == 0 {
		return true
	}
	scale := 0
	if b.Sign() != 0 {
		scale = max(0, b.MantExp(nil))
	}
	return a.MantExp(nil) < scale-agreement
}

func (n number) isZero() bool {
	if n.rat != nil {
		return n.rat.Sign() == 0
	}
	zero := newFloat()
	return negligible(n.re, zero) && negligible(n.im, zero)
}

// sign of a real number.
func (n number) sign() int {
	switch {
	case n.isZero():
		return 0
	case n.rat != nil:
		return n.rat.Sign()
	}
	return n.re.Sign()
}

// same compares two numbers: exactly when both are exact.
func same(a, b number) bool {
	if a.rat != nil && b.rat != nil {
		return a.rat.Cmp(b.rat) == 0
	}
	x, y := a.inexact(), b.inexact()
	near := func(p, q, r *big.Float) bool { // r widens the scale by the other part
		return negligible(newFloat().Sub(p, q), widest(p, q, r))
	}
	return near(x.re, y.re, x.im) && near(x.im, y.im, x.re)
}

func widest(list ...*big.Float) *big.Float {
	most := list[0]
	for _, f := range list[1:] {
		if f.Sign() != 0 && (most.Sign() == 0 || f.MantExp(nil) > most.MantExp(nil)) {
			most = f
		}
	}
	return most
}

// bounded refuses floats whose exponent would overflow later.
func bounded(n number) (number, error) {
	for _, f := range []*big.Float{n.re, n.im} {
		if f.IsInf() || f.Sign() != 0 && (f.MantExp(nil) > 1<<20 || f.MantExp(nil) < -1<<20) {
			return number{}, ErrLarge
		}
	}
	return n, nil
}

func add(a, b number) (number, error) {
	if a.rat != nil && b.rat != nil {
		return exact(new(big.Rat).Add(a.rat, b.rat))
	}
	a, b = a.inexact(), b.inexact()
	return bounded(number{re: newFloat().Add(a.re, b.re), im: newFloat().Add(a.im, b.im)})
}

func negate(a number) number {
	if a.rat != nil {
		return number{rat: new(big.Rat).Neg(a.rat)}
	}
	return number{re: newFloat().Neg(a.re), im: newFloat().Neg(a.im)}
}

func multiply(a, b number) (number, error) {
	if a.rat != nil && b.rat != nil {
		return exact(new(big.Rat).Mul(a.rat, b.rat))
	}
	a, b = a.inexact(), b.inexact()
	re := newFloat().Sub(newFloat().Mul(a.re, b.re), newFloat().Mul(a.im, b.im))
	im := newFloat().Add(newFloat().Mul(a.re, b.im), newFloat().Mul(a.im, b.re))
	return bounded(number{re: re, im: im})
}

func divide(a, b number) (number, error) {
	if b.isZero() {
		return number{}, ErrDomain
	}
	if a.rat != nil && b.rat != nil {
		return exact(new(big.Rat).Quo(a.rat, b.rat))
	}
	a, b = a.inexact(), b.inexact()
	if b.im.Sign() == 0 {
		return bounded(number{re: newFloat().Quo(a.re, b.re), im: newFloat().Quo(a.im, b.re)})
	}
	size := newFloat().Add(newFloat().Mul(b.re, b.re), newFloat().Mul(b.im, b.im))
	top, err := multiply(a, number{re: b.re, im: newFloat().Neg(b.im)})
	if err != nil {
		return number{}, err
	}
	return bounded(number{re: newFloat().Quo(top.re, size), im: newFloat().Quo(top.im, size)})
}

// integerPower is a^n by squaring; n may be negative.
func integerPower(a number, n int64) (number, error) {
	if a.rat != nil {
		bits := int64(a.rat.Num().BitLen() + a.rat.Denom().BitLen() - 1)
		if bits > 1 && (n > maxBits/bits || n < -maxBits/bits) {
			return number{}, ErrLarge
		}
	}
	if n < 0 {
		inverse, err := divide(number{rat: one}, a)
		if err != nil {
			return number{}, err
		}
		a, n = inverse, -n
	}
	if n == 0 && a.isZero() {
		return number{}, ErrDomain
	}
	result, err := number{rat: one}, error(nil)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			if result, err = multiply(result, a); err != nil {
				return number{}, err
			}
		}
		if n > 1 {
			if a, err = multiply(a, a); err != nil {
				return number{}, err
			}
		}
	}
	return result, nil
}

// power is a^b with the real root of a negative number where there is one, the principal
// value otherwise.
func power(a, b number) (number, error) {
	if b.rat != nil && b.rat.IsInt() {
		if !b.rat.Num().IsInt64() {
			return number{}, ErrLarge
		}
		return integerPower(a, b.rat.Num().Int64())
	}
	if a.isZero() {
		if b.isReal() && b.sign() > 0 {
			return number{rat: new(big.Rat)}, nil
		}
		return number{}, ErrDomain
	}
	if a.isReal() && a.sign() < 0 && b.rat != nil {
		return negativePower(negate(a), b.rat)
	}
	l, err := logarithm(a)
	if err != nil {
		return number{}, err
	}
	product, err := multiply(l, b)
	if err != nil {
		return number{}, err
	}
	return exponential(product)
}

// negativePower is (-a)^(p/q) for a positive a.
func negativePower(a number, b *big.Rat) (number, error) {
	size, err := power(a, number{rat: b})
	if err != nil {
		return number{}, err
	}
	switch {
	case b.Denom().Bit(0) == 1 && b.Num().Bit(0) == 0: // odd root of an even power
		return size, nil
	case b.Denom().Bit(0) == 1:
		return negate(size), nil
	case b.Denom().Cmp(big.NewInt(2)) == 0: // an odd power of i
		turn := number{re: newFloat(), im: newFloat().SetInt64(1)}
		if new(big.Int).And(b.Num(), big.NewInt(3)).Int64() == 3 {
			turn = negate(turn)
		}
		return multiply(size, turn)
	}
	return number{}, ErrDomain
}
