package jinja

var globals = map[string]Value{
	"range":     builtin{"range", callRange},
	"namespace": builtin{"namespace", func(r *renderer, a arguments) Value { return &namespace{makeDict(a)} }},
	"dict":      builtin{"dict", func(r *renderer, a arguments) Value { return makeDict(a) }},
	"raise_exception": builtin{"raise_exception", func(r *renderer, a arguments) Value {
		message, _ := a.get(0, "message")
		panic(failure{&RaisedError{str(message)}})
	}},
}

// makeDict is dict(name=value, ...), over a dict when there is one.
func makeDict(a arguments) *Dict {
	d := NewDict()
	for _, v := range a.positional {
		from, ok := v.(*Dict)
		if !ok {
			failf(ErrUnsupported, "dict of a %s", kindOf(v))
		}
		for _, key := range from.keys {
			d.Set(key, from.values[key])
		}
	}
	for i, name := range a.names {
		d.Set(name, a.named[i])
	}
	return d
}

func callRange(r *renderer, a arguments) Value {
	bounds := []int64{0, 0, 1}
	for i, v := range a.positional {
		n, ok := integer(v)
		if !ok || i > 2 {
			failf(ErrTemplate, "range of a %s", kindOf(v))
		}
		bounds[i] = n
	}
	if len(a.positional) < 2 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	from, to, step := bounds[0], bounds[1], bounds[2]
	if step == 0 || len(a.positional) == 0 {
		failf(ErrTemplate, "range without a bound or with step 0")
	}
	list := &List{}
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		r.spend(16)
		list.Items = append(list.Items, i)
	}
	return list
}

// tests are what may follow "is".
var tests = map[string]func(r *renderer, v Value, a arguments) bool{
	"defined":   func(_ *renderer, v Value, _ arguments) bool { return !is[undefined](v) },
	"undefined": func(_ *renderer, v Value, _ arguments) bool { return is[undefined](v) },
	"none":      func(_ *renderer, v Value, _ arguments) bool { return v == nil },
	"string":    func(_ *renderer, v Value, _ arguments) bool { return is[string](v) },
	"mapping":   func(_ *renderer, v Value, _ arguments) bool { return is[*Dict](v) },
	"boolean":   func(_ *renderer, v Value, _ arguments) bool { return is[bool](v) },
	"integer":   func(_ *renderer, v Value, _ arguments) bool { return is[int64](v) },
	"float":     func(_ *renderer, v Value, _ arguments) bool { return is[float64](v) },
	"number":    func(_ *renderer, v Value, _ arguments) bool { _, ok := number(v); return ok },
	"true":      func(_ *renderer, v Value, _ arguments) bool { return v == true },
	"false":     func(_ *renderer, v Value, _ arguments) bool { return v == false },
	"iterable":  func(_ *renderer, v Value, _ arguments) bool { return is[undefined](v) || sized(v) },
	"sequence":  func(_ *renderer, v Value, _ arguments) bool { return is[undefined](v) || sized(v) },
	"callable":  func(_ *renderer, v Value, _ arguments) bool { return is[builtin](v) || is[*macro](v) },
	"odd":       func(_ *renderer, v Value, _ arguments) bool { return whole(v)%2 != 0 },
	"even":      func(_ *renderer, v Value, _ arguments) bool { return whole(v)%2 == 0 },
	"divisibleby": func(_ *renderer, v Value, a arguments) bool {
		return integers("%", whole(v), whole(one(a))) == int64(0)
	},
	"eq":      func(_ *renderer, v Value, a arguments) bool { return equal(v, one(a)) },
	"equalto": func(_ *renderer, v Value, a arguments) bool { return equal(v, one(a)) },
	"ne":      func(_ *renderer, v Value, a arguments) bool { return !equal(v, one(a)) },
	"lt":      func(_ *renderer, v Value, a arguments) bool { return compare(v, one(a)) < 0 },
	"le":      func(_ *renderer, v Value, a arguments) bool { return compare(v, one(a)) <= 0 },
	"gt":      func(_ *renderer, v Value, a arguments) bool { return compare(v, one(a)) > 0 },
	"ge":      func(_ *renderer, v Value, a arguments) bool { return compare(v, one(a)) >= 0 },
	"in":      func(r *renderer, v Value, a arguments) bool { return r.contains(one(a), v) },
}

func is[T any](v Value) bool { _, ok := v.(T); return ok }

func sized(v Value) bool { return is[string](v) || is[*List](v) || is[*Dict](v) }

// one is the only argument.
func one(a arguments) Value {
	if len(a.positional) != 1 || len(a.names) > 0 {
		failf(ErrTemplate, "%d arguments where one should be", len(a.positional)+len(a.names))
	}
	return a.positional[0]
}

func whole(v Value) int64 {
	n, ok := integer(v)
	if !ok {
		failf(ErrTemplate, "a %s is no integer", kindOf(v))
	}
	return n
}

// textOf is a text, or fails.
func textOf(v Value, what string) string {
	s, ok := v.(string)
	if !ok {
		failf(ErrTemplate, "%s is a %s, not a str", what, kindOf(v))
	}
	return s
}
