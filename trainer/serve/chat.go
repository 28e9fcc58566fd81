package serve

import (
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/trainer/chat"
)

// head is what every answer, or chunk of one, begins with.
type head struct {
	ID          string  `json:"id"`
	Object      string  `json:"object"`
	Created     int64   `json:"created"`
	Model       string  `json:"model"`
	Fingerprint string  `json:"system_fingerprint"`
	PromptIDs   []int32 `json:"prompt_token_ids,omitempty"`
}

// head begins the answer to a plan.
func (s *Server) head(kind, object string, p plan) head {
	h := head{ID: newID(kind), Object: object, Created: time.Now().Unix(), Model: s.model.Name, Fingerprint: string(s.model.Policy.Weights())}
	if p.ids {
		h.PromptIDs = p.prompt
	}
	return h
}

// chatAnswer is a whole answer, or one chunk of a stream.
type chatAnswer struct {
	head
	Choices []chatChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
}

type chatChoice struct {
	Index    int       `json:"index"`
	Message  *reply    `json:"message,omitempty"`
	Delta    *reply    `json:"delta,omitempty"`
	LogProbs *logProbs `json:"logprobs"`
	Reason   *string   `json:"finish_reason"`
	TokenIDs []int32   `json:"token_ids,omitempty"`
}

type reply struct {
	Role      string       `json:"role,omitempty"`
	Content   *string      `json:"content,omitempty"`
	ToolCalls []indexedUse `json:"tool_calls,omitempty"`
}

// indexedUse is a tool call; only deltas have an index.
type indexedUse struct {
	Index *int `json:"index,omitempty"`
	toolCall
}

type logProbs struct {
	Content []tokenLogProb `json:"content"`
}

type tokenLogProb struct {
	Token   string         `json:"token"`
	LogProb float32        `json:"logprob"`
	Bytes   []int          `json:"bytes"`
	Top     []tokenLogProb `json:"top_logprobs"`
}

type usage struct {
	Prompt     int          `json:"prompt_tokens"`
	Completion int          `json:"completion_tokens"`
	Total      int          `json:"total_tokens"`
	Details    usageDetails `json:"prompt_tokens_details"`
}

type usageDetails struct {
	Cached int `json:"cached_tokens"`
}

func usageOf(p plan, choices []choice) *usage {
	u := &usage{Prompt: len(p.prompt)}
	for _, c := range choices {
		u.Completion += len(c.ids)
		u.Details.Cached = max(u.Details.Cached, c.cached)
	}
	u.Total = u.Prompt + u.Completion
	return u
}

// chat answers with replies.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) error {
	var q chatRequest
	if err := receive(w, r, &q); err != nil {
		return err
	}
	p, c, err := q.plan(s)
	if err != nil {
		return err
	}
	answer := chatAnswer{head: s.head("chatcmpl", "chat.completion", p)}
	if p.stream {
		answer.Object = "chat.completion.chunk"
		return s.streamChat(w, r, p, c, answer)
	}
	choices, err := s.generate(r.Context(), p, nil)
	if err != nil {
		return err
	}
	for i, one := range choices {
		text, uses, err := s.read(c, one.text, answer.ID, i)
		if err != nil {
			return err
		}
		choice := chatChoice{Index: i, Message: &reply{Role: chat.Assistant, Content: &text, ToolCalls: uses}, Reason: &one.reason}
		if len(uses) > 0 {
			choice.Reason = word("tool_calls")
		}
		if p.logprobs {
			choice.LogProbs = s.logProbs(one.ids, one.logps)
		}
		if p.ids {
			choice.TokenIDs = one.ids
		}
		answer.Choices = append(answer.Choices, choice)
	}
	answer.Usage = usageOf(p, choices)
	return send(w, answer)
}

func word(s string) *string { return &s }

// read cuts a reply into what it says and its tool calls. A call that can't be read stays
// in the text. Without tools in the request the text is left as it is.
func (s *Server) read(c conversation, text, id string, index int) (string, []indexedUse, error) {
	if len(c.schemas) == 0 {
		return text, nil, nil
	}
	said, calls, err := chat.ParseCalls(c.style, text, c.schemas)
	if err != nil || len(calls) == 0 {
		return text, nil, err
	}
	var uses []indexedUse
	for i, call := range calls {
		if call.Bad != "" {
			return text, nil, nil
		}
		uses = append(uses, indexedUse{toolCall: toolCall{ID: "call-" + strings.TrimPrefix(id, "chatcmpl-") + "-" + strconv.Itoa(index) + "-" + strconv.Itoa(i),
			Type: "function", Function: functionCall{call.Name, call.Arguments}}})
	}
	return strings.TrimSpace(said), uses, nil
}

// logProbs are those of sampled ids, with each token's bytes, which need not be whole
// characters.
func (s *Server) logProbs(ids []int32, logps []float32) *logProbs {
	l := &logProbs{Content: []tokenLogProb{}}
	for i, id := range ids {
		raw := s.model.Tokens.Bytes([]int32{id})
		t := tokenLogProb{Token: string(raw), LogProb: logps[i], Bytes: make([]int, len(raw)), Top: []tokenLogProb{}}
		if !utf8.Valid(raw) {
			t.Token = s.model.Tokens.Decode([]int32{id})
		}
		for j, b := range raw {
			t.Bytes[j] = int(b)
		}
		l.Content = append(l.Content, t)
	}
	return l
}
