package jinja

import (
	"math"
	"strings"
	"unicode/utf8"
)

// textMethods are the methods of str.
var textMethods = map[string]func(r *renderer, s string, a arguments) Value{
	"strip":  func(r *renderer, s string, a arguments) Value { return strip(s, a, true, true) },
	"lstrip": func(r *renderer, s string, a arguments) Value { return strip(s, a, true, false) },
	"rstrip": func(r *renderer, s string, a arguments) Value { return strip(s, a, false, true) },
	"startswith": func(r *renderer, s string, a arguments) Value {
		return anyOf(a, func(p string) bool { return strings.HasPrefix(s, p) })
	},
	"endswith": func(r *renderer, s string, a arguments) Value {
		return anyOf(a, func(p string) bool { return strings.HasSuffix(s, p) })
	},
	"split":      func(r *renderer, s string, a arguments) Value { return split(r, s, a, false) },
	"rsplit":     func(r *renderer, s string, a arguments) Value { return split(r, s, a, true) },
	"splitlines": splitLines,
	"replace":    replace,
	"upper":      func(r *renderer, s string, a arguments) Value { return r.text(strings.ToUpper(s)) },
	"lower":      func(r *renderer, s string, a arguments) Value { return r.text(strings.ToLower(s)) },
	"title":      func(r *renderer, s string, a arguments) Value { return r.text(pythonTitle(s)) },
	"capitalize": func(r *renderer, s string, a arguments) Value { return r.text(capitalize(s)) },
	"removeprefix": func(r *renderer, s string, a arguments) Value {
		return strings.TrimPrefix(s, textOf(one(a), "removeprefix"))
	},
	"removesuffix": func(r *renderer, s string, a arguments) Value {
		return strings.TrimSuffix(s, textOf(one(a), "removesuffix"))
	},
	"count": func(r *renderer, s string, a arguments) Value {
		return int64(strings.Count(r.text(s), textOf(one(a), "count")))
	},
	"find": func(r *renderer, s string, a arguments) Value {
		at := strings.Index(r.text(s), textOf(one(a), "find"))
		if at < 0 {
			return int64(-1)
		}
		return int64(utf8.RuneCountInString(s[:at]))
	},
	"join": func(r *renderer, s string, a arguments) Value {
		var parts []string
		for _, item := range r.iterate(one(a)) {
			parts = append(parts, r.text(textOf(item, "an item of join")))
		}
		return r.text(strings.Join(parts, s))
	},
	"isdigit": func(r *renderer, s string, a arguments) Value {
		return s != "" && strings.Trim(s, "0123456789") == ""
	},
}

// dictMethods are the methods of dict.
var dictMethods = map[string]func(r *renderer, d *Dict, a arguments) Value{
	"items": func(r *renderer, d *Dict, a arguments) Value { return pairs(r, d) },
	"keys":  func(r *renderer, d *Dict, a arguments) Value { return &List{Items: r.iterate(d)} },
	"values": func(r *renderer, d *Dict, a arguments) Value {
		out := &List{}
		for _, key := range d.keys {
			out.Items = append(out.Items, d.values[key])
		}
		return out
	},
	"get": func(r *renderer, d *Dict, a arguments) Value {
		key, _ := a.get(0, "key")
		name, isText := key.(string)
		if v, ok := d.values[name]; ok && isText {
			return v
		}
		fallback, _ := a.get(1, "default")
		return fallback
	},
}

// refusedMethods exist in Python and are not done here; their names hide items
// of the same name all the same.
var refusedMethods = map[string][]string{
	"dict": {"copy", "pop", "popitem", "setdefault", "update", "clear", "fromkeys"},
	"list": {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "copy", "index", "count"},
	"str":  {"format", "encode", "partition", "rpartition", "zfill", "ljust", "rjust", "center", "index", "isalpha", "isspace", "isupper", "islower", "swapcase", "casefold", "translate", "format_map", "expandtabs", "rfind"},
}

