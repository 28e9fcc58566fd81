package trainer

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/chat"
)

// Policy is the engine.Policy of a Trainer. Its calls may come from any number of
// goroutines; they are batched.
type Policy struct {
	t *Trainer
	g *generator

	offering sync.Mutex        // holds what follows
	tools    []engine.ToolSpec // that were offered last
	offered  chat.Format       // with them, nil until tools are offered
}

func newPolicy(t *Trainer, o Options) (*Policy, error) {
	g := &generator{t: t, rows: o.StepTokens, valid: t.tokens.Size(), stop: t.chat.Stops(), ended: make(chan struct{})}
	g.work = sync.NewCond(&g.mu)
	var err error
	if g.scratch, err = newScratch(t.model, g.rows); err != nil {
		return nil, err
	}
	if g.cache, err = newCache(t.model, o.CacheTokens); err != nil {
		g.scratch.free()
		return nil, err
	}
	g.cache.off = o.NoPrefixSharing
	go g.loop()
	return &Policy{t: t, g: g}, nil
}

func (p *Policy) close() {
	p.g.close()
	p.g.scratch.free()
	p.g.cache.memory.Free()
}

// Encode renders a conversation with the model's chat format, generation prompt included.
// Sampled ids enter unchanged. Tools of the first turn are told of in the format's own words.
func (p *Policy) Encode(turns []engine.Turn) ([]int32, error) {
	format, err := p.format(turns)
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, "encode", fmt.Errorf("%w: %w", engine.ErrContext, err))
	}
	messages := make([]chat.Message, len(turns))
	for i, turn := range turns {
		messages[i] = chat.Message{Role: turn.Role, Content: turn.Content, Sampled: turn.Sampled}
	}
	ids, err := format.Render(messages)
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, "encode", fmt.Errorf("%w: %w", engine.ErrContext, err))
	}
	return ids, nil
}

// format is the chat format with the tools of the first turn.
func (p *Policy) format(turns []engine.Turn) (chat.Format, error) {
	for i, turn := range turns {
		if i > 0 && len(turn.Tools) > 0 {
			return nil, fmt.Errorf("turn %d offers tools, only the first can", i)
		}
	}
	if len(turns) == 0 || len(turns[0].Tools) == 0 {
		return p.t.chat, nil
	}
	p.offering.Lock()
	defer p.offering.Unlock()
	if p.offered != nil && slices.Equal(p.tools, turns[0].Tools) {
		return p.offered, nil
	}
	schemas := make([][]byte, len(turns[0].Tools))
	for i, tool := range turns[0].Tools {
		var err error
		if schemas[i], err = schema(tool); err != nil {
			return nil, err
		}
	}
	format, err := chat.Offer(p.t.chat, schemas)
	if err == nil {
		p.tools, p.offered = slices.Clone(turns[0].Tools), format
	}
	return format, err
}

// schema is a tool in the form that chat templates are given.
func schema(tool engine.ToolSpec) ([]byte, error) {
	var function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	function.Name, function.Description, function.Parameters = tool.Name, tool.Description, json.RawMessage(tool.Schema)
	text, err := json.Marshal(struct {
		Type     string `json:"type"`
		Function any    `json:"function"`
	}{"function", function})
	if err != nil {
		return nil, fmt.Errorf("schema of the tool %q: %w", tool.Name, err)
	}
	return text, nil
}

// Weights names the weights in use.
func (p *Policy) Weights() engine.WeightsID {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	id, err := p.t.model.WeightsID()
	if err != nil {
		return "" // the device is lost; the next call says so
	}
	return id
}

// Generate samples one completion: temperature, top-k, top-p, then the inverse of the
// cumulative distribution at uniform(seed, position) (spec/models.md section 7). A
// temperature of at most 1e-5 is greedy, TopK 0 and TopP 0 or 1 are off. Ids that the
// tokenizer does not have are never sampled. The call ends at a stop id, after MaxTokens,
// or at the end of the context. A prompt that leaves no room or holds foreign ids is
// engine.ErrContext; MaxTokens below 1 is engine.ErrBudget. When ctx ends, so does the
// call, and its cache pages are free for others.
func (p *Policy) Generate(ctx context.Context, r engine.Request) (engine.Completion, error) {
	return p.Stream(ctx, r, nil)
}

// Stream is Generate, and tells each sampled id with its log-probability as soon as it is
// drawn. each must not block: all sequences wait for it. A call whose weights change fails.
func (p *Policy) Stream(ctx context.Context, r engine.Request, each func(id int32, logp float32)) (engine.Completion, error) {
	if err := p.check(&r); err != nil {
		return engine.Completion{}, engine.Fail(engine.AtPolicy, "generate", err)
	}
	s := newSequence(r, p.t.model.context)
	s.each = each
	if err := p.g.enqueue(s); err != nil {
		return engine.Completion{}, engine.Fail(engine.AtPolicy, "generate", err)
	}
	select {
	case <-ctx.Done():
		s.gone.Store(true)
		return engine.Completion{}, engine.Fail(engine.AtPolicy, "generate", ctx.Err())
	case done := <-s.reply:
		if done.err != nil {
			return engine.Completion{}, engine.Fail(engine.AtPolicy, "generate", done.err)
		}
		done.completion.Text = p.t.chat.Text(done.completion.Sampled)
		return done.completion, nil
	}
}

// check refuses what can't be generated and turns "off" into one spelling.
func (p *Policy) check(r *engine.Request) error {
	context, vocab := p.t.model.context, p.t.model.Config.Vocab
	capacity := p.g.cache.count * pageTokens
	switch {
	case len(r.Prompt) == 0:
		return fmt.Errorf("empty prompt: %w", engine.ErrContext)
	case len(r.Prompt) >= context:
		return fmt.Errorf("prompt of %d ids, the model's context is %d: %w", len(r.Prompt), context, engine.ErrContext)
	case r.MaxTokens < 1:
		return fmt.Errorf("%d tokens asked for: %w", r.MaxTokens, engine.ErrBudget)
	case min(len(r.Prompt)+r.MaxTokens, context) > capacity-pageTokens:
		return fmt.Errorf("prompt of %d ids and %d more do not fit the cache of %d: %w", len(r.Prompt), r.MaxTokens, capacity, engine.ErrContext)
	case !(r.Sampling.Temperature >= 0) || math.IsInf(r.Sampling.Temperature, 0) || math.IsNaN(r.Sampling.TopP):
		return fmt.Errorf("temperature %v and top-p %v", r.Sampling.Temperature, r.Sampling.TopP)
	}
	for i, id := range r.Prompt {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("id %d at position %d is outside the vocabulary of %d: %w", id, i, vocab, engine.ErrContext)
		}
	}
	if r.Sampling.TopP <= 0 {
		r.Sampling.TopP = 1
	}
	return nil
}
