package jinja

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// filters are what may follow "|". It is filled by init, because select and its
// kin refer back to it.
var filters map[string]func(r *renderer, v Value, a arguments) Value

func init() {
	filters = map[string]func(r *renderer, v Value, a arguments) Value{
		"tojson": filterJSON, "default": filterDefault, "d": filterDefault, "join": filterJoin,
		"length": filterLength, "count": filterLength, "replace": filterReplace, "map": filterMap,
		"select":     func(r *renderer, v Value, a arguments) Value { return choose(r, v, a, false, true) },
		"reject":     func(r *renderer, v Value, a arguments) Value { return choose(r, v, a, false, false) },
		"selectattr": func(r *renderer, v Value, a arguments) Value { return choose(r, v, a, true, true) },
		"rejectattr": func(r *renderer, v Value, a arguments) Value { return choose(r, v, a, true, false) },
		"trim":       func(r *renderer, v Value, a arguments) Value { return strip(str(v), a, true, true) },
		"upper":      func(r *renderer, v Value, _ arguments) Value { return r.text(strings.ToUpper(str(v))) },
		"lower":      func(r *renderer, v Value, _ arguments) Value { return r.text(strings.ToLower(str(v))) },
		"title":      func(r *renderer, v Value, _ arguments) Value { return r.text(title(str(v))) },
		"capitalize": func(r *renderer, v Value, _ arguments) Value { return r.text(capitalize(str(v))) },
		"string":     func(r *renderer, v Value, _ arguments) Value { return r.text(str(v)) },
		"safe":       func(_ *renderer, v Value, _ arguments) Value { return v },
		"list":       func(r *renderer, v Value, _ arguments) Value { return &List{Items: r.iterate(v)} },
		"items":      func(r *renderer, v Value, _ arguments) Value { return pairs(r, v) },
		"dictsort":   filterDictSort,
		"sort":       filterSort,
		"unique":     filterUnique,
		"reverse":    filterReverse,
		"int":        filterInt,
		"float":      filterFloat,
		"abs":        filterAbs,
		"round":      filterRound,
		"indent":     filterIndent,
		"first": func(r *renderer, v Value, _ arguments) Value {
			if items := r.iterate(v); len(items) > 0 {
				return items[0]
			}
			return undefined{"first of nothing"}
		},
		"last": func(r *renderer, v Value, _ arguments) Value {
			if items := r.iterate(v); len(items) > 0 {
				return items[len(items)-1]
			}
			return undefined{"last of nothing"}
		},
	}
}

func filterDefault(_ *renderer, v Value, a arguments) Value {
	by, ok := a.get(0, "default_value")
	if !ok {
		by = ""
	}
	falsy, _ := a.get(1, "boolean")
	if is[undefined](v) || truth(falsy) && !truth(v) {
		return by
	}
	return v
}

func filterLength(r *renderer, v Value, _ arguments) Value {
	switch x := v.(type) {
	case string:
		return int64(utf8.RuneCountInString(r.text(x)))
	case *List:
		return int64(len(x.Items))
	case *Dict:
		return int64(len(x.keys))
	case undefined:
		return int64(0)
	}
	failf(ErrTemplate, "length of a %s", kindOf(v))
	return nil
}

func filterJoin(r *renderer, v Value, a arguments) Value {
	by, _ := a.get(0, "d")
	if by == nil {
		by = ""
	}
	attribute, hasAttribute := a.get(1, "attribute")
	var parts []string
	for _, item := range r.iterate(v) {
		if hasAttribute {
			item = r.item(item, attribute)
		}
		parts = append(parts, r.text(str(item)))
	}
	return r.text(strings.Join(parts, str(by)))
}

func filterReplace(r *renderer, v Value, a arguments) Value {
	return replace(r, str(v), a)
}

// replace is str.replace(old, new, count).
func replace(r *renderer, s string, a arguments) Value {
	old, ok := a.get(0, "old")
	by, ok2 := a.get(1, "new")
	if !ok || !ok2 {
		failf(ErrTemplate, "replace needs two texts")
	}
	n := -1
	if count, ok := a.get(2, "count"); ok && count != nil {
		n = int(max(min(whole(count), math.MaxInt32), -1))
	}
	from, to := textOf(old, "replace"), textOf(by, "replace")
	if found := strings.Count(s, from); len(to) > 0 && found > maxText/len(to) {
		failf(ErrLimit, "replace makes a text of %d times %d bytes", found, len(to))
	}
	return r.text(strings.Replace(s, from, to, n))
}

