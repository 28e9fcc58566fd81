package jinja

import (
	"math"
	"slices"
	"strings"
)

// arguments are the evaluated arguments of a call.
type arguments struct {
	positional []Value
	names      []string
	named      []Value
}

// get returns the argument at place i or of that name.
func (a arguments) get(i int, name string) (Value, bool) {
	if i < len(a.positional) {
		return a.positional[i], true
	}
	if at := slices.Index(a.names, name); at >= 0 {
		return a.named[at], true
	}
	return nil, false
}

func (r *renderer) arguments(n argNodes) arguments {
	a := arguments{names: n.names}
	for _, x := range n.positional {
		a.positional = append(a.positional, r.eval(x))
	}
	for _, x := range n.named {
		a.named = append(a.named, r.eval(x))
	}
	return a
}

// eval computes an expression.
func (r *renderer) eval(n node) Value {
	r.spend(0)
	switch n := n.(type) {
	case constNode:
		return n.value
	case nameNode:
		return r.lookup(n.name)
	case listNode:
		list := &List{Items: make([]Value, len(n.items)), tuple: n.tuple}
		for i, item := range n.items {
			list.Items[i] = r.eval(item)
		}
		return list
	case dictNode:
		return r.evalDict(n)
	case attrNode:
		return r.attribute(r.eval(n.value), n.name)
	case itemNode:
		return r.item(r.eval(n.value), r.eval(n.key))
	case sliceNode:
		return r.evalSlice(n)
	case callNode:
		return r.call(n)
	case filterNode:
		return filters[n.name](r, r.eval(n.value), r.arguments(n.args))
	case testNode:
		return tests[n.name](r, r.eval(n.value), r.arguments(n.args)) != n.negate
	case condNode:
		if truth(r.eval(n.test)) {
			return r.eval(n.then)
		}
		if n.otherwise == nil {
			return undefined{"the value of an if without else"}
		}
		return r.eval(n.otherwise)
	case notNode:
		return !truth(r.eval(n.value))
	case negNode:
		switch x := r.eval(n.value).(type) {
		case float64:
			return -x
		case int64:
			return -x
		default:
			failf(ErrTemplate, "minus a %s", kindOf(x))
		}
	case compareNode:
		return r.evalCompare(n)
	case binaryNode:
		return r.evalBinary(n)
	}
	failf(ErrUnsupported, "expression %T", n)
	return nil
}

func (r *renderer) lookup(name string) Value {
	if v, ok := r.scope.find(name); ok {
		return v
	}
	if v, ok := globals[name]; ok {
		return v
	}
	return undefined{name}
}

func (r *renderer) evalDict(n dictNode) Value {
	d := NewDict()
	for i, key := range n.keys {
		k, ok := r.eval(key).(string)
		if !ok {
			failf(ErrUnsupported, "dict with a key that is no text")
		}
		d.Set(k, r.eval(n.values[i]))
	}
	return d
}

// attribute is value.name: a method or field, else the item of that name.
func (r *renderer) attribute(v Value, name string) Value {
	if u, ok := v.(undefined); ok {
		failf(ErrTemplate, "%s is undefined", u.what)
	}
	if m, ok := method(v, name); ok {
		return m
	}
	switch x := v.(type) {
	case *Dict:
		if item, ok := x.Get(name); ok {
			return item
		}
	case *namespace:
		if item, ok := x.Get(name); ok {
			return item
		}
	case *loop:
		if field, ok := x.field(name); ok {
			return field
		}
	}
	return undefined{kindOf(v) + "." + name}
}

