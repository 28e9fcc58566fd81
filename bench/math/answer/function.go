package answer

import "math/big"

// callFunction computes a named function.
func callFunction(name string, args []number) (number, error) {
	x := args[0]
	switch name {
	case "root":
		return root(args[0], args[1])
	case "binom":
		return binomial(args[0], args[1])
	case "abs":
		return absolute(x)
	case "floor", "ceil":
		return rounded(name, x)
	case "exp":
		return exponential(x)
	case "ln", "log", "lg":
		return logarithmTo(name, args)
	case "factorial":
		return factorial(x)
	}
	if len(args) > 1 || !x.isReal() {
		return number{}, ErrDomain
	}
	real := x.inexact().re
	switch name {
	case "sinh", "cosh", "tanh":
		return hyperbolic(name, x)
	case "arcsin", "arccos", "arctan":
		return inverse(name[len("arc"):], real)
	case "asin", "acos", "atan":
		return inverse(name[len("a"):], real)
	}
	return trigonometric(name, real)
}

// trigonometric is one of the six functions of an angle in radians.
func trigonometric(name string, x *big.Float) (number, error) {
	sin, cos, err := sinCos(x)
	if err != nil {
		return number{}, err
	}
	s, c := realNumber(newFloat().Set(sin)), realNumber(newFloat().Set(cos))
	unit := number{rat: one}
	switch name {
	case "sin":
		return s, nil
	case "cos":
		return c, nil
	case "tan":
		return divide(s, c)
	case "cot":
		return divide(c, s)
	case "sec":
		return divide(unit, c)
	case "csc":
		return divide(unit, s)
	}
	return number{}, ErrDomain
}

// inverse of a sine, cosine or tangent.
func inverse(name string, x *big.Float) (number, error) {
	if name == "tan" {
		y, err := atanReal(x)
		if err != nil {
			return number{}, err
		}
		return realNumber(newFloat().Set(y)), nil
	}
	half := wide().Mul(constantPi(), wide().SetFloat64(0.5))
	unit := wideInt(1)
	y := wide()
	switch wide().Abs(x).Cmp(unit) {
	case 1:
		return number{}, ErrDomain
	case 0:
		y.Copy(half)
		if x.Sign() < 0 {
			y.Neg(y)
		}
	default:
		below := wide().Sub(unit, wide().Mul(x, x))
		var err error
		if y, err = atanReal(wide().Quo(x, wide().Sqrt(below))); err != nil {
			return number{}, err
		}
	}
	if name == "cos" {
		y.Sub(half, y)
	}
	return realNumber(newFloat().Set(y)), nil
}

// hyperbolic functions by the exponential.
func hyperbolic(name string, x number) (number, error) {
	up, err := exponential(x)
	if err != nil {
		return number{}, err
	}
	down, err := divide(number{rat: one}, up)
	if err != nil {
		return number{}, err
	}
	sum, err := add(up, down)
	if err != nil {
		return number{}, err
	}
	difference, err := add(up, negate(down))
	if err != nil {
		return number{}, err
	}
	half := number{rat: big.NewRat(1, 2)}
	switch name {
	case "sinh":
		return multiply(difference, half)
	case "cosh":
		return multiply(sum, half)
	}
	return divide(difference, sum)
}

// root is the n-th root: the real one when there is one.
func root(degree, x number) (number, error) {
	if degree.rat == nil || !degree.rat.IsInt() || degree.rat.Sign() <= 0 {
		return number{}, ErrDomain
	}
	if x.isZero() {
		return number{rat: new(big.Rat)}, nil
	}
	square := degree.rat.Cmp(big.NewRat(2, 1)) == 0
	if square && x.isReal() {
		if x.sign() < 0 {
			r, err := root(degree, negate(x))
			if err != nil {
				return number{}, err
			}
			return multiply(r, number{re: newFloat(), im: newFloat().SetInt64(1)})
		}
		if x.rat != nil {
			if r, ok := perfectSquare(x.rat); ok {
				return number{rat: r}, nil
			}
		}
		return realNumber(newFloat().Sqrt(x.inexact().re)), nil
	}
	return power(x, number{rat: new(big.Rat).Inv(degree.rat)})
}

func perfectSquare(r *big.Rat) (*big.Rat, bool) {
	above, below := new(big.Int).Sqrt(r.Num()), new(big.Int).Sqrt(r.Denom())
	result := new(big.Rat).SetFrac(above, below)
	return result, new(big.Rat).Mul(result, result).Cmp(r) == 0
}

// logarithmTo takes an optional base; `log` without one is to base ten and `ln` to e.
func logarithmTo(name string, args []number) (number, error) {
	l, err := logarithm(args[0])
	if err != nil {
		return number{}, err
	}
	var base number
	switch {
	case len(args) > 1:
		base = args[1]
	case name == "ln":
		return l, nil
	default:
		base = number{rat: big.NewRat(10, 1)}
	}
	b, err := logarithm(base)
	if err != nil {
		return number{}, err
	}
	return divide(l, b)
}

func absolute(x number) (number, error) {
	if x.isReal() {
		if x.sign() < 0 {
			return negate(x), nil
		}
		return x, nil
	}
	sum := newFloat().Add(newFloat().Mul(x.re, x.re), newFloat().Mul(x.im, x.im))
	return realNumber(newFloat().Sqrt(sum)), nil
}

// rounded is the floor or ceiling of a real number.
func rounded(name string, x number) (number, error) {
	if !x.isReal() {
		return number{}, ErrDomain
	}
	r := x.rat
	if r == nil {
		if x.re.Sign() != 0 && x.re.MantExp(nil) > maxExponent {
			return number{}, ErrLarge
		}
		if r, _ = x.re.Rat(nil); r == nil {
			return number{}, ErrDomain
		}
	}
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if name == "ceil" && m.Sign() != 0 {
		q.Add(q, big.NewInt(1))
	}
	return exact(new(big.Rat).SetInt(q))
}

const maxFactorial = 3000

func factorial(x number) (number, error) {
	if x.rat == nil || !x.rat.IsInt() || x.rat.Sign() < 0 {
		return number{}, ErrDomain
	}
	if x.rat.Cmp(big.NewRat(maxFactorial, 1)) > 0 {
		return number{}, ErrLarge
	}
	n := x.rat.Num().Int64()
	return exact(new(big.Rat).SetInt(new(big.Int).MulRange(1, n)))
}

func binomial(n, k number) (number, error) {
	if n.rat == nil || k.rat == nil || !n.rat.IsInt() || !k.rat.IsInt() || n.rat.Sign() < 0 || k.rat.Sign() < 0 {
		return number{}, ErrDomain
	}
	if n.rat.Cmp(big.NewRat(1e6, 1)) > 0 || k.rat.Cmp(n.rat) <= 0 && k.rat.Cmp(big.NewRat(maxFactorial, 1)) > 0 {
		return number{}, ErrLarge
	}
	if k.rat.Cmp(n.rat) > 0 {
		return number{rat: new(big.Rat)}, nil
	}
	return exact(new(big.Rat).SetInt(new(big.Int).Binomial(n.rat.Num().Int64(), k.rat.Num().Int64())))
}
