package jinja

import (
	"errors"
	"fmt"
	"runtime"
)

var (
	// ErrUnsupported marks a template that uses what is not done here.
	ErrUnsupported = errors.New("unsupported template")
	// ErrTemplate marks a template that is wrong, or fails on these variables.
	ErrTemplate = errors.New("template failed")
	// ErrLimit marks a template that takes more steps, bytes or depth than any
	// chat template has use for.
	ErrLimit = errors.New("template exceeds its limits")
)

// RaisedError is what the template itself refused with raise_exception.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string { return "template raised: " + e.Message }

// Is makes a RaisedError an ErrTemplate.
func (e *RaisedError) Is(target error) bool { return target == ErrTemplate }

// Limits of one template and one rendering.
const (
	maxSource  = 1 << 20 // bytes
	maxNesting = 100     // of brackets, blocks, calls of macros
	maxSteps   = 1 << 20 // evaluated nodes, plus one for every 64 bytes made
	maxText    = 16 << 20
)

// Template is compiled once and may be rendered by many goroutines at a time.
type Template struct{ body []node }

// Compile parses a template. What it uses and is not done here is ErrUnsupported.
func Compile(source string) (t *Template, err error) {
	defer rescue(&err)
	if len(source) > maxSource {
		failf(ErrLimit, "template of %d bytes, limit %d", len(source), maxSource)
	}
	p := &parser{pieces: lex(source)}
	body := p.body()
	if p.at < len(p.pieces) {
		failf(ErrTemplate, "line %d: %s without its begin", p.pieces[p.at].line, p.pieces[p.at].keyword())
	}
	return &Template{body}, nil
}

// Render renders the template with these variables, which it cannot change.
func (t *Template) Render(variables *Dict) (text string, err error) {
	defer rescue(&err)
	r := &renderer{out: &output{}}
	r.root = &scope{values: map[string]Value{}}
	for _, name := range variables.keys {
		r.root.values[name] = variables.values[name]
	}
	r.scope = r.root
	r.run(t.body)
	return r.out.String(), nil
}

// failure carries an error up to Compile or Render.
type failure struct{ err error }

func failf(kind error, format string, args ...any) {
	panic(failure{fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), kind)})
}

// rescue turns a failure into an error. A fault of this package becomes one
// too: a foreign template must not end the program.
func rescue(err *error) {
	switch cause := recover().(type) {
	case nil:
	case failure:
		*err = cause.err
	case runtime.Error:
		*err = fmt.Errorf("BUG: %w: %w", cause, ErrTemplate)
	default:
		panic(cause)
	}
}
