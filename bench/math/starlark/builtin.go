package starlark

import (
	_ "embed"
	"errors"
	"fmt"
	gomath "math"
	"math/big"
	"strings"
	"sync"

	libmath "go.starlark.net/lib/math"
	lib "go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

//go:embed prelude.star
var preludeSource string

// predeclared are the names that Python has and Starlark lacks. They are frozen, so
// programs can share them.
var predeclared = sync.OnceValue(func() lib.StringDict {
	math := lib.StringDict{}
	for name, value := range libmath.Module.Members {
		math[name] = value
	}
	own := map[string]func(*lib.Thread, *lib.Builtin, lib.Tuple, []lib.Tuple) (lib.Value, error){
		"print": printValues, "pow": pow, "round": round, "format": formatValue, "format_map": fillTemplate,
	}
	names := lib.StringDict{"__name__": lib.String("__main__")}
	for name, f := range own {
		names[name] = lib.NewBuiltin(name, f)
	}
	for name, f := range integers {
		math[name] = lib.NewBuiltin(name, f)
	}
	math["trunc"] = lib.Universe["int"]
	math["inf"] = lib.Float(gomath.Inf(1))
	names["math"] = &starlarkstruct.Module{Name: "math", Members: math}
	prelude, err := lib.ExecFileOptions(options, &lib.Thread{Name: "prelude"}, "prelude", preludeSource, names)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for name, value := range prelude {
		names[name] = value
	}
	names["itertools"] = &starlarkstruct.Module{Name: "itertools", Members: lib.StringDict{
		"combinations": prelude["combinations"], "permutations": prelude["permutations"], "product": prelude["product"]}}
	names["functools"] = &starlarkstruct.Module{Name: "functools", Members: lib.StringDict{"reduce": prelude["reduce"]}}
	names.Freeze()
	return names
})

// printValues is print with sep and end.
func printValues(thread *lib.Thread, b *lib.Builtin, args lib.Tuple, kwargs []lib.Tuple) (lib.Value, error) {
	separator, end := " ", "\n"
	if err := lib.UnpackArgs(b.Name(), nil, kwargs, "sep?", &separator, "end?", &end); err != nil {
		return nil, err
	}
	var text strings.Builder
	for i, arg := range args {
		if i > 0 {
			text.WriteString(separator)
		}
		if s, ok := lib.AsString(arg); ok {
			text.WriteString(s)
		} else {
			text.WriteString(arg.String())
		}
		if text.Len() > maxOutput {
			break
		}
	}
	text.WriteString(end)
	return lib.None, thread.Local(outputKey).(*printer).print(text.String())
}

// maxBits bounds the numbers that powers and factorials make in one step.
const maxBits = 1 << 20

var errBits = errors.New("the number is too large")

// pow is x ** y and pow(x, y, m). Whole numbers stay whole.
func pow(_ *lib.Thread, b *lib.Builtin, args lib.Tuple, kwargs []lib.Tuple) (lib.Value, error) {
	var x, y lib.Value
	var m lib.Value = lib.None
	if err := lib.UnpackArgs(b.Name(), args, kwargs, "base", &x, "exp", &y, "mod?", &m); err != nil {
		return nil, err
	}
	base, first := x.(lib.Int)
	exponent, second := y.(lib.Int)
	if m != lib.None {
		modulus, ok := m.(lib.Int)
		if !ok || !first || !second || modulus.Sign() == 0 {
			return nil, errors.New("pow with a modulus takes whole numbers")
		}
		result := new(big.Int).Exp(base.BigInt(), exponent.BigInt(), new(big.Int).Abs(modulus.BigInt()))
		if result == nil {
			return nil, errors.New("base is not invertible for the given modulus")
		}
		return lib.MakeBigInt(result), nil
	}
	if first && second && exponent.Sign() >= 0 {
		n, ok := exponent.Int64()
		if bits := int64(base.BigInt().BitLen()); bits > 1 && (!ok || n > maxBits/bits) {
			return nil, errBits
		}
		return lib.MakeBigInt(new(big.Int).Exp(base.BigInt(), exponent.BigInt(), nil)), nil
	}
	f, ok1 := lib.AsFloat(x)
	g, ok2 := lib.AsFloat(y)
	switch {
	case !ok1 || !ok2:
		return nil, fmt.Errorf("unsupported operand types for **: %s and %s", x.Type(), y.Type())
	case f == 0 && g < 0:
		return nil, errors.New("zero to a negative power")
	}
	result := gomath.Pow(f, g)
	if gomath.IsNaN(result) && f < 0 {
		return nil, errors.New("a negative number to a broken power is complex")
	}
	return lib.Float(result), nil
}

// round goes to the even neighbour like Python; with digits it goes through decimals.
func round(_ *lib.Thread, b *lib.Builtin, args lib.Tuple, kwargs []lib.Tuple) (lib.Value, error) {
	var x, digits lib.Value
	if err := lib.UnpackArgs(b.Name(), args, kwargs, "number", &x, "ndigits?", &digits); err != nil {
		return nil, err
	}
	f, ok := lib.AsFloat(x)
	if !ok {
		return nil, fmt.Errorf("round of %s", x.Type())
	}
	if digits == nil || digits == lib.None {
		if _, whole := x.(lib.Int); whole {
			return x, nil
		}
		return lib.NumberToInt(lib.Float(gomath.RoundToEven(f)))
	}
	n, err := lib.AsInt32(digits)
	if err != nil || n < 0 || n > 300 {
		return nil, errors.New("round takes 0 to 300 digits")
	}
	if _, whole := x.(lib.Int); whole {
		return x, nil
	}
	var rounded float64
	if _, err := fmt.Sscanf(fmt.Sprintf("%.*f", n, f), "%g", &rounded); err != nil {
		return nil, fmt.Errorf("round: %w", err)
	}
	return lib.Float(rounded), nil
}

// integers are the functions of Python's math on whole numbers.
var integers = map[string]func(*lib.Thread, *lib.Builtin, lib.Tuple, []lib.Tuple) (lib.Value, error){
	"gcd":       gcd,
	"lcm":       lcm,
	"factorial": factorial,
	"comb": func(_ *lib.Thread, b *lib.Builtin, a lib.Tuple, _ []lib.Tuple) (lib.Value, error) {
		return choose(b, a, true)
	},
	"perm": func(_ *lib.Thread, b *lib.Builtin, a lib.Tuple, _ []lib.Tuple) (lib.Value, error) {
		return choose(b, a, false)
	},
	"isqrt": isqrt,
}

func wholes(b *lib.Builtin, args lib.Tuple) ([]*big.Int, error) {
	var list []*big.Int
	for _, arg := range args {
		n, ok := arg.(lib.Int)
		if !ok {
			return nil, fmt.Errorf("%s takes whole numbers, not %s", b.Name(), arg.Type())
		}
		list = append(list, n.BigInt())
	}
	return list, nil
}

func gcd(_ *lib.Thread, b *lib.Builtin, args lib.Tuple, _ []lib.Tuple) (lib.Value, error) {
	list, err := wholes(b, args)
	result := new(big.Int)
	for _, n := range list {
		result.GCD(nil, nil, result, new(big.Int).Abs(n))
	}
	return lib.MakeBigInt(result), err
}

func lcm(_ *lib.Thread, b *lib.Builtin, args lib.Tuple, _ []lib.Tuple) (lib.Value, error) {
	list, err := wholes(b, args)
	result := big.NewInt(1)
	for _, n := range list {
		if n.Sign() == 0 {
			return lib.MakeInt(0), nil
		}
		divisor := new(big.Int).GCD(nil, nil, result, new(big.Int).Abs(n))
		result.Mul(result, new(big.Int).Quo(new(big.Int).Abs(n), divisor))
		if result.BitLen() > maxBits {
			return nil, errBits
		}
	}
	return lib.MakeBigInt(result), err
}

const maxFactorial = 50_000

func factorial(_ *lib.Thread, b *lib.Builtin, args lib.Tuple, _ []lib.Tuple) (lib.Value, error) {
	list, err := wholes(b, args)
	switch {
	case err != nil:
		return nil, err
	case len(list) != 1 || list[0].Sign() < 0:
		return nil, errors.New("factorial takes one number, not negative")
	case list[0].Cmp(big.NewInt(maxFactorial)) > 0:
		return nil, errBits
	}
	return lib.MakeBigInt(new(big.Int).MulRange(1, list[0].Int64())), nil
}

// choose counts combinations, or ordered choices when free is false.
func choose(b *lib.Builtin, args lib.Tuple, free bool) (lib.Value, error) {
	list, err := wholes(b, args)
	switch {
	case err != nil:
		return nil, err
	case len(list) == 1 && !free:
		list = append(list, list[0])
	case len(list) != 2:
		return nil, fmt.Errorf("%s takes two numbers", b.Name())
	}
	n, k := list[0], list[1]
	switch {
	case n.Sign() < 0 || k.Sign() < 0:
		return nil, fmt.Errorf("%s of a negative number", b.Name())
	case k.Cmp(n) > 0:
		return lib.MakeInt(0), nil
	case n.Cmp(big.NewInt(maxFactorial)) > 0 && k.Cmp(big.NewInt(1000)) > 0 || !n.IsInt64():
		return nil, errBits
	case free:
		return lib.MakeBigInt(new(big.Int).Binomial(n.Int64(), k.Int64())), nil
	case k.Sign() == 0:
		return lib.MakeInt(1), nil
	}
	return lib.MakeBigInt(new(big.Int).MulRange(n.Int64()-k.Int64()+1, n.Int64())), nil
}

func isqrt(_ *lib.Thread, b *lib.Builtin, args lib.Tuple, _ []lib.Tuple) (lib.Value, error) {
	list, err := wholes(b, args)
	switch {
	case err != nil:
		return nil, err
	case len(list) != 1 || list[0].Sign() < 0:
		return nil, errors.New("isqrt takes one number, not negative")
	}
	return lib.MakeBigInt(new(big.Int).Sqrt(list[0])), nil
}

// formatValue is format(x, spec) with the specs that numbers usually have: [,][.N](f|e|g|d|%).
func formatValue(_ *lib.Thread, b *lib.Builtin, args lib.Tuple, kwargs []lib.Tuple) (lib.Value, error) {
	var x lib.Value
	spec := ""
	if err := lib.UnpackArgs(b.Name(), args, kwargs, "value", &x, "spec?", &spec); err != nil {
		return nil, err
	}
	text, err := format(x, spec)
	return lib.String(text), err
}
