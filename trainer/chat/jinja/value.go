package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Value is nil (None), bool, int64, float64, string, *List, *Dict, or one of the
// interpreter's own: undefined, *namespace, *macro, *loop, builtin.
type Value any

// List is a Python list or tuple.
type List struct {
	Items []Value
	tuple bool
}

// NewList makes a list.
func NewList(items ...Value) *List { return &List{Items: items} }

// Dict is a Python dict with text keys, in order of insertion.
type Dict struct {
	keys   []string
	values map[string]Value
}

// NewDict makes an empty dict.
func NewDict() *Dict { return &Dict{values: map[string]Value{}} }

// Set puts a value under key, at the end when the key is new. It returns d.
func (d *Dict) Set(key string, v Value) *Dict {
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = v
	return d
}

// Get returns the value under key.
func (d *Dict) Get(key string) (Value, bool) {
	v, ok := d.values[key]
	return v, ok
}

// Keys returns the keys in order; the caller may not change them.
func (d *Dict) Keys() []string { return d.keys }

// undefined is what a name, attribute or item that is not there evaluates to.
type undefined struct{ what string }

// namespace is the one kind of value that a template may change.
type namespace struct{ *Dict }

// builtin is a function or bound method.
type builtin struct {
	name string
	call func(r *renderer, a arguments) Value
}

// truth is Python's bool(v).
func truth(v Value) bool {
	switch x := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return x
	case int64:
		return x != 0
	case float64:
		return x != 0
	case string:
		return x != ""
	case *List:
		return len(x.Items) > 0
	case *Dict:
		return len(x.keys) > 0
	}
	return true
}

// kindOf names a value's type as Python does.
func kindOf(v Value) string {
	switch x := v.(type) {
	case nil:
		return "None"
	case undefined:
		return "undefined"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		if x.tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", v), "*jinja.")
}

// str is Python's str(v).
func str(v Value) string {
	switch x := v.(type) {
	case string:
		return x
	case undefined:
		return ""
	}
	var b strings.Builder
	writeRepr(&b, v)
	return b.String()
}

func writeRepr(b *strings.Builder, v Value) {
	switch x := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if x {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(x, 10))
	case float64:
		b.WriteString(floatText(x))
	case string:
		writeQuoted(b, x)
	case *List:
		open, end := "[", "]"
		if x.tuple {
			open, end = "(", ")"
			if len(x.Items) == 1 {
				end = ",)"
			}
		}
		b.WriteString(open)
		for i, item := range x.Items {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(b, item)
		}
		b.WriteString(end)
	case *Dict:
		b.WriteString("{")
		for i, key := range x.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			writeQuoted(b, key)
			b.WriteString(": ")
			writeRepr(b, x.values[key])
		}
		b.WriteString("}")
	case undefined:
		b.WriteString("Undefined")
	default:
		failf(ErrUnsupported, "printing a %s", kindOf(v))
	}
}

// floatText is Python's repr of a float.
func floatText(x float64) string {
	switch {
	case math.IsNaN(x):
		return "nan"
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	}
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// writeQuoted is Python's repr of a text.
func writeQuoted(b *strings.Builder, s string) {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	b.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
}

// equal is Python's ==.
func equal(a, b Value) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case string:
		y, ok := b.(string)
		return ok && x == y
	case *List:
		y, ok := b.(*List)
		if !ok || len(x.Items) != len(y.Items) || x.tuple != y.tuple {
			return false
		}
		for i := range x.Items {
			if !equal(x.Items[i], y.Items[i]) {
				return false
			}
		}
		return true
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for _, key := range x.keys {
			other, ok := y.values[key]
			if !ok || !equal(x.values[key], other) {
				return false
			}
		}
		return true
	}
	return false
}

// number widens bool, int and float; integers beyond 2^53 lose digits, which
// only comparisons of such integers with floats see.
func number(v Value) (float64, bool) {
	switch x := v.(type) {
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	case int64:
		return float64(x), true
	case float64:
		return x, true
	}
	return 0, false
}

// integer is a bool or int.
func integer(v Value) (int64, bool) {
	switch x := v.(type) {
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	case int64:
		return x, true
	}
	return 0, false
}

// compare orders numbers, texts and lists; anything else fails as in Python.
func compare(a, b Value) int {
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		}
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y)
		}
	case *List:
		if y, ok := b.(*List); ok {
			for i := range min(len(x.Items), len(y.Items)) {
				if !equal(x.Items[i], y.Items[i]) {
					return compare(x.Items[i], y.Items[i])
				}
			}
			return len(x.Items) - len(y.Items)
		}
	}
	failf(ErrTemplate, "%s and %s have no order", kindOf(a), kindOf(b))
	return 0
}

// isSpace is Python's str.isspace of one character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