// method binds a method of a value.
func method(v Value, name string) (Value, bool) {
	switch x := v.(type) {
	case string:
		if f, ok := textMethods[name]; ok {
			return builtin{name, func(r *renderer, a arguments) Value { return f(r, x, a) }}, true
		}
	case *Dict:
		if f, ok := dictMethods[name]; ok {
			return builtin{name, func(r *renderer, a arguments) Value { return f(r, x, a) }}, true
		}
	case *loop:
		if name == "cycle" {
			return builtin{name, func(r *renderer, a arguments) Value {
				if len(a.positional) == 0 {
					failf(ErrTemplate, "cycle of nothing")
				}
				return a.positional[x.at%len(a.positional)]
			}}, true
		}
	}
	kind := kindOf(v)
	for _, refused := range refusedMethods[kind] {
		if refused == name {
			return builtin{name, func(*renderer, arguments) Value {
				failf(ErrUnsupported, "method %s of a %s", name, kind)
				return nil
			}}, true
		}
	}
	return nil, false
}

// strip is str.strip and its kin.
func strip(s string, a arguments, left, right bool) Value {
	cut := isSpace
	if chars, ok := a.get(0, "chars"); ok && chars != nil {
		set := textOf(chars, "what to strip")
		cut = func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	if left {
		s = strings.TrimLeftFunc(s, cut)
	}
	if right {
		s = strings.TrimRightFunc(s, cut)
	}
	return s
}

// anyOf applies a predicate to one text or a tuple of them.
func anyOf(a arguments, holds func(string) bool) bool {
	switch x := one(a).(type) {
	case string:
		return holds(x)
	case *List:
		for _, item := range x.Items {
			if x.tuple && holds(textOf(item, "a prefix or suffix")) {
				return true
			}
		}
		if x.tuple {
			return false
		}
	}
	failf(ErrTemplate, "a prefix or suffix is no text")
	return false
}

// split is str.split and str.rsplit.
func split(r *renderer, s string, a arguments, fromRight bool) Value {
	r.spend(16 * len(s))
	limit := math.MaxInt
	if n, ok := a.get(1, "maxsplit"); ok && whole(n) >= 0 {
		limit = int(whole(n))
	}
	var parts []string
	if by, ok := a.get(0, "sep"); ok && by != nil {
		sep := textOf(by, "what to split by")
		if sep == "" {
			failf(ErrTemplate, "split by nothing")
		}
		parts = splitBy(s, sep, limit, fromRight)
	} else {
		parts = splitSpace(s, limit, fromRight)
	}
	out := &List{}
	for _, part := range parts {
		out.Items = append(out.Items, part)
	}
	return out
}

func splitBy(s, sep string, limit int, fromRight bool) []string {
	parts := strings.Split(s, sep)
	extra := len(parts) - 1 - limit
	if extra <= 0 {
		return parts
	}
	if fromRight {
		return append([]string{strings.Join(parts[:extra+1], sep)}, parts[extra+1:]...)
	}
	return append(parts[:limit:limit], strings.Join(parts[limit:], sep))
}

func splitSpace(s string, limit int, fromRight bool) []string {
	parts := strings.FieldsFunc(s, isSpace)
	if len(parts) <= limit {
		return parts
	}
	if fromRight {
		failf(ErrUnsupported, "rsplit at white space with a limit")
	}
	rest := s
	for range limit {
		rest = strings.TrimLeftFunc(rest, isSpace)
		rest = rest[max(strings.IndexFunc(rest, isSpace), 0):]
	}
	if rest = strings.TrimLeftFunc(rest, isSpace); rest == "" {
		return parts[:limit:limit]
	}
	return append(parts[:limit:limit], rest)
}

// splitLines is str.splitlines for the line ends of text files.
func splitLines(r *renderer, s string, a arguments) Value {
	keep, _ := a.get(0, "keepends")
	out := &List{}
	r.spend(16 * len(s))
	for s != "" {
		end := strings.IndexAny(s, "\n\r")
		next := end + 1
		if end < 0 {
			end, next = len(s), len(s)
		} else if strings.HasPrefix(s[end:], "\r\n") {
			next++
		}
		if truth(keep) {
			end = next
		}
		out.Items = append(out.Items, s[:end])
		s = s[next:]
	}
	return out
}

// pythonTitle is str.title: a letter after no letter is a capital.
func pythonTitle(s string) string {
	var b strings.Builder
	inWord := false
	for _, r := range s {
		letter := strings.ToLower(string(r)) != strings.ToUpper(string(r))
		if letter && !inWord {
			b.WriteString(strings.ToUpper(string(r)))
		} else {
			b.WriteString(strings.ToLower(string(r)))
		}
		inWord = letter
	}
	return b.String()
}
