package own

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/engine"
)

// World is the engine.World: the rows by id. It is only read after Open.
type World struct {
	rows     map[engine.TaskID]*row
	verifier Verifier
}

var _ engine.World = (*World)(nil)

// Start opens a rollout; there are no tools.
func (w *World) Start(task engine.Task) (engine.Environment, error) {
	if _, ok := w.rows[task.ID]; !ok {
		return nil, engine.Fail(engine.AtTask, string(task.ID), fmt.Errorf("not a task of this %s domain", Name))
	}
	return environment{}, nil
}

// Verify hands the text of the call that counts to the verifier.
func (w *World) Verify(task engine.Task, t *engine.Trajectory) (engine.Verdict, error) {
	r, ok := w.rows[task.ID]
	if !ok {
		return engine.Verdict{}, engine.Fail(engine.AtVerifier, string(task.ID), fmt.Errorf("not a task of this %s domain", Name))
	}
	call := t.Answer()
	if call == nil {
		return engine.Verdict{Kind: engine.Unparsed}, nil
	}
	v, err := w.verifier.Verify(Case{Input: r.Input, Reference: r.Answer, Text: call.Text, Tags: r.Tags})
	if err != nil {
		return engine.Verdict{}, engine.Fail(engine.AtVerifier, string(task.ID), err)
	}
	if v.Kind != engine.Equal && r.leaked(v.Answer, call.Text) {
		v.Answer, _ = Read(call.Text)
	}
	v.Answer = clip(v.Answer)
	return v, nil
}

// Close ends the verifier's processes.
func (w *World) Close() error {
	if c, ok := w.verifier.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// leaked says whether a verifier gives a reference away as what it read: trajectories
// are shown to proposers.
func (r *row) leaked(answer, text string) bool {
	answer, text = fold(answer), fold(text)
	for _, reference := range r.texts {
		reference = fold(reference)
		if strings.Contains(answer, reference) && !strings.Contains(text, reference) {
			return true
		}
	}
	return false
}

type environment struct{}

// Tool refuses every call.
func (environment) Tool(_ context.Context, call engine.ToolCall) (string, error) {
	return "", fmt.Errorf("%w: no tool %q, this domain has none", engine.ErrTool, clip(call.Name))
}

// Record is empty: only what the model answers counts.
func (environment) Record() string { return "" }

// clip bounds an answer in records, whole runes only.
func clip(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	at := most
	for !utf8.RuneStart(text[at]) && at > most-utf8.UTFMax {
		at--
	}
	return text[:at]
}