// item is value[key]: an item, else the attribute of that name.
func (r *renderer) item(v, key Value) Value {
	if u, ok := v.(undefined); ok {
		failf(ErrTemplate, "%s is undefined", u.what)
	}
	if name, ok := key.(string); ok {
		if d, ok := v.(*Dict); ok {
			if item, ok := d.Get(name); ok {
				return item
			}
		}
		return r.attribute(v, name)
	}
	at, ok := integer(key)
	if !ok {
		return undefined{kindOf(v) + " item"}
	}
	switch x := v.(type) {
	case *List:
		if at < 0 {
			at += int64(len(x.Items))
		}
		if at >= 0 && at < int64(len(x.Items)) {
			return x.Items[at]
		}
	case string:
		runes := []rune(r.text(x))
		if at < 0 {
			at += int64(len(runes))
		}
		if at >= 0 && at < int64(len(runes)) {
			return string(runes[at])
		}
	}
	return undefined{kindOf(v) + " item"}
}

// field returns a field of the loop variable.
func (l *loop) field(name string) (Value, bool) {
	n := len(l.items)
	at := func(i int) Value {
		if i < 0 || i >= n {
			return undefined{"loop." + name}
		}
		return l.items[i]
	}
	switch name {
	case "index":
		return int64(l.at + 1), true
	case "index0":
		return int64(l.at), true
	case "revindex":
		return int64(n - l.at), true
	case "revindex0":
		return int64(n - l.at - 1), true
	case "first":
		return l.at == 0, true
	case "last":
		return l.at == n-1, true
	case "length":
		return int64(n), true
	case "depth":
		return int64(l.depth), true
	case "depth0":
		return int64(l.depth - 1), true
	case "previtem":
		return at(l.at - 1), true
	case "nextitem":
		return at(l.at + 1), true
	}
	return nil, false
}

// evalSlice is value[from:to:step].
func (r *renderer) evalSlice(n sliceNode) Value {
	v := r.eval(n.value)
	bound := func(n node) (int, bool) {
		if n == nil {
			return 0, false
		}
		x := r.eval(n)
		if x == nil {
			return 0, false
		}
		i, ok := integer(x)
		if !ok || i > math.MaxInt32 || i < math.MinInt32 {
			failf(ErrTemplate, "slice bound %s", kindOf(x))
		}
		return int(i), true
	}
	from, hasFrom := bound(n.from)
	to, hasTo := bound(n.to)
	step, hasStep := bound(n.step)
	if !hasStep {
		step = 1
	}
	if step == 0 {
		failf(ErrTemplate, "slice step 0")
	}
	items := r.iterate(v)
	size := len(items)
	clip := func(i int, given bool, fallback, low, high int) int {
		if !given {
			return fallback
		}
		if i < 0 {
			i += size
		}
		return min(max(i, low), high)
	}
	if step > 0 {
		from, to = clip(from, hasFrom, 0, 0, size), clip(to, hasTo, size, 0, size)
	} else {
		from, to = clip(from, hasFrom, size-1, -1, size-1), clip(to, hasTo, -1, -1, size-1)
	}
	var kept []Value
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		kept = append(kept, items[i])
	}
	switch x := v.(type) {
	case string:
		var b strings.Builder
		for _, c := range kept {
			b.WriteString(c.(string))
		}
		return r.text(b.String())
	case *List:
		return &List{kept, x.tuple}
	}
	failf(ErrTemplate, "slice of a %s", kindOf(v))
	return nil
}

func (r *renderer) call(n callNode) Value {
	target := r.eval(n.value)
	args := r.arguments(n.args)
	switch f := target.(type) {
	case builtin:
		return f.call(r, args)
	case *macro:
		return f.call(r, args)
	case undefined:
		failf(ErrUnsupported, "call of %s, which is undefined", f.what)
	}
	failf(ErrTemplate, "call of a %s", kindOf(target))
	return nil
}

func (r *renderer) evalCompare(n compareNode) Value {
	left := r.eval(n.first)
	for i, op := range n.ops {
		right := r.eval(n.rest[i])
		var ok bool
		switch op {
		case "==":
			ok = equal(left, right)
		case "!=":
			ok = !equal(left, right)
		case "in":
			ok = r.contains(right, left)
		case "not in":
			ok = !r.contains(right, left)
		case "<":
			ok = compare(left, right) < 0
		case "<=":
			ok = compare(left, right) <= 0
		case ">":
			ok = compare(left, right) > 0
		case ">=":
			ok = compare(left, right) >= 0
		}
		if !ok {
			return false
		}
		left = right
	}
	return true
}

