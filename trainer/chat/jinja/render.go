package jinja

import (
	"slices"
	"strings"
)

// scope holds the variables of a template, a loop's pass or a macro's call.
type scope struct {
	values map[string]Value
	parent *scope
}

func (s *scope) find(name string) (Value, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.values[name]; ok {
			return v, true
		}
	}
	return nil, false
}

// renderer is one rendering in progress.
type renderer struct {
	out         *output
	root, scope *scope
	steps       int
	depth       int
}

// output collects text within the limit.
type output struct{ strings.Builder }

// spend counts the work of one node and of bytes made.
func (r *renderer) spend(bytes int) {
	r.steps += 1 + bytes/64
	if r.steps > maxSteps {
		failf(ErrLimit, "more than %d steps", maxSteps)
	}
}

// text checks a text that was made.
func (r *renderer) text(s string) string {
	r.spend(len(s))
	if len(s) > maxText {
		failf(ErrLimit, "text of %d bytes", len(s))
	}
	return s
}

func (r *renderer) write(s string) {
	r.spend(len(s))
	if r.out.Len()+len(s) > maxText {
		failf(ErrLimit, "more than %d bytes of output", maxText)
	}
	r.out.WriteString(s)
}

// jump says how a body ended.
type jump int

const (
	through jump = iota
	leaveLoop
	nextPass
)

func (r *renderer) run(body []node) jump {
	for _, n := range body {
		r.spend(0)
		switch n := n.(type) {
		case textNode:
			r.write(n.text)
		case outNode:
			r.write(str(r.eval(n.value)))
		case ifNode:
			if j := r.runIf(n); j != through {
				return j
			}
		case forNode:
			r.runFor(n)
		case setNode:
			r.runSet(n)
		case macroNode:
			r.scope.values[n.name] = &macro{n}
		case jumpNode:
			if n.leave {
				return leaveLoop
			}
			return nextPass
		}
	}
	return through
}

func (r *renderer) runIf(n ifNode) jump {
	for i, test := range n.tests {
		if truth(r.eval(test)) {
			return r.run(n.bodies[i])
		}
	}
	if len(n.bodies) > len(n.tests) {
		return r.run(n.bodies[len(n.tests)])
	}
	return through
}

// within runs a body with variables of its own.
func (r *renderer) within(s *scope, body func() jump) jump {
	outer := r.scope
	r.scope = s
	defer func() { r.scope = outer }()
	return body()
}

// capture returns what a body writes.
func (r *renderer) capture(body func()) string {
	outer := r.out
	r.out = &output{}
	defer func() { r.out = outer }()
	body()
	return r.out.String()
}

// loop is the variable of that name inside a loop.
type loop struct {
	items []Value
	at    int
	depth int
}

func (r *renderer) runFor(n forNode) {
	items := r.iterate(r.eval(n.items))
	if n.filter != nil {
		kept := []Value{}
		for _, item := range items {
			s := &scope{values: map[string]Value{}, parent: r.scope}
			bind(s, n.targets, item)
			r.within(s, func() jump {
				if truth(r.eval(n.filter)) {
					kept = append(kept, item)
				}
				return through
			})
		}
		items = kept
	}
	if len(items) == 0 {
		r.within(&scope{values: map[string]Value{}, parent: r.scope}, func() jump { return r.run(n.fallback) })
		return
	}
	state := &loop{items: items, depth: 1}
	if outer, ok := r.scope.find("loop"); ok {
		if l, ok := outer.(*loop); ok {
			state.depth = l.depth + 1
		}
	}
	for i, item := range items {
		r.spend(0)
		state.at = i
		s := &scope{values: map[string]Value{"loop": state}, parent: r.scope}
		bind(s, n.targets, item)
		if r.within(s, func() jump { return r.run(n.body) }) == leaveLoop {
			return
		}
	}
}

// bind puts an item into its targets.
func bind(s *scope, targets []string, item Value) {
	if len(targets) == 1 {
		s.values[targets[0]] = item
		return
	}
	list, ok := item.(*List)
	if !ok || len(list.Items) != len(targets) {
		failf(ErrTemplate, "a %s does not unpack into %d names", kindOf(item), len(targets))
	}
	for i, name := range targets {
		s.values[name] = list.Items[i]
	}
}

// iterate returns the items of a value as Python's iter does.
func (r *renderer) iterate(v Value) []Value {
	switch x := v.(type) {
	case undefined:
		return nil
	case string:
		items := make([]Value, 0, len(x))
		for _, c := range x {
			items = append(items, string(c))
		}
		r.spend(16 * len(x))
		return items
	case *List:
		r.spend(16 * len(x.Items))
		return slices.Clone(x.Items)
	case *Dict:
		items := make([]Value, len(x.keys))
		for i, key := range x.keys {
			items[i] = key
		}
		r.spend(16 * len(items))
		return items
	}
	failf(ErrTemplate, "a %s is not iterable", kindOf(v))
	return nil
}

func (r *renderer) runSet(n setNode) {
	var v Value
	if n.value != nil {
		v = r.eval(n.value)
	} else {
		v = r.capture(func() { r.run(n.body) })
	}
	if n.field == "" {
		bind(r.scope, n.targets, v)
		return
	}
	target, _ := r.scope.find(n.targets[0])
	ns, ok := target.(*namespace)
	if !ok || len(n.targets) > 1 {
		failf(ErrTemplate, "set %s.%s: not a namespace", n.targets[0], n.field)
	}
	ns.Set(n.field, v)
}

// macro is a function that the template defines.
type macro struct{ macroNode }

// call runs the macro over the template's own variables, not the caller's.
func (m *macro) call(r *renderer, a arguments) Value {
	r.depth++
	defer func() { r.depth-- }()
	if r.depth > maxNesting {
		failf(ErrLimit, "macro %s: calls nested deeper than %d", m.name, maxNesting)
	}
	if len(a.positional) > len(m.params) {
		failf(ErrTemplate, "macro %s takes %d arguments, not %d", m.name, len(m.params), len(a.positional))
	}
	for _, name := range a.names {
		if !slices.Contains(m.params, name) {
			failf(ErrTemplate, "macro %s has no parameter %s", m.name, name)
		}
	}
	s := &scope{values: map[string]Value{}, parent: r.root}
	return r.capture(func() {
		r.within(s, func() jump {
			for i, name := range m.params {
				v, given := a.get(i, name)
				if first := len(m.params) - len(m.defaults); !given && i >= first {
					v, given = r.eval(m.defaults[i-first]), true
				}
				if !given {
					v = undefined{name}
				}
				s.values[name] = v
			}
			return r.run(m.body)
		})
	})
}
