package starlark

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	lib "go.starlark.net/starlark"
)

var formatSpec = regexp.MustCompile(`^([<>^]?)(0?)(\d{0,3})(,?)(?:\.(\d{1,2}))?([dfeg%s]?)$`)

// format writes a value by a Python format spec.
func format(x lib.Value, spec string) (string, error) {
	plain, ok := lib.AsString(x)
	if !ok {
		plain = x.String()
	}
	if spec == "" {
		return plain, nil
	}
	parts := formatSpec.FindStringSubmatch(spec)
	if parts == nil {
		return "", fmt.Errorf("format spec %.20q", spec)
	}
	align, zero, width, comma, digits, kind := parts[1], parts[2], parts[3], parts[4], parts[5], parts[6]
	text, err := formatNumber(x, plain, digits, kind)
	if err != nil {
		return "", err
	}
	if comma != "" {
		text = groupThousands(text)
	}
	n, _ := strconv.Atoi(width) // empty is no width
	for pad := n - len(text); pad > 0; pad-- {
		switch {
		case zero != "" && align == "":
			text = "0" + text
		case align == "<" || align == "" && ok:
			text += " "
		case align == "^" && pad%2 == 0:
			text += " "
		default:
			text = " " + text
		}
	}
	return text, nil
}

func formatNumber(x lib.Value, plain, digits, kind string) (string, error) {
	switch {
	case kind == "" && digits == "", kind == "s", kind == "d":
		return plain, nil
	case kind == "":
		kind = "g"
	}
	places := 6
	if digits != "" {
		places, _ = strconv.Atoi(digits) // the pattern let only digits through
	}
	if n, ok := x.(lib.Int); ok && kind == "f" { // whole numbers beyond a float stay exact
		return new(big.Rat).SetInt(n.BigInt()).FloatString(places), nil
	}
	f, ok := lib.AsFloat(x)
	if !ok {
		return "", fmt.Errorf("format of %s as a number", x.Type())
	}
	if kind == "%" {
		return strconv.FormatFloat(100*f, 'f', places, 64) + "%", nil
	}
	return strconv.FormatFloat(f, kind[0], places, 64), nil
}

// groupThousands writes commas into the whole part of a number.
func groupThousands(text string) string {
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	whole, rest, _ := strings.Cut(text, ".")
	if rest != "" {
		rest = "." + rest
	}
	var b strings.Builder
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return sign + b.String() + rest
}
