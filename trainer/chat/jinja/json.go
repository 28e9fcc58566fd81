package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseJSON reads one JSON value; objects keep their order. Whole numbers
// become integers when they fit 64 bits, other numbers floats.
func ParseJSON(text []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := decodeJSON(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("text after the JSON value")
	}
	return v, nil
}

func decodeJSON(d *json.Decoder, depth int) (Value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("JSON nested deeper than %d", maxNesting)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return jsonNumber(string(t))
	case json.Delim:
		if t == '[' {
			list := &List{}
			for d.More() {
				v, err := decodeJSON(d, depth+1)
				if err != nil {
					return nil, err
				}
				list.Items = append(list.Items, v)
			}
			_, err = d.Token()
			return list, err
		}
		dict := NewDict()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			dict.Set(key.(string), v)
		}
		_, err = d.Token()
		return dict, err
	}
	return t, nil
}

func jsonNumber(s string) (Value, error) {
	if !strings.ContainsAny(s, ".eE") {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n, nil
		}
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("JSON number %s", s)
	}
	return x, nil
}

// JSON renders a value as Python's json.dumps(v, ensure_ascii=False) does.
func JSON(v Value) (text string, err error) {
	defer rescue(&err)
	return dump(v, dumpStyle{item: ", ", key: ": "}), nil
}

// dumpStyle are the arguments of json.dumps that templates use.
type dumpStyle struct {
	item, key string
	indent    string // "" for one line
	ascii     bool
	sorted    bool
}

func dump(v Value, style dumpStyle) string {
	var b strings.Builder
	writeJSON(&b, v, style, "\n")
	return b.String()
}

// filterJSON is tojson(ensure_ascii, indent, separators, sort_keys) of the
// reference library.
func filterJSON(r *renderer, v Value, a arguments) Value {
	style := dumpStyle{item: ", ", key: ": "}
	if ascii, ok := a.get(0, "ensure_ascii"); ok {
		style.ascii = truth(ascii)
	}
	if width, ok := a.get(1, "indent"); ok && width != nil {
		style.item = ","
		if s, ok := width.(string); ok {
			style.indent = s
		} else {
			style.indent = strings.Repeat(" ", int(min(max(whole(width), 0), 100)))
		}
		if style.indent == "" {
			failf(ErrUnsupported, "tojson with indent 0")
		}
	}
	if separators, ok := a.get(2, "separators"); ok && separators != nil {
		list, ok := separators.(*List)
		if !ok || len(list.Items) != 2 {
			failf(ErrTemplate, "tojson: separators are no pair")
		}
		style.item, style.key = textOf(list.Items[0], "separator"), textOf(list.Items[1], "separator")
	}
	if sorted, ok := a.get(3, "sort_keys"); ok {
		style.sorted = truth(sorted)
	}
	return r.text(dump(v, style))
}

func writeJSON(b *strings.Builder, v Value, style dumpStyle, line string) {
	switch x := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(x))
	case string:
		writeJSONText(b, x, style.ascii)
	case int64:
		b.WriteString(strconv.FormatInt(x, 10))
	case float64:
		b.WriteString(map[string]string{"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[floatText(x)])
		if x-x == 0 {
			b.WriteString(floatText(x))
		}
	case *List:
		writeItems(b, "[]", len(x.Items), style, line, func(i int, line string) { writeJSON(b, x.Items[i], style, line) })
	case *Dict:
		keys := x.keys
		if style.sorted {
			keys = sortedCopy(keys)
		}
		writeItems(b, "{}", len(keys), style, line, func(i int, line string) {
			writeJSONText(b, keys[i], style.ascii)
			b.WriteString(style.key)
			writeJSON(b, x.values[keys[i]], style, line)
		})
	default:
		failf(ErrTemplate, "a %s is not JSON serializable", kindOf(v))
	}
}

func writeItems(b *strings.Builder, brackets string, n int, style dumpStyle, line string, item func(i int, line string)) {
	b.WriteByte(brackets[0])
	inner := line + style.indent
	for i := range n {
		if i > 0 {
			b.WriteString(style.item)
		}
		if style.indent != "" {
			b.WriteString(inner)
		}
		item(i, inner)
	}
	if n > 0 && style.indent != "" {
		b.WriteString(line)
	}
	b.WriteByte(brackets[1])
}

func writeJSONText(b *strings.Builder, s string, ascii bool) {
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < 0x20:
			fmt.Fprintf(b, `\u%04x`, r)
		case ascii && r >= 0x10000:
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		case ascii && r >= 0x7f && r != 0x7f:
			fmt.Fprintf(b, `\u%04x`, r)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			b.WriteByte(s[i]) // no UTF-8: kept as it came
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

func sortedCopy(keys []string) []string {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return keys
}

// Text renders a value as chat templates show an argument: dicts and lists as
// JSON, anything else as Python's str does.
func Text(v Value) (text string, err error) {
	defer rescue(&err)
	if is[*Dict](v) || is[*List](v) {
		return JSON(v)
	}
	return str(v), nil
}
