// Package endpoint generates with a model that is served elsewhere, behind one or several
// addresses that speak the form of OpenAI's chat and text completions: for harness search
// and benchmarks on models too large for this machine. It is an engine.Policy.
//
// Where a server tokenizes a conversation exactly as the local chat format does (whale
// serve, or vLLM with the same tokenizer) it is sent token ids and answers with token ids
// and log-probabilities: rollouts are then as exact as those of a local policy. From other
// servers it takes texts; the local tokenizer gives them ids, so that budgets, transcripts
// and export work, log-probabilities are missing, and nothing can be trained on them.
//
// A call goes to the address with the fewest calls in flight among those that are well.
// One that fails is left alone for a while and asked for its health before it is used
// again. Answers are foreign: garbage, cut bodies, stalls and other statuses are tried
// again elsewhere, and in the end are a fault of the policy, never a reply. A model that
// changes ends the run: a rollout belongs to one set of weights.
//
// Not covered: training, streaming, addresses with different models.
package endpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Errors of an endpoint, beside engine.ErrContext for a prompt that is too long for it.
var (
	ErrDown    = errors.New("no address answers")
	ErrGarbage = errors.New("answer is not what was asked for")
	ErrChanged = errors.New("the model at the endpoint is another one than before")
	ErrRefused = errors.New("endpoint refuses the request")
	ErrFrozen  = errors.New("weights elsewhere can't be trained")
)

// Words is the local chat format and tokenizer.
type Words interface {
	// Encode renders a conversation, as engine.Policy does.
	Encode(turns []engine.Turn) ([]int32, error)
	// Reply is a reply's text as ids, with the stop token.
	Reply(text string) []int32
	// Text is what sampled ids say.
	Text(sampled []int32) string
}

// Options of a Policy. Zero fields take their defaults.
type Options struct {
	Addresses []string      // base URLs, the part before /chat/completions
	Model     string        // name at the server; empty = its only one
	Key       string        // bearer token; never in an error or a file
	Words     Words         // must be there
	Timeout   time.Duration // of one attempt, from the request to its whole answer, which is not streamed; 5 minutes
	Setting   string        // what Timeout is called where it can be changed, for the error of a stall; may be empty
	Attempts  int           // at one call, at most; 4
	Backoff   time.Duration // before a second attempt, doubled for each further one, and an address's rest; half a second
	Client    *http.Client  // http.DefaultTransport's settings
}

// Policy is a model at an endpoint. It is safe for use by many goroutines.
type Policy struct {
	o     Options
	exact bool   // token ids go both ways
	print string // system_fingerprint; empty = the server has none

	mu     sync.Mutex
	places []*place
	recent conversations
}

// place is one address.
type place struct {
	url    string
	flying int
	rest   time.Time // not used before, and then only if healthy
	failed int       // attempts in a row
	why    error     // of the last of them
}

// Open finds out what the addresses offer. At least one must answer.
func Open(ctx context.Context, o Options) (*Policy, error) {
	if len(o.Addresses) == 0 || o.Words == nil {
		return nil, engine.Fail(engine.AtPolicy, "endpoint", errors.New("an address and a chat format are needed"))
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Minute
	}
	if o.Attempts <= 0 {
		o.Attempts = 4
	}
	if o.Backoff <= 0 {
		o.Backoff = time.Second / 2
	}
	if o.Client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 256
		o.Client = &http.Client{Transport: transport}
	}
	p := &Policy{o: o}
	for _, a := range o.Addresses {
		p.places = append(p.places, &place{url: strings.TrimRight(a, "/")})
	}
	if err := p.findModel(ctx); err != nil {
		return nil, err
	}
	return p, engine.Fail(engine.AtPolicy, "endpoint", p.findWords(ctx))
}

// findModel takes the model's name from the first address that answers.
func (p *Policy) findModel(ctx context.Context) error {
	var reasons []error
	for _, at := range p.places {
		var list struct {
			Data []struct {
				ID   string `json:"id"`
				Root string `json:"root"`
			} `json:"data"`
		}
		err := p.get(ctx, at, "/models", &list)
		if err == nil && p.o.Model == "" {
			if len(list.Data) != 1 {
				return p.fail(at, fmt.Errorf("%w: it has %d models, name one", ErrRefused, len(list.Data)))
			}
			p.o.Model = list.Data[0].ID
		}
		if err == nil {
			return nil
		}
		if p.o.Model != "" && errors.Is(err, ErrRefused) { // some servers list nothing
			return nil
		}
		reasons = append(reasons, p.fail(at, err))
	}
	return engine.Fail(engine.AtPolicy, "endpoint", fmt.Errorf("%w: %w", ErrDown, errors.Join(reasons...)))
}

// findWords asks for the tokens of a small conversation and one sampled id, to see whether
// ids can go both ways.
func (p *Policy) findWords(ctx context.Context) error {
	turns := []engine.Turn{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Which of 12 naïve <b>cats</b> is it?"}}
	want, err := p.o.Words.Encode(turns)
	if err != nil {
		return err
	}
	var tokens struct {
		Tokens []int32 `json:"tokens"`
	}
	at := p.places[0]
	root := strings.TrimSuffix(at.url, "/v1")
	err = p.post(ctx, root+"/tokenize", map[string]any{"model": p.o.Model, "messages": messages(turns), "add_generation_prompt": true}, &tokens)
	p.exact = err == nil && slices.Equal(tokens.Tokens, want)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded): // a server that can't do this says so
		return p.fail(at, err)
	}
	first, err := p.call(ctx, engine.Request{Prompt: want, MaxTokens: 1, Seed: 1, Sampling: engine.Sampling{Temperature: 1, TopP: 1}}, turns)
	if p.exact && err == nil && len(first.ids) == 0 { // it tokenizes, but its answers have no ids
		p.exact = false
	}
	p.print = first.print
	return err
}

