package engine

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
)

// maxSamples bounds the samples of one Generate; above it is a mistake of the harness.
const maxSamples = 64

// Session is the engine's side of one rollout: it holds the budget, turns messages into
// exact token contexts and writes down what happened. It implements Host; its calls
// come one at a time.
type Session struct {
	policy   Policy
	env      Environment
	tools    []ToolSpec
	sampling Sampling
	seed     uint64
	task     TaskID

	left      Budget // what may still be spent
	turn      int    // calls of Generate so far
	calls     []*Call
	events    []Event
	said      map[saying]int // how often a message has been in one context at most
	submitted int
	overrun   bool  // ErrBudget was returned; it is for good
	fault     error // first fault of the host; it is for good
	cost      Cost
	gauge     *gauge // may be nil
}

type saying struct{ role, content string }

// SessionSetup is what a session starts from.
type SessionSetup struct {
	Policy   Policy
	Env      Environment
	Tools    []ToolSpec // that the environment has
	Sampling Sampling
	Seed     uint64 // RolloutSeed
	Task     TaskID
	Budget   Budget
}

// NewSession opens a session.
func NewSession(s SessionSetup) *Session {
	return &Session{policy: s.Policy, env: s.Env, tools: s.Tools, sampling: s.Sampling, seed: s.Seed,
		task: s.Task, left: s.Budget, said: map[saying]int{}}
}

// Generate samples replies to a conversation, concurrently when several are asked for.
// It returns ErrBudget, ErrContext, or a fault of the host, after which every call
// returns that fault.
func (s *Session) Generate(ctx context.Context, messages []Message, options GenerateOptions) ([]Reply, error) {
	if err := s.ended(ctx); err != nil {
		return nil, err
	}
	n := max(1, options.Samples)
	if n > maxSamples {
		return nil, fmt.Errorf("%w: %d samples in one call, at most %d", ErrContext, n, maxSamples)
	}
	most := s.left.Tokens / n
	for _, limit := range []int{s.left.CallTokens, options.MaxTokens} {
		if limit > 0 {
			most = min(most, limit)
		}
	}
	if s.left.Turns < 1 || most < 1 {
		return nil, s.spent()
	}
	turns, err := s.turns(messages)
	if err != nil {
		return nil, err
	}
	if options.Tools {
		turns[0].Tools = s.tools
	}
	before := s.cost.PolicySeconds
	prompt, done, err := s.ask(ctx, turns, most, n)
	if err != nil {
		return nil, err
	}
	s.hear(turns)
	s.left.Turns--
	s.turn++
	replies := make([]Reply, n)
	for i, c := range done {
		replies[i] = s.record(prompt, c, s.cost.PolicySeconds-before)
	}
	return replies, nil
}

// ask is the way to the policy and back, on the clock.
func (s *Session) ask(ctx context.Context, turns []Turn, most, n int) (prompt []int32, done []Completion, err error) {
	begin := time.Now()
	s.gauge.move(inGuest, atPolicy, begin)
	defer func() {
		end := time.Now()
		s.gauge.move(atPolicy, inGuest, end)
		s.cost.PolicySeconds += end.Sub(begin).Seconds()
	}()
	if prompt, err = s.encode(turns); err != nil {
		return nil, nil, err
	}
	done, err = s.sample(ctx, Request{Prompt: prompt, MaxTokens: most, Sampling: s.sampling}, n)
	if err != nil {
		err = s.failed(ctx, AtPolicy, err)
	}
	return prompt, done, err
}

// turns checks a conversation and replaces honest handles by the sampled ids. A handle
// that does not exist, or whose text or role was changed, is plain foreign text.
func (s *Session) turns(messages []Message) ([]Turn, error) {
	if len(messages) == 0 {
		return nil, fmt.Errorf("%w: no messages", ErrContext)
	}
	turns := make([]Turn, len(messages))
	for i, m := range messages {
		switch m.Role {
		case "user", "assistant", "tool":
		case "system":
			if i > 0 {
				return nil, fmt.Errorf("%w: message %d: a system message may only come first", ErrContext, i)
			}
		default:
			return nil, fmt.Errorf("%w: message %d: unknown role %q", ErrContext, i, m.Role)
		}
		turns[i] = Turn{Role: m.Role, Content: valid(m.Content)}
		if c := s.call(m.Handle); c != nil && m.Role == "assistant" && m.Content == c.Text {
			turns[i].Sampled = c.Sampled
		}
	}
	if messages[len(messages)-1].Role == "assistant" {
		return nil, fmt.Errorf("%w: the last message is the assistant's own", ErrContext)
	}
	return turns, nil
}

func (s *Session) encode(turns []Turn) ([]int32, error) {
	var prompt []int32
	err := guard(AtPolicy, string(s.task), func() (err error) {
		prompt, err = s.policy.Encode(turns)
		if err == nil && len(prompt) == 0 {
			err = fmt.Errorf("encoded %d turns to nothing", len(turns))
		}
		return err
	})
	if err != nil {
		return nil, s.failed(context.Background(), AtPolicy, err)
	}
	return prompt, nil
}

