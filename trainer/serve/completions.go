package serve

import (
	"encoding/json"
	"net/http"
)

// textRequest asks to go on from a prompt.
type textRequest struct {
	settings
	Prompt   prompt `json:"prompt"`
	Echo     bool   `json:"echo"`
	Suffix   string `json:"suffix"`
	LogProbs *int   `json:"logprobs"`
}

// prompt is a text or token ids; a list of one of them is that one.
type prompt struct {
	text *string
	ids  []int32
}

// UnmarshalJSON takes "text", ["text"], [1,2] or [[1,2]].
func (p *prompt) UnmarshalJSON(b []byte) error {
	var texts []string
	var lists [][]int32
	switch {
	case json.Unmarshal(b, &p.text) == nil:
	case json.Unmarshal(b, &p.ids) == nil:
		p.text = nil
	case json.Unmarshal(b, &texts) == nil && len(texts) == 1:
		p.text, p.ids = &texts[0], nil
	case json.Unmarshal(b, &lists) == nil && len(lists) == 1:
		p.text, p.ids = nil, lists[0]
	default:
		return bad("prompt", "prompt is one text or one list of token ids")
	}
	return nil
}

type textAnswer struct {
	head
	Choices []textChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
}

type textChoice struct {
	Index    int           `json:"index"`
	Text     string        `json:"text"`
	LogProbs *textLogProbs `json:"logprobs"`
	Reason   *string       `json:"finish_reason"`
	TokenIDs []int32       `json:"token_ids,omitempty"`
}

type textLogProbs struct {
	Tokens   []string  `json:"tokens"`
	LogProbs []float32 `json:"token_logprobs"`
}

// complete goes on from a prompt.
func (s *Server) complete(w http.ResponseWriter, r *http.Request) error {
	var q textRequest
	if err := receive(w, r, &q); err != nil {
		return err
	}
	ids := q.Prompt.ids
	if q.Prompt.text != nil {
		ids = s.model.Tokens.Encode(*q.Prompt.text)
	}
	switch {
	case len(ids) == 0:
		return bad("prompt", "the prompt is empty")
	case q.Echo:
		return bad("echo", "echo is not offered")
	case q.Suffix != "":
		return bad("suffix", "suffix is not offered")
	case q.LogProbs != nil && *q.LogProbs > 1:
		return bad("logprobs", "logprobs is 0 or 1: those of the sampled tokens")
	}
	p, err := s.plan(q.settings, ids, nil)
	if err != nil {
		return err
	}
	p.logprobs = q.LogProbs != nil
	answer := textAnswer{head: s.head("cmpl", "text_completion", p)}
	part := func(index int, text string, ids []int32, logps []float32) textChoice {
		c := textChoice{Index: index, Text: text}
		if p.logprobs {
			c.LogProbs = s.textLogProbs(ids, logps)
		}
		if p.ids {
			c.TokenIDs = ids
		}
		return c
	}
	if p.stream {
		return s.streamText(w, r, p, answer, part)
	}
	choices, err := s.generate(r.Context(), p, nil)
	if err != nil {
		return err
	}
	for i, one := range choices {
		c := part(i, one.text, one.ids, one.logps)
		c.Reason = &one.reason
		answer.Choices = append(answer.Choices, c)
	}
	answer.Usage = usageOf(p, choices)
	return send(w, answer)
}

func (s *Server) streamText(w http.ResponseWriter, r *http.Request, p plan, head textAnswer, part func(int, string, []int32, []float32) textChoice) error {
	out := &stream{w: w, flush: http.NewResponseController(w)}
	choices, err := s.generate(r.Context(), p, func(q piece) error {
		one := head
		c := part(q.index, q.text, q.ids, q.logps)
		if q.end != nil {
			c.Reason, c.LogProbs = &q.end.reason, nil
		}
		one.Choices = []textChoice{c}
		head.PromptIDs = nil // only with the first
		return out.send(one)
	})
	if err == nil && p.usage {
		last := head
		last.PromptIDs, last.Choices, last.Usage = nil, []textChoice{}, usageOf(p, choices)
		err = out.send(last)
	}
	return out.end(err)
}

func (s *Server) textLogProbs(ids []int32, logps []float32) *textLogProbs {
	l := &textLogProbs{Tokens: []string{}, LogProbs: append([]float32{}, logps...)}
	for _, id := range ids {
		l.Tokens = append(l.Tokens, s.model.Tokens.Decode([]int32{id}))
	}
	return l
}
