// Package benchtest plays a harness natively against a domain with a function as the
// model, so that a domain's tests need no engine, no sandbox and no weights.
//
// It keeps to the domain's budget of turns and tool calls; tokens are not counted.
package benchtest

import (
	"context"
	"errors"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// Model writes the next assistant message of a conversation.
type Model func(messages []kit.Message) string

// Harness is the Run function of a harness.
type Harness func(*kit.Session) error

// Result is one played and judged rollout.
type Result struct {
	Trajectory *engine.Trajectory
	Verdict    engine.Verdict
	// Messages is the context of the last call with its reply: the whole conversation
	// when the harness never rewrites history.
	Messages []kit.Message
	// Err is what Run returned.
	Err error
}

// Play runs one rollout and judges it; the error is a fault of the domain.
func Play(d *engine.Domain, task engine.Task, run Harness, model Model) (Result, error) {
	environment, err := d.World.Start(task)
	if err != nil {
		return Result{}, err
	}
	h := &host{environment: environment, model: model, budget: d.Budget,
		trajectory: &engine.Trajectory{Task: task.ID, Outcome: engine.Scored}}
	start := kit.Start{
		Task:   kit.Task{Domain: task.Domain, Input: task.Input},
		Budget: kit.Budget{Tokens: d.Budget.Tokens, Turns: d.Budget.Turns, Tools: d.Budget.Tools},
	}
	for _, tool := range d.Tools {
		start.Tools = append(start.Tools, kit.ToolSpec(tool))
	}
	runErr := run(kit.NewSession(start, h))
	if h.fault != nil {
		return Result{}, h.fault
	}
	h.trajectory.Record = environment.Record()
	verdict, err := d.World.Verify(task, h.trajectory)
	h.trajectory.Verdict = verdict
	return Result{Trajectory: h.trajectory, Verdict: verdict, Messages: h.last, Err: runErr}, err
}

// host is the other side of the session.
type host struct {
	environment engine.Environment
	model       Model
	budget      engine.Budget
	trajectory  *engine.Trajectory
	written     string
	last        []kit.Message
	handles     int
	fault       error // of the domain
}

func (h *host) Generate(messages []kit.Message, options kit.Options) ([]kit.Reply, error) {
	if h.budget.Turns == 0 {
		return nil, kit.ErrBudget
	}
	h.budget.Turns-- // one for all samples, as in the engine
	var replies []kit.Reply
	for range max(1, options.Samples) {
		h.handles++
		r := kit.Reply{Handle: h.handles, Text: h.model(messages), Stop: kit.StopEnd}
		h.written = r.Text
		h.last = append(append([]kit.Message{}, messages...), r.Message())
		h.trajectory.Events = append(h.trajectory.Events, engine.Event{Call: &engine.Call{Handle: r.Handle, Text: r.Text}})
		replies = append(replies, r)
	}
	return replies, nil
}

func (h *host) Tool(name, args string) (string, error) {
	if h.budget.Tools == 0 {
		return "", kit.ErrBudget
	}
	h.budget.Tools--
	result, err := h.environment.Tool(context.Background(), engine.ToolCall{Name: name, Args: args, Written: h.written})
	if err != nil {
		if !errors.Is(err, engine.ErrTool) {
			h.fault = err
		}
		return "", kit.ErrTool
	}
	h.trajectory.Events = append(h.trajectory.Events, engine.Event{Tool: &engine.ToolUse{Name: name, Args: args, Result: result}})
	return result, nil
}

func (h *host) Note(n kit.Note) error {
	if n.Submit != 0 {
		h.trajectory.Submitted = n.Submit
	}
	return nil
}