// filterMap is map(attribute=...) or map("filter", arguments...).
func filterMap(r *renderer, v Value, a arguments) Value {
	out := &List{}
	attribute, byAttribute := a.get(math.MaxInt, "attribute")
	fallback, ok := a.get(math.MaxInt, "default")
	if !ok {
		fallback = undefined{"default"}
	}
	var apply func(*renderer, Value, arguments) Value
	if !byAttribute {
		if len(a.positional) == 0 {
			failf(ErrTemplate, "map without a filter")
		}
		name := textOf(a.positional[0], "the filter of map")
		if apply = filters[name]; apply == nil {
			failf(ErrUnsupported, "filter %q", name)
		}
		a.positional = a.positional[1:]
	}
	for _, item := range r.iterate(v) {
		if byAttribute {
			item = path(r, item, attribute, fallback)
		} else {
			item = apply(r, item, a)
		}
		out.Items = append(out.Items, item)
	}
	return out
}

// path follows an attribute like a.b.0; fallback, unless undefined, stands for
// what is not there on the way.
func path(r *renderer, v, attribute, fallback Value) Value {
	keys := []Value{attribute}
	if name, ok := attribute.(string); ok {
		keys = nil
		for _, part := range strings.Split(name, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil {
				keys = append(keys, n)
			} else {
				keys = append(keys, part)
			}
		}
	}
	for _, key := range keys {
		if v = r.item(v, key); is[undefined](v) && !is[undefined](fallback) {
			v = fallback
		}
	}
	return v
}

// choose keeps the items, or their attribute, for which a test says want.
func choose(r *renderer, v Value, a arguments, byAttribute, want bool) Value {
	out := &List{}
	var attribute Value
	if byAttribute {
		if len(a.positional) == 0 {
			failf(ErrTemplate, "no attribute to select by")
		}
		attribute, a.positional = a.positional[0], a.positional[1:]
	}
	test := func(_ *renderer, v Value, _ arguments) bool { return truth(v) }
	if len(a.positional) > 0 {
		name := textOf(a.positional[0], "the test of select")
		if test = tests[name]; test == nil {
			failf(ErrUnsupported, "test %q", name)
		}
		a.positional = a.positional[1:]
	}
	for _, item := range r.iterate(v) {
		tested := item
		if byAttribute {
			tested = path(r, item, attribute, undefined{})
		}
		if test(r, tested, a) == want {
			out.Items = append(out.Items, item)
		}
	}
	return out
}

// pairs is dict.items().
func pairs(r *renderer, v Value) Value {
	if is[undefined](v) {
		return &List{}
	}
	d, ok := v.(*Dict)
	if !ok {
		failf(ErrTemplate, "items of a %s", kindOf(v))
	}
	r.spend(32 * len(d.keys))
	out := &List{}
	for _, key := range d.keys {
		out.Items = append(out.Items, &List{[]Value{key, d.values[key]}, true})
	}
	return out
}

// folded lower-cases a text for sorting, unless case counts.
func folded(v Value, a arguments, place int) Value {
	sensitive, _ := a.get(place, "case_sensitive")
	if s, ok := v.(string); ok && !truth(sensitive) {
		return strings.ToLower(s)
	}
	return v
}

func filterDictSort(r *renderer, v Value, a arguments) Value {
	if by, ok := a.get(1, "by"); ok && by != "key" {
		failf(ErrUnsupported, "dictsort by %s", str(by))
	}
	list := pairs(r, v).(*List)
	sort.SliceStable(list.Items, func(i, j int) bool {
		return compare(folded(list.Items[i].(*List).Items[0], a, 0), folded(list.Items[j].(*List).Items[0], a, 0)) < 0
	})
	if down, _ := a.get(2, "reverse"); truth(down) {
		slices.Reverse(list.Items)
	}
	return list
}

