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

// fillTemplate is "text".format(...): {}, {0}, {name}, each with an optional spec.
func fillTemplate(_ *lib.Thread, _ *lib.Builtin, args lib.Tuple, kwargs []lib.Tuple) (lib.Value, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("format without a text")
	}
	text, _ := lib.AsString(args[0]) // the translator puts a string there
	args = args[1:]
	var b strings.Builder
	next := 0
	for len(text) > 0 {
		switch {
		case strings.HasPrefix(text, "{{"), strings.HasPrefix(text, "}}"):
			b.WriteByte(text[0])
			text = text[2:]
		case text[0] == '{':
			field, rest, ok := strings.Cut(text[1:], "}")
			if !ok {
				return nil, fmt.Errorf("format: a brace never closes")
			}
			name, spec, _ := strings.Cut(field, ":")
			value, err := templateValue(name, &next, args, kwargs)
			if err != nil {
				return nil, err
			}
			part, err := format(value, spec)
			if err != nil {
				return nil, err
			}
			if b.WriteString(part); b.Len() > maxFrame {
				return nil, errOutput
			}
			text = rest
		default:
			b.WriteByte(text[0])
			text = text[1:]
		}
	}
	return lib.String(b.String()), nil
}

func templateValue(name string, next *int, args lib.Tuple, kwargs []lib.Tuple) (lib.Value, error) {
	at, err := strconv.Atoi(name)
	if name == "" {
		at, err = *next, nil
		*next++
	}
	if err == nil && at >= 0 && at < len(args) {
		return args[at], nil
	}
	for _, pair := range kwargs {
		if key, _ := lib.AsString(pair[0]); key == name {
			return pair[1], nil
		}
	}
	return nil, fmt.Errorf("format: nothing for {%.20s}", name)
}
