package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

// maxAnswer bounds one answer in bytes, healthTimeout one to the question which models
// there are.
const (
	maxAnswer     = 64 << 20
	healthTimeout = 30 * time.Second
)

// answer is one completion as the server gave it.
type answer struct {
	text   string
	ids    []int32
	logps  []float32
	stop   engine.StopReason
	cached int
	print  string
}

// call asks one place after the other.
func (p *Policy) call(ctx context.Context, r engine.Request, turns []engine.Turn) (answer, error) {
	var last error
	var tried []*place
	for attempt := range p.o.Attempts {
		if attempt > 0 {
			wait := time.NewTimer(p.o.Backoff << (attempt - 1))
			select {
			case <-ctx.Done():
				wait.Stop()
				return answer{}, ctx.Err()
			case <-wait.C:
			}
		}
		at := p.take(ctx, tried)
		if at == nil {
			last = p.down()
			continue
		}
		tried = append(tried, at)
		a, err := p.ask(ctx, at, r, turns)
		p.give(at, err)
		switch {
		case err == nil:
			return a, nil
		case ctx.Err() != nil:
			return answer{}, ctx.Err()
		case errors.Is(err, engine.ErrContext), errors.Is(err, ErrRefused), errors.Is(err, ErrChanged):
			return answer{}, p.fail(at, err)
		}
		last = p.fail(at, err)
	}
	return answer{}, fmt.Errorf("%d attempts: %w", p.o.Attempts, last)
}

// take chooses the place with the fewest calls, the first one on a tie, and one that this
// call has tried only if there is no other. A place that failed is asked for its health
// when its rest is over.
func (p *Policy) take(ctx context.Context, tried []*place) *place {
	for {
		p.mu.Lock()
		var best *place
		now := time.Now()
		for _, at := range p.places {
			if now.Before(at.rest) {
				continue
			}
			again := slices.Contains(tried, at)
			if best == nil || !again && slices.Contains(tried, best) || again == slices.Contains(tried, best) && at.flying < best.flying {
				best = at
			}
		}
		if best == nil {
			p.mu.Unlock()
			return nil
		}
		failed := best.failed
		best.flying++
		p.mu.Unlock()
		if failed == 0 {
			return best
		}
		var ignored json.RawMessage
		err := p.get(ctx, best, "/models", &ignored)
		if err == nil || errors.Is(err, ErrRefused) { // it answers
			return best
		}
		p.give(best, err)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// give books what came of a call. Refusals are the request's fault, not the place's.
func (p *Policy) give(at *place, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at.flying--
	switch {
	case err == nil, errors.Is(err, ErrRefused), errors.Is(err, engine.ErrContext):
		at.failed = 0
	case errors.Is(err, context.Canceled):
	default:
		at.failed++
		at.why = err
		at.rest = time.Now().Add(p.o.Backoff << min(at.failed-1, 6))
	}
}

// fail names the place, without what may be secret in its address.
func (p *Policy) fail(at *place, err error) error {
	return fmt.Errorf("endpoint %s: %w", engine.PublicAddress(at.url), err)
}

// down is ErrDown with what each place failed with last.
func (p *Policy) down() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := ErrDown
	for _, at := range p.places {
		if at.why != nil {
			err = fmt.Errorf("%w; %w", err, p.fail(at, at.why))
		}
	}
	return err
}

// message is a turn in the protocol.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func messages(turns []engine.Turn) []message {
	out := make([]message, len(turns))
	for i, t := range turns {
		role := t.Role
		if role == "tool" {
			role = "user" // no tool call of the protocol asked for it
		}
		out[i] = message{role, t.Content}
	}
	return out
}

// query is a request in the protocol.
type query struct {
	Model       string    `json:"model"`
	Prompt      []int32   `json:"prompt,omitempty"`
	Messages    []message `json:"messages,omitempty"`
	MaxTokens   int       `json:"max_tokens"`
	Temperature float64   `json:"temperature"`
	TopP        float64   `json:"top_p"`
	TopK        int       `json:"top_k,omitempty"`
	Seed        int64     `json:"seed"`
	LogProbs    *int      `json:"logprobs,omitempty"`
	ReturnIDs   bool      `json:"return_token_ids,omitempty"`
}