// sample draws n completions of one prompt, each with its own seed.
func (s *Session) sample(ctx context.Context, r Request, n int) ([]Completion, error) {
	done, errs := make([]Completion, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		one := r
		one.Seed = CallSeed(s.seed, s.turn, i)
		work := func() {
			errs[i] = guard(AtPolicy, string(s.task), func() (err error) {
				if done[i], err = s.policy.Generate(ctx, one); err == nil {
					err = plausible(done[i], one)
				}
				return err
			})
		}
		if n == 1 {
			work()
			break
		}
		wg.Go(work)
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return done, nil
}

// plausible refuses completions that would poison the record.
func plausible(c Completion, r Request) error {
	switch {
	case len(c.Sampled) == 0 || len(c.Sampled) > r.MaxTokens:
		return fmt.Errorf("sampled %d tokens, asked for 1 to %d", len(c.Sampled), r.MaxTokens)
	case c.LogProbs != nil && len(c.LogProbs) != len(c.Sampled): // a policy elsewhere may know none
		return fmt.Errorf("%d log-probabilities for %d tokens", len(c.LogProbs), len(c.Sampled))
	case c.Stop != StopEnd && c.Stop != StopLength:
		return fmt.Errorf("unknown stop reason %q", c.Stop)
	}
	for i, p := range c.LogProbs {
		if math.IsNaN(float64(p)) || math.IsInf(float64(p), 0) {
			return fmt.Errorf("log-probability of token %d is not finite", i)
		}
	}
	return nil
}

// hear records the messages that are in a context for the first time. A message that
// stays, or comes back after the harness had dropped it, is not new; the same text once
// more in one context is.
func (s *Session) hear(turns []Turn) {
	now := map[saying]int{}
	for _, t := range turns {
		if t.Sampled != nil {
			continue
		}
		key := saying{t.Role, t.Content}
		now[key]++
		if now[key] > s.said[key] {
			s.said[key] = now[key]
			s.events = append(s.events, Event{Said: &Turn{Role: t.Role, Content: t.Content}})
		}
	}
}

func (s *Session) record(prompt []int32, c Completion, wall float64) Reply {
	call := &Call{Handle: len(s.calls) + 1, Prompt: prompt, Sampled: c.Sampled, LogProbs: c.LogProbs,
		Text: valid(c.Text), Stop: c.Stop, Weights: c.Weights, Cached: c.Cached, Seconds: c.Seconds, Wall: wall}
	s.calls = append(s.calls, call)
	s.events = append(s.events, Event{Call: call})
	s.left.Tokens -= len(c.Sampled)
	s.cost.Prompt += len(prompt)
	s.cost.Cached += c.Cached
	s.cost.Sampled += len(c.Sampled)
	s.cost.DeviceSeconds += c.Seconds
	return Reply{Handle: call.Handle, Text: call.Text, Stop: call.Stop, Tokens: len(call.Sampled)}
}

// Tool runs one tool. It returns ErrBudget, ErrTool (recorded, the harness may go on),
// or a fault of the host.
func (s *Session) Tool(ctx context.Context, name, args string) (string, error) {
	if err := s.ended(ctx); err != nil {
		return "", err
	}
	if s.left.Tools < 1 {
		return "", s.spent()
	}
	s.left.Tools--
	use := &ToolUse{Name: valid(name), Args: valid(args)}
	begin := time.Now()
	s.gauge.move(inGuest, atTool, begin)
	var result string
	err := guard(AtTask, name, func() (err error) {
		result, err = s.env.Tool(ctx, ToolCall{Name: name, Args: args, Written: s.written()})
		return err
	})
	end := time.Now()
	s.gauge.move(atTool, inGuest, end)
	s.cost.ToolSeconds += end.Sub(begin).Seconds()
	if err != nil {
		err = s.failed(ctx, AtTask, err)
		if s.fault == nil && ctx.Err() == nil {
			use.Failed, use.Result = true, valid(err.Error())
			s.events = append(s.events, Event{Tool: use})
		}
		return "", err
	}
	use.Result = valid(result)
	s.events = append(s.events, Event{Tool: use})
	return use.Result, nil
}

// written is what the model said last: the submitted reply if there is one among the
// samples of the last call, the last sample otherwise.
func (s *Session) written() string {
	if len(s.calls) == 0 {
		return ""
	}
	last := s.calls[len(s.calls)-1]
	if c := s.call(s.submitted); c != nil && &c.Prompt[0] == &last.Prompt[0] {
		return c.Text
	}
	return last.Text
}

// Note takes a log line or the handle of the reply that counts. A reply can be submitted
// after the budget is used up.
func (s *Session) Note(ctx context.Context, n Note) error {
	if n.Submit != 0 && s.fault == nil && ctx.Err() == nil {
		if s.call(n.Submit) == nil {
			return fmt.Errorf("%w: no reply has handle %d", ErrContext, n.Submit)
		}
		s.submitted = n.Submit
		return nil
	}
	if err := s.ended(ctx); err != nil {
		return err
	}
	if len(n.Log) > s.left.LogBytes {
		return s.spent()
	}
	s.left.LogBytes -= len(n.Log)
	s.events = append(s.events, Event{Log: valid(n.Log)})
	return nil
}

// call finds a reply by handle; nil when there is none.
func (s *Session) call(handle int) *Call {
	if handle < 1 || handle > len(s.calls) {
		return nil
	}
	return s.calls[handle-1]
}

// ended is the error that every call returns once the session is over.
func (s *Session) ended(ctx context.Context) error {
	if s.fault != nil {
		return s.fault
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.overrun {
		return ErrBudget
	}
	return nil
}

func (s *Session) spent() error {
	s.overrun = true
	return ErrBudget
}

// failed sorts an error of policy or tool: what the harness may see passes through, a
// cancelled context is no fault, the rest ends the session.
func (s *Session) failed(ctx context.Context, at Boundary, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if Classify(err) == Infra {
		s.fault = at.wrap(string(s.task), err)
		return s.fault
	}
	return err
}

// valid makes text safe for JSON, so that what is archived is what was seen.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
