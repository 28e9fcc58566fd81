package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Boundary is the border that an error crossed.
type Boundary string

// The boundaries of a run.
const (
	AtHarness  Boundary = "harness"
	AtSandbox  Boundary = "sandbox"
	AtPolicy   Boundary = "policy"
	AtVerifier Boundary = "verifier"
	AtTask     Boundary = "task"
	AtDevice   Boundary = "device"
	AtArchive  Boundary = "archive"
)

// Failure is an error with the boundary it crossed and the thing it happened to. It
// prints as one line: `sandbox h12ab: worker died: exit status 2`.
type Failure struct {
	Boundary Boundary
	Thing    string
	Err      error
}

// Error is one line: "BOUNDARY THING: cause".
func (f *Failure) Error() string {
	name := fmt.Sprintf("%s %s: ", f.Boundary, f.Thing)
	return name + strings.TrimPrefix(f.Err.Error(), name) // a device names itself
}

// Unwrap gives errors.Is and errors.As the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Fail wraps an error with its boundary; nil stays nil.
func Fail(at Boundary, thing string, err error) error {
	if err == nil {
		return nil
	}
	return &Failure{Boundary: at, Thing: thing, Err: err}
}

// wrap is Fail for an error that may already name its boundary.
func (b Boundary) wrap(thing string, err error) error {
	var f *Failure
	if errors.As(err, &f) {
		return err
	}
	return Fail(b, thing, err)
}

// oneLine is an error as text for a record.
func oneLine(err error) string { return valid(strings.Join(strings.Fields(err.Error()), " ")) }

// guard calls foreign code; a panic in it becomes a failure at its boundary.
func guard(at Boundary, thing string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Fail(at, thing, fmt.Errorf("panic: %v", p))
		}
	}()
	return f()
}

// Errors while a session runs. A harness sees them as kit.ErrBudget, kit.ErrTool and
// kit.ErrContext.
var (
	ErrBudget  = errors.New("budget used up")
	ErrTool    = errors.New("bad tool call")
	ErrContext = errors.New("bad context")
)

// LoadError says why a candidate can't be run, in a form that a proposer can act on.
type LoadError struct {
	Line   int    `json:"line"` // 1-based; 0 = the whole file
	Column int    `json:"column"`
	Rule   string `json:"rule"` // which check refused it: parse, type, contract, or a vet rule
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"` // what to write instead, if known
}

// Error is one line with place, rule, reason and, behind a semicolon, the hint.
func (e *LoadError) Error() string {
	text := fmt.Sprintf("harness %d:%d: %s: %s", e.Line, e.Column, e.Rule, e.Reason)
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// HarnessError: the harness returned an error or panicked.
type HarnessError struct {
	Panic bool
	Text  string
}

// Error is "harness: " and what the harness said, which may have several lines.
func (e *HarnessError) Error() string {
	if e.Panic {
		return "harness: panic: " + e.Text
	}
	return "harness: " + e.Text
}

// StallError is a service's answer that was not whole in time. It is a context.DeadlineExceeded.
type StallError struct {
	Limit   time.Duration
	Setting string // what sets the limit, in the words of the user's interface; may be empty
}

func (e *StallError) Error() string {
	text := fmt.Sprintf("no whole answer in %v", e.Limit)
	if e.Setting != "" {
		text += fmt.Sprintf("; %s sets how long is waited", e.Setting)
	}
	return text
}

// Unwrap gives errors.Is the deadline.
func (e *StallError) Unwrap() error { return context.DeadlineExceeded }

// LimitError: a rollout used up something it has a limit on. It counts as a timeout for
// errors.Is(err, context.DeadlineExceeded) when the kind is LimitTime.
type LimitError struct {
	Kind         LimitKind
	Value, Limit int64 // bytes, nanoseconds or counts, by kind
}

// LimitKind names what was limited.
type LimitKind string

// The limits of a sandbox.
const (
	LimitMemory LimitKind = "memory" // bytes of guest memory
	LimitTime   LimitKind = "time"   // nanoseconds in guest code
	LimitCalls  LimitKind = "calls"  // host calls
	LimitOutput LimitKind = "output" // bytes sent to the host
	LimitStack  LimitKind = "stack"  // recursion in the guest
)

// Error is one line with the kind, what was used and the limit, in the kind's unit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("sandbox: limit on %s: %d of %d", e.Kind, e.Value, e.Limit)
}

// Is lets a time limit match context.DeadlineExceeded.
func (e *LimitError) Is(target error) bool {
	return e.Kind == LimitTime && target == context.DeadlineExceeded
}

// Classify decides what a rollout's error means: nil is scored, the harness's or
// model's own fault is invalid, everything else is the host's.
func Classify(err error) Outcome {
	var harness *HarnessError
	var limit *LimitError
	var load *LoadError
	switch {
	case err == nil, errors.Is(err, ErrBudget):
		return Scored
	case errors.As(err, &harness), errors.As(err, &limit), errors.As(err, &load),
		errors.Is(err, ErrTool), errors.Is(err, ErrContext):
		return Invalid
	}
	return Infra
}