// Exact says whether token ids and log-probabilities come from the server.
func (p *Policy) Exact() bool { return p.exact }

// Model is the name at the server.
func (p *Policy) Model() string { return p.o.Model }

// Weights names the model, by the server's fingerprint where it has one.
func (p *Policy) Weights() engine.WeightsID {
	if p.exact && strings.HasPrefix(p.print, "w") && len(p.print) == 17 {
		return engine.WeightsID(p.print) // whale serve says the weights id itself
	}
	sum := sha256.Sum256([]byte(p.o.Model + "\n" + p.print))
	return engine.WeightsID(fmt.Sprintf("e%x", sum[:8]))
}

// Encode renders with the local chat format.
func (p *Policy) Encode(turns []engine.Turn) ([]int32, error) {
	ids, err := p.o.Words.Encode(turns)
	if err != nil || p.exact {
		return ids, err
	}
	if len(turns) > 0 && len(turns[0].Tools) > 0 {
		return nil, engine.Fail(engine.AtPolicy, "encode", fmt.Errorf("%w: tools are told of by token ids only, and this server takes texts", engine.ErrContext))
	}
	said := slices.Clone(turns)
	for i := range said {
		if said[i].Sampled != nil {
			said[i].Content = p.o.Words.Text(said[i].Sampled)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent.put(ids, said)
	return ids, nil
}

// Generate asks for one completion, with attempts at several addresses.
func (p *Policy) Generate(ctx context.Context, r engine.Request) (engine.Completion, error) {
	began := time.Now()
	var turns []engine.Turn
	if !p.exact {
		p.mu.Lock()
		turns = p.recent.get(r.Prompt)
		p.mu.Unlock()
		if turns == nil {
			return engine.Completion{}, engine.Fail(engine.AtPolicy, "generate", errors.New("the prompt was not encoded here"))
		}
	}
	a, err := p.call(ctx, r, turns)
	if err == nil && a.print != p.print {
		err = fmt.Errorf("%w: %q, it was %q", ErrChanged, a.print, p.print)
	}
	if err != nil {
		return engine.Completion{}, engine.Fail(engine.AtPolicy, "generate", err)
	}
	c := engine.Completion{Sampled: a.ids, LogProbs: a.logps, Text: a.text, Stop: a.stop, Weights: p.Weights(), Cached: min(a.cached, len(r.Prompt))}
	if p.exact {
		c.Text = p.o.Words.Text(a.ids)
	} else {
		c.Sampled = p.o.Words.Reply(a.text)
		if len(c.Sampled) > r.MaxTokens || a.stop == engine.StopLength {
			c.Sampled, c.Stop = c.Sampled[:min(len(c.Sampled)-1, r.MaxTokens)], engine.StopLength
			c.Text = p.o.Words.Text(c.Sampled)
		}
		if len(c.Sampled) == 0 {
			return c, engine.Fail(engine.AtPolicy, "generate", fmt.Errorf("%w: it is empty", ErrGarbage))
		}
	}
	c.Seconds = time.Since(began).Seconds()
	return c, nil
}

// Learner stands where a run wants one: it saves and finds the model's name, and learns
// nothing.
type Learner struct{ Policy *Policy }

// Update is ErrFrozen.
func (Learner) Update(context.Context, []engine.Sequence) (engine.Update, error) {
	return engine.Update{}, engine.Fail(engine.AtPolicy, "update", ErrFrozen)
}

const nameFile = "endpoint.txt"

// Save writes the model's name.
func (l Learner) Save(_ context.Context, dir string) (engine.WeightsID, error) {
	id := l.Policy.Weights()
	return id, os.WriteFile(filepath.Join(dir, nameFile), fmt.Appendf(nil, "%s\n%s\n", id, l.Policy.o.Model), 0o644)
}

// Load is ErrChanged if the endpoint has another model than the one saved.
func (l Learner) Load(_ context.Context, dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, nameFile))
	if err != nil {
		return err
	}
	if id, _, _ := strings.Cut(string(text), "\n"); id != string(l.Policy.Weights()) {
		return fmt.Errorf("%w: %s, it was %s", ErrChanged, l.Policy.Weights(), id)
	}
	return nil
}

// conversations keeps what prompts say, for servers that take texts: the latest ones.
type conversations struct {
	turns map[string][]engine.Turn
	order []string
}

const maxConversations = 20_000

func (c *conversations) put(ids []int32, turns []engine.Turn) {
	k := keyOf(ids)
	if c.turns == nil {
		c.turns = map[string][]engine.Turn{}
	}
	if _, ok := c.turns[k]; !ok {
		if len(c.order) == maxConversations {
			delete(c.turns, c.order[0])
			c.order = c.order[1:]
		}
		c.order = append(c.order, k)
	}
	c.turns[k] = turns
}

func (c *conversations) get(ids []int32) []engine.Turn { return c.turns[keyOf(ids)] }

func keyOf(ids []int32) string {
	b := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		b = append(b, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
	}
	sum := sha256.Sum256(b)
	return string(sum[:])
}
