package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Model is a language model behind a service.
type Model interface {
	// Open begins a conversation.
	Open(o Opening) Chat
}

// Opening is what a conversation begins with.
type Opening struct {
	System    string
	Tools     []Tool
	MaxTokens int // of one reply
}

// Tool is a tool as a model sees it.
type Tool struct {
	Name        string
	Description string
	Arguments   []Argument
}

// Argument is one of a tool's; all are strings, whole numbers or booleans.
type Argument struct {
	Name, Type, Description string // Type as in JSON schema
	Required                bool
}

// Chat is one conversation.
type Chat interface {
	// Say sends text or the results of the tools that the last reply called, and returns
	// the reply. After an error the conversation is as it was before, so the same can be
	// said again. A failure of the service is a *ServiceError.
	Say(ctx context.Context, in Input) (Reply, error)
}

// Input is the user's side of a turn: results, or text where there are none.
type Input struct {
	Text    string
	Results []Result
}

// Call is one use of a tool, as the model wrote it.
type Call struct {
	ID   string
	Name string
	Args string // a JSON object, if the model did not err
}

// Result answers a Call.
type Result struct {
	ID     string
	Text   string
	Failed bool
}

// Reply is the model's side of a turn.
type Reply struct {
	Text  string
	Calls []Call
	Cut   bool   // ended by the limit on tokens
	Model string // as the service calls it
	Usage Usage
}

// Usage is what a reply cost in tokens.
type Usage struct {
	Input   int `json:"input"`   // neither read from the cache nor written to it
	Read    int `json:"read"`    // from the cache
	Written int `json:"written"` // to the cache
	Output  int `json:"output"`
}

// ServiceError is a service's failure. Status is the one of HTTP; 0 = no answer, or one
// that could not be read.
type ServiceError struct {
	Status int
	After  time.Duration // that the service asks to wait; 0 = it does not say
	Err    error
}

func (e *ServiceError) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("no usable answer: %v", e.Err)
	}
	return fmt.Sprintf("status %d: %v", e.Status, e.Err)
}

// Unwrap gives errors.Is the cause.
func (e *ServiceError) Unwrap() error { return e.Err }

// Refused is the error of an answer with a status. The first of the texts that says anything
// is quoted; what was asked is not, since it has the key.
func Refused(status int, answer *http.Response, texts ...string) error {
	e := &ServiceError{Status: status, Err: Said(cmp.Or(texts...))}
	if answer != nil {
		e.After = RetryAfter(answer.Header)
	}
	return e
}

// Tokens reads a number of tokens, which a service can get wrong.
func Tokens(n int64) int { return int(max(0, min(n, 1<<40))) }

// longestSaid is what is kept of a service's message, in bytes.
const longestSaid = 500

// Said is what a service says about its failure, as an error of one line.
func Said(text string) error {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longestSaid {
		text = strings.ToValidUTF8(text[:longestSaid], "") + "..."
	}
	if text == "" {
		text = "it does not say why"
	}
	return errors.New(text)
}

// RetryAfter reads how long a service asks to wait: milliseconds, or seconds.
func RetryAfter(h http.Header) time.Duration {
	for _, f := range []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		if n, err := strconv.ParseFloat(h.Get(f.name), 64); err == nil && n > 0 && n < 1e9 {
			return time.Duration(n * float64(f.unit))
		}
	}
	return 0
}

// passes tells whether the same may work later: busy services, timeouts, connections
// that break, answers that are no JSON.
func (e *ServiceError) passes() bool {
	switch e.Status {
	case 0, 408, 409, 425, 429:
		return true
	}
	return e.Status >= 500
}

// Retries of what passes.
const (
	attempts  = 6
	firstWait = time.Second
	longest   = time.Minute // that is waited, whatever a service asks for
)

// say is Chat.Say with a time limit and retries. Waiting counts as time of the service.
func (p *Proposer) say(ctx context.Context, chat Chat, in Input) (Reply, error) {
	wait := firstWait
	var before error // of the attempt before, which tells more than that time is up
	for attempt := 1; ; attempt++ {
		limited, cancel := context.WithTimeout(ctx, p.patience())
		reply, err := chat.Say(limited, in)
		stalled := limited.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return reply, errors.Join(before, err, ctx.Err())
		case err == nil:
			return reply, nil
		case stalled:
			err = &ServiceError{Err: &engine.StallError{Limit: p.patience(), Setting: p.Setting}}
		}
		before = err
		var failed *ServiceError
		switch {
		case !errors.As(err, &failed) || !failed.passes() || noTools(err):
			return reply, err
		case attempt >= attempts:
			return reply, fmt.Errorf("%d attempts: %w", attempts, err)
		}
		if waited := p.wait(ctx, min(longest, max(wait, failed.After))); waited != nil {
			return reply, errors.Join(waited, err)
		}
		wait *= 2
	}
}

// wait is a pause that the context ends.
func (p *Proposer) wait(ctx context.Context, d time.Duration) error {
	if p.Pause != nil {
		return p.Pause(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cost books a reply.
func (p Price) cost(u Usage, seconds float64) engine.ProposalCost {
	c := engine.ProposalCost{Calls: 1, Input: u.Input + u.Read + u.Written, Cached: u.Read, Output: u.Output, Seconds: seconds}
	if p == (Price{}) {
		c.Unpriced = 1
		return c
	}
	c.Dollars = (float64(u.Input)*p.Input + float64(u.Read)*p.Read + float64(u.Written)*p.Write + float64(u.Output)*p.Output) / 1e6
	return c
}
