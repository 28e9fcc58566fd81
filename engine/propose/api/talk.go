package api

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

const system = `You improve the program around a language model. You work with files: read what the run has
laid out, think about what the failed rollouts have in common, and write candidates to your slots. Paths are
relative; only out/ can be written. When your candidates are written, end with one sentence about each.`

// Limits of a conversation besides turns, time and budget.
const (
	maxCalls  = 16 // tool calls of one reply that are run
	maxSame   = 5  // replies in a row with the very same calls
	maxNudges = 2  // times that a model without candidates is asked to go on
	leastLeft = 256
)

// talk is one conversation.
type talk struct {
	p      *Proposer
	desk   *desk.Desk
	files  *view
	log    *desk.Log
	before engine.ProposalCost // of the run, when it began
	cost   engine.ProposalCost // of this call
	model  string
	said   string // by the model, last
	nudges int
	last   string // the calls of the reply before, and how often they came
	same   int
}

// run talks until the model is done. Its error says what ended it otherwise.
func (t *talk) run(ctx context.Context, b engine.Brief, prompt string) error {
	turns := t.p.Turns
	if turns <= 0 {
		turns = 60
	}
	chat := t.p.Model.Open(Opening{System: system, Tools: tools, MaxTokens: t.maxTokens()})
	in := Input{Text: prompt}
	for turn := 1; turn <= turns; turn++ {
		if err := t.p.Budget.Check(t.before.Add(t.cost)); err != nil {
			return err
		}
		begin := time.Now()
		reply, err := t.p.say(ctx, chat, in)
		if turn == 1 && noTools(err) {
			if err := t.note(entry{Error: err.Error()}); err != nil {
				return err
			}
			return t.plain(ctx, b)
		}
		if err != nil {
			return t.failed(err, time.Since(begin).Seconds())
		}
		if err := t.account(reply, time.Since(begin).Seconds()); err != nil {
			return err
		}
		t.said = reply.Text
		more, err := t.answer(ctx, reply, &in)
		if err != nil || !more {
			return err
		}
	}
	return fmt.Errorf("%w in %d turns", ErrLoop, turns)
}

// maxTokens of a reply: less where the budget ends before.
func (t *talk) maxTokens() int {
	most := t.p.MaxTokens
	if most <= 0 {
		most = 16_000
	}
	if budget := t.p.Budget.Tokens; budget > 0 {
		most = max(leastLeft, min(most, budget-t.before.Input-t.before.Output))
	}
	return most
}

// answer runs the tools that a reply calls, or asks a model that has stopped too early to
// go on. more is false when the conversation is over.
func (t *talk) answer(ctx context.Context, r Reply, in *Input) (more bool, err error) {
	if len(r.Calls) > 0 {
		results, err := t.use(ctx, r.Calls)
		*in = Input{Results: results}
		return err == nil, err
	}
	made, err := t.desk.Collect(engine.Brief{Slots: t.files.slots}, t.p.Name, desk.MaxSource)
	if err != nil {
		return false, engine.Fail(engine.AtArchive, t.desk.Out, err)
	}
	if len(made) > 0 && !r.Cut || t.nudges >= maxNudges {
		return false, nil
	}
	t.nudges++
	*in = Input{Text: "No candidate is in out/ yet. Write at least out/1/harness.go with the tool Write."}
	if r.Cut {
		in.Text = "Your reply was cut: it was too long. Go on, in smaller steps."
	}
	return true, t.note(entry{User: in.Text})
}

// use runs the calls of a reply. A model that calls the very same again and again has come
// to no end.
func (t *talk) use(ctx context.Context, calls []Call) ([]Result, error) {
	text := ""
	for _, c := range calls {
		text += c.Name + " " + c.Args + "\n"
	}
	if t.same++; text != t.last {
		t.last, t.same = text, 1
	}
	if t.same > maxSame {
		return nil, fmt.Errorf("%w: the same calls %d times in a row", ErrLoop, t.same)
	}
	var results []Result
	for i, c := range calls {
		r := Result{ID: c.ID, Text: "Error: too many calls in one reply", Failed: true}
		if i < maxCalls {
			var err error
			if r, err = t.files.use(ctx, c); err != nil {
				return nil, err
			}
		}
		results = append(results, r)
		if err := t.note(entry{Tool: c.Name, Args: c.Args, Failed: r.Failed, Result: r.Text}); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// account books a reply and writes it down.
func (t *talk) account(r Reply, seconds float64) error {
	cost := t.p.Price.cost(r.Usage, seconds)
	t.p.book(cost)
	t.cost = t.cost.Add(cost)
	if err := t.desk.PutUsage(t.cost); err != nil {
		return engine.Fail(engine.AtArchive, t.desk.Folder, err)
	}
	e := entry{Text: r.Text, Calls: len(r.Calls), Usage: &r.Usage, Dollars: cost.Dollars}
	if r.Model != t.model {
		e.Model, t.model = r.Model, r.Model
	}
	return t.note(e)
}

// failed books the time of a service that gave nothing.
func (t *talk) failed(err error, seconds float64) error {
	cost := engine.ProposalCost{Seconds: seconds}
	t.p.book(cost)
	t.cost = t.cost.Add(cost)
	if put := t.desk.PutUsage(t.cost); put != nil {
		return engine.Fail(engine.AtArchive, t.desk.Folder, put)
	}
	if noted := t.note(entry{Error: err.Error()}); noted != nil {
		return noted
	}
	return err
}

// entry is a line of transcript.jsonl: what the loop said, what the model replied, a tool
// and its result, or an error. The instructions at the start are prompt.md.
type entry struct {
	User    string  `json:"user,omitempty"`
	Text    string  `json:"text,omitempty"`
	Calls   int     `json:"calls,omitempty"`
	Model   string  `json:"model,omitempty"` // in the first reply, and where a service changes it midway
	Usage   *Usage  `json:"usage,omitempty"`
	Dollars float64 `json:"dollars,omitempty"`
	Tool    string  `json:"tool,omitempty"`
	Args    string  `json:"args,omitempty"`
	Failed  bool    `json:"failed,omitempty"`
	Result  string  `json:"result,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// note adds a line to the transcript.
func (t *talk) note(e entry) error {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = t.log.Write(append(line, '\n'))
	}
	return engine.Fail(engine.AtArchive, t.desk.Folder, err)
}