func filterSort(r *renderer, v Value, a arguments) Value {
	items := r.iterate(v)
	r.spend(64 * len(items))
	attribute, byAttribute := a.get(2, "attribute")
	key := func(v Value) Value {
		if byAttribute {
			v = path(r, v, attribute, undefined{})
		}
		return folded(v, a, 1)
	}
	down, _ := a.get(0, "reverse")
	sort.SliceStable(items, func(i, j int) bool {
		if truth(down) {
			i, j = j, i
		}
		return compare(key(items[i]), key(items[j])) < 0
	})
	return &List{Items: items}
}

func filterUnique(r *renderer, v Value, a arguments) Value {
	var seen []Value
	out := &List{}
	for _, item := range r.iterate(v) {
		key := folded(item, a, 0)
		r.spend(16 * len(seen))
		if !slices.ContainsFunc(seen, func(v Value) bool { return equal(v, key) }) {
			seen = append(seen, key)
			out.Items = append(out.Items, item)
		}
	}
	return out
}

func filterReverse(r *renderer, v Value, _ arguments) Value {
	items := r.iterate(v)
	slices.Reverse(items)
	if !is[string](v) {
		return &List{Items: items}
	}
	var b strings.Builder
	for _, c := range items {
		b.WriteString(c.(string))
	}
	return b.String()
}

func filterInt(_ *renderer, v Value, a arguments) Value {
	switch x := v.(type) {
	case float64:
		if math.Abs(x) < 1<<62 {
			return int64(x)
		}
	case string:
		s := strings.TrimFunc(x, isSpace)
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(f) < 1<<62 {
			return int64(f)
		}
	default:
		if n, ok := integer(v); ok {
			return n
		}
	}
	if by, ok := a.get(0, "default"); ok {
		return by
	}
	return int64(0)
}

func filterFloat(_ *renderer, v Value, a arguments) Value {
	if x, ok := number(v); ok {
		return x
	}
	if s, ok := v.(string); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(s, isSpace), 64); err == nil {
			return f
		}
	}
	if by, ok := a.get(0, "default"); ok {
		return by
	}
	return 0.0
}

func filterAbs(_ *renderer, v Value, _ arguments) Value {
	if n, ok := integer(v); ok {
		return max(n, -n)
	}
	if x, ok := v.(float64); ok {
		return math.Abs(x)
	}
	failf(ErrTemplate, "abs of a %s", kindOf(v))
	return nil
}

func filterRound(_ *renderer, v Value, a arguments) Value {
	x, ok := number(v)
	places, given := a.get(0, "precision")
	if !ok || len(a.positional) > 1 || slices.Contains(a.names, "method") {
		failf(ErrUnsupported, "round of a %s or with a method", kindOf(v))
	}
	if !given {
		return math.RoundToEven(x)
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', int(min(max(whole(places), 0), 300)), 64), 64)
	if err != nil {
		failf(ErrTemplate, "round: %v", err)
	}
	return rounded
}

func filterIndent(r *renderer, v Value, a arguments) Value {
	by := "    "
	if width, ok := a.get(0, "width"); ok {
		if s, ok := width.(string); ok {
			by = s
		} else {
			by = strings.Repeat(" ", int(min(max(whole(width), 0), 1000)))
		}
	}
	first, _ := a.get(1, "first")
	blank, _ := a.get(2, "blank")
	lines := strings.Split(str(v), "\n")
	for i := range lines {
		if (i > 0 || truth(first)) && (lines[i] != "" || truth(blank)) {
			lines[i] = by + lines[i]
		}
		r.spend(len(lines[i]))
	}
	return r.text(strings.Join(lines, "\n"))
}

func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + strings.ToLower(s[n:])
}

// title capitalizes after everything that is no letter or digit, as the filter does
// for the separators that matter.
func title(s string) string {
	var b strings.Builder
	start := true
	for _, r := range s {
		if start {
			b.WriteRune(unicode.ToUpper(r))
		} else {
			b.WriteRune(unicode.ToLower(r))
		}
		start = isSpace(r) || strings.ContainsRune("-({[<", r)
	}
	return b.String()
}