// result is what may come back of either call.
type result struct {
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
	Choices     []struct {
		Text    *string `json:"text"`
		Message *struct {
			Content *string `json:"content"`
		} `json:"message"`
		Reason   string  `json:"finish_reason"`
		TokenIDs []int32 `json:"token_ids"`
		LogProbs *struct {
			LogProbs []*float32 `json:"token_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
	Usage struct {
		Details *struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// ask makes one attempt at one place.
func (p *Policy) ask(ctx context.Context, at *place, r engine.Request, turns []engine.Turn) (answer, error) {
	q := query{Model: p.o.Model, MaxTokens: r.MaxTokens, Temperature: r.Sampling.Temperature, TopP: r.Sampling.TopP, TopK: r.Sampling.TopK, Seed: int64(r.Seed)}
	if q.TopP == 0 {
		q.TopP = 1
	}
	path := "/chat/completions"
	if p.exact {
		one := 0
		path, q.Prompt, q.LogProbs, q.ReturnIDs = "/completions", r.Prompt, &one, true
	} else {
		q.Messages = messages(turns)
		q.Seed &= math.MaxInt32 // some servers take no more
	}
	var got result
	if err := p.post(ctx, at.url+path, q, &got); err != nil {
		return answer{}, err
	}
	return p.read(got, r)
}

// read checks an answer against what was asked for.
func (p *Policy) read(got result, r engine.Request) (answer, error) {
	garbage := func(format string, a ...any) (answer, error) {
		return answer{}, fmt.Errorf("%w: %s", ErrGarbage, fmt.Sprintf(format, a...))
	}
	if len(got.Choices) != 1 {
		return garbage("%d choices", len(got.Choices))
	}
	if got.Model != "" && got.Model != p.o.Model && !strings.HasPrefix(got.Model, p.o.Model) { // some append a version
		return answer{}, fmt.Errorf("%w: it says %q, asked for %q", ErrChanged, got.Model, p.o.Model)
	}
	c := got.Choices[0]
	a := answer{print: got.Fingerprint, stop: engine.StopEnd}
	switch c.Reason {
	case "stop", "tool_calls":
	case "length":
		a.stop = engine.StopLength
	default:
		return garbage("finish_reason is %q", c.Reason)
	}
	if got.Usage.Details != nil {
		a.cached = max(0, got.Usage.Details.Cached)
	}
	switch {
	case c.Text != nil:
		a.text = *c.Text
	case c.Message != nil && c.Message.Content != nil:
		a.text = *c.Message.Content
	case c.Message == nil:
		return garbage("neither text nor message")
	}
	if !p.exact {
		return a, nil
	}
	a.ids = c.TokenIDs
	if len(a.ids) > r.MaxTokens || len(a.ids) == 0 {
		return garbage("%d token ids, asked for %d at most", len(a.ids), r.MaxTokens)
	}
	if c.LogProbs != nil {
		for _, l := range c.LogProbs.LogProbs {
			if l == nil || math.IsNaN(float64(*l)) || *l > 0 {
				return garbage("a log-probability is no number at most 0")
			}
			a.logps = append(a.logps, *l)
		}
	}
	if len(a.logps) != len(a.ids) {
		return garbage("%d log-probabilities for %d token ids", len(a.logps), len(a.ids))
	}
	return a, nil
}

func (p *Policy) get(ctx context.Context, at *place, path string, into any) error {
	r, err := http.NewRequest(http.MethodGet, at.url+path, nil)
	if err != nil {
		return errors.New("not an address")
	}
	return p.do(ctx, r, into)
}

func (p *Policy) post(ctx context.Context, address string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return errors.New("not an address")
	}
	r.Header.Set("Content-Type", "application/json")
	return p.do(ctx, r, into)
}

// do sends a request and reads its answer as JSON. What the server says of an error is
// foreign and may be long; its beginning is quoted.
func (p *Policy) do(ctx context.Context, r *http.Request, into any) error {
	patience := p.patience(r)
	limited, cancel := context.WithTimeout(ctx, patience.Limit)
	defer cancel()
	text, status, err := p.fetch(r.WithContext(limited))
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return patience
	case err != nil:
		return err
	case len(text) > maxAnswer:
		return fmt.Errorf("%w: more than %d bytes", ErrGarbage, maxAnswer)
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500:
		return fmt.Errorf("status %d: %.200q", status, p.hide(text))
	case status >= 400 && tooLong(text):
		return fmt.Errorf("%w: %.200q", engine.ErrContext, p.hide(text))
	case status != http.StatusOK:
		return fmt.Errorf("%w: status %d: %.200q", ErrRefused, status, p.hide(text))
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%w: %.200q", ErrGarbage, p.hide(text))
	}
	return nil
}

// patience is how long an answer may take. A question without a body costs a server
// nothing, so one that does not answer it soon is not well.
func (p *Policy) patience(r *http.Request) *engine.StallError {
	if r.Body == nil && p.o.Timeout > healthTimeout {
		return &engine.StallError{Limit: healthTimeout}
	}
	return &engine.StallError{Limit: p.o.Timeout, Setting: p.o.Setting}
}

// fetch returns the body of an answer, at most a byte more than maxAnswer, and its status.
func (p *Policy) fetch(r *http.Request) (text []byte, status int, err error) {
	if p.o.Key != "" {
		r.Header.Set("Authorization", "Bearer "+p.o.Key)
	}
	w, err := p.o.Client.Do(r)
	if err != nil {
		return nil, 0, plain(err)
	}
	defer w.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(w.Body, maxAnswer+1)); err != nil {
		return nil, 0, fmt.Errorf("%w: the answer is cut: %w", ErrGarbage, plain(err))
	}
	return text, w.StatusCode, nil
}

// hide takes the key out of what a server says.
func (p *Policy) hide(text []byte) string {
	if p.o.Key == "" {
		return string(text)
	}
	return strings.ReplaceAll(string(text), p.o.Key, "(key)")
}

// plain is an error of the client without the address, which may hold a secret.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func tooLong(text []byte) bool {
	return bytes.Contains(text, []byte("context_length_exceeded")) || bytes.Contains(text, []byte("maximum context length"))
}