// contains is Python's in.
func (r *renderer) contains(v, part Value) bool {
	switch x := v.(type) {
	case string:
		s, ok := part.(string)
		if !ok {
			failf(ErrTemplate, "a %s in a str", kindOf(part))
		}
		r.spend(len(x))
		return strings.Contains(x, s)
	case *Dict:
		s, ok := part.(string)
		_, found := x.values[s]
		return ok && found
	}
	return slices.ContainsFunc(r.iterate(v), func(item Value) bool { return equal(item, part) })
}

func (r *renderer) evalBinary(n binaryNode) Value {
	left := r.eval(n.left)
	switch n.op {
	case "and":
		if !truth(left) {
			return left
		}
		return r.eval(n.right)
	case "or":
		if truth(left) {
			return left
		}
		return r.eval(n.right)
	}
	right := r.eval(n.right)
	if n.op == "~" {
		return r.text(str(left) + str(right))
	}
	for _, v := range []Value{left, right} {
		if u, ok := v.(undefined); ok {
			failf(ErrTemplate, "%s is undefined", u.what)
		}
	}
	if v, ok := r.sequence(n.op, left, right); ok {
		return v
	}
	a, okA := number(left)
	b, okB := number(right)
	if !okA || !okB {
		kind := ErrTemplate
		if _, ok := left.(string); ok && n.op == "%" {
			kind = ErrUnsupported
		}
		failf(kind, "%s %s %s", kindOf(left), n.op, kindOf(right))
	}
	i, intA := integer(left)
	j, intB := integer(right)
	if intA && intB && n.op != "/" {
		return integers(n.op, i, j)
	}
	return floats(n.op, a, b)
}

// sequence does + and * on texts and lists.
func (r *renderer) sequence(op string, left, right Value) (Value, bool) {
	switch x := left.(type) {
	case string:
		if y, ok := right.(string); ok && op == "+" {
			return r.text(x + y), true
		}
		if n, ok := right.(int64); ok && op == "*" {
			n = max(n, 0)
			if n > maxText || n > 0 && len(x) > maxText/int(n) {
				failf(ErrLimit, "text of %d times %d bytes", n, len(x))
			}
			return r.text(strings.Repeat(x, int(n))), true
		}
	case *List:
		if y, ok := right.(*List); ok && op == "+" && x.tuple == y.tuple {
			r.spend(16 * (len(x.Items) + len(y.Items)))
			return &List{slices.Concat(x.Items, y.Items), x.tuple}, true
		}
	}
	return nil, false
}

// integers does arithmetic on integers; a result beyond 64 bits fails.
func integers(op string, a, b int64) Value {
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c
		}
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c
		}
	case "*":
		if a == 0 || b == 0 {
			return int64(0)
		}
		if c := a * b; c/b == a && (a != -1 || b != math.MinInt64) && (b != -1 || a != math.MinInt64) {
			return c
		}
	case "//", "%":
		if b == 0 {
			failf(ErrTemplate, "division by zero")
		}
		quotient, rest := a/b, a%b
		if rest != 0 && (rest < 0) != (b < 0) {
			quotient, rest = quotient-1, rest+b
		}
		if op == "%" {
			return rest
		}
		return quotient
	case "**":
		if c := math.Pow(float64(a), float64(b)); b >= 0 && math.Abs(c) < 1<<53 {
			return int64(c)
		} else if b < 0 {
			return c
		}
	}
	failf(ErrUnsupported, "%d %s %d", a, op, b)
	return nil
}

func floats(op string, a, b float64) Value {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "**":
		return math.Pow(a, b)
	}
	if b == 0 {
		failf(ErrTemplate, "division by zero")
	}
	switch op {
	case "//":
		return math.Floor(a / b)
	case "%":
		rest := math.Mod(a, b)
		if rest != 0 && (rest < 0) != (b < 0) {
			rest += b
		}
		return rest
	}
	return a / b
}
