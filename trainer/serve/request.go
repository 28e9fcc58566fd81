package serve

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/chat"
)

// settings are what chat and plain completions have in common.
type settings struct {
	Model         string          `json:"model"`
	MaxTokens     *int            `json:"max_tokens"`
	Temperature   *float64        `json:"temperature"`
	TopP          *float64        `json:"top_p"`
	TopK          *int            `json:"top_k"`
	N             *int            `json:"n"`
	Seed          *int64          `json:"seed"`
	Stop          stops           `json:"stop"`
	Streams       bool            `json:"stream"`
	StreamOptions *streamOptions  `json:"stream_options"`
	ReturnIDs     bool            `json:"return_token_ids"`
	User          json.RawMessage `json:"user"`

	// What is not offered is named, so that nobody takes it for done.
	LogitBias        json.RawMessage `json:"logit_bias"`
	PresencePenalty  float64         `json:"presence_penalty"`
	FrequencyPenalty float64         `json:"frequency_penalty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// stops is one text or several.
type stops []string

// UnmarshalJSON takes null, a text or a list of texts.
func (s *stops) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		if one != "" {
			*s = stops{one}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(s))
}

// plan is a request that can be generated.
type plan struct {
	prompt   []int32
	request  engine.Request // Prompt and the first choice's seed included
	choices  int
	stop     []string
	stream   bool
	usage    bool // in a last chunk of the stream
	ids      bool
	logprobs bool
}

// plan checks the settings against a prompt.
func (s *Server) plan(q settings, prompt []int32, most *int) (plan, error) {
	if err := s.unknown(q.Model); err != nil {
		return plan{}, err
	}
	value := func(v *float64, other float64) float64 {
		if v == nil {
			return other
		}
		return *v
	}
	number := func(v *int, other int) int {
		if v == nil {
			return other
		}
		return *v
	}
	if most == nil {
		most = q.MaxTokens
	}
	p := plan{prompt: prompt, choices: number(q.N, 1), stop: q.Stop, stream: q.Streams, ids: q.ReturnIDs,
		usage: q.StreamOptions != nil && q.StreamOptions.IncludeUsage}
	p.request = engine.Request{Prompt: prompt, MaxTokens: number(most, maxTokens), Seed: anySeed(),
		Sampling: engine.Sampling{Temperature: value(q.Temperature, 1), TopP: value(q.TopP, 1), TopK: number(q.TopK, 0)}}
	if q.Seed != nil {
		p.request.Seed = uint64(*q.Seed)
	}
	t, top := p.request.Sampling.Temperature, p.request.Sampling.TopP
	switch bias := strings.TrimSpace(string(q.LogitBias)); {
	case bias != "" && bias != "null" && bias != "{}":
		return p, bad("logit_bias", "logit_bias is not offered")
	case q.PresencePenalty != 0:
		return p, bad("presence_penalty", "penalties are not offered")
	case q.FrequencyPenalty != 0:
		return p, bad("frequency_penalty", "penalties are not offered")
	case p.choices < 1 || p.choices > maxChoices:
		return p, bad("n", "n is %d, from 1 to %d", p.choices, maxChoices)
	case p.request.MaxTokens < 1:
		return p, bad("max_tokens", "max_tokens is %d, at least 1", p.request.MaxTokens)
	case math.IsNaN(t) || t < 0 || t > 100:
		return p, bad("temperature", "temperature is %v, from 0 to 100", t)
	case math.IsNaN(top) || top <= 0 || top > 1:
		return p, bad("top_p", "top_p is %v, above 0 and at most 1", top)
	case p.request.Sampling.TopK < -1:
		return p, bad("top_k", "top_k is %d, 0 or -1 for all", p.request.Sampling.TopK)
	case len(q.Stop) > maxStops:
		return p, bad("stop", "%d stop texts, at most %d", len(q.Stop), maxStops)
	}
	for _, text := range q.Stop {
		if text == "" {
			return p, bad("stop", "a stop text is empty")
		}
	}
	p.request.Sampling.TopK = max(0, p.request.Sampling.TopK)
	p.request.MaxTokens = min(p.request.MaxTokens, max(1, s.model.Context-len(prompt)))
	return p, nil
}

// chatRequest is a request for a reply.
type chatRequest struct {
	settings
	Messages            []message       `json:"messages"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Tools               []tool          `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	LogProbs            bool            `json:"logprobs"`
	TopLogProbs         int             `json:"top_logprobs"`
	ResponseFormat      *struct {
		Type string `json:"type"`
	} `json:"response_format"`
	Modalities []string `json:"modalities"`
}

// message is one message of a request.
type message struct {
	Role      string     `json:"role"`
	Content   content    `json:"content"`
	ToolCalls []toolCall `json:"tool_calls"`
	// TokenIDs are the ids that this server gave for an assistant message: they enter
	// the prompt as they were sampled, whatever the content says.
	TokenIDs []int32 `json:"token_ids"`
}

// content is a text, or text parts to be joined.
type content string

// UnmarshalJSON takes null, a text, or a list of text parts.
func (c *content) UnmarshalJSON(b []byte) error {
	var one *string
	if json.Unmarshal(b, &one) == nil {
		if one != nil {
			*c = content(*one)
		}
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	var all strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return bad("messages", "content of type %q is not offered, only text", p.Type)
		}
		all.WriteString(p.Text)
	}
	*c = content(all.String())
	return nil
}

type tool struct {
	Type     string          `json:"type"`
	Function json.RawMessage `json:"function"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// conversation is a prompt with what is needed to read the reply.
type conversation struct {
	prompt  []int32
	format  chat.Format
	style   chat.CallStyle
	schemas [][]byte
}

// conversation renders messages for the model, with tools where its template has a place
// for them.
func (s *Server) conversation(messages []message, tools []tool) (conversation, error) {
	c := conversation{format: s.model.Chat, style: chat.NoCalls}
	if len(messages) == 0 {
		return c, bad("messages", "there are no messages")
	}
	template, ok := s.model.Chat.(*chat.Template)
	if ok {
		c.style = template.Calls()
	}
	if len(tools) > 0 {
		if len(tools) > maxTools {
			return c, bad("tools", "%d tools, at most %d", len(tools), maxTools)
		}
		for _, t := range tools {
			if t.Type != "function" {
				return c, bad("tools", "tools of type %q are not offered, only function", t.Type)
			}
			schema, err := json.Marshal(struct {
				Type     string          `json:"type"`
				Function json.RawMessage `json:"function"`
			}{t.Type, t.Function})
			if err != nil {
				return c, bad("tools", "%v", err)
			}
			c.schemas = append(c.schemas, schema)
		}
		if !ok || c.style == chat.NoCalls {
			return c, bad("tools", "the chat format of this model has no place for tools")
		}
		with, err := template.WithTools(c.schemas)
		if err != nil {
			return c, err
		}
		c.format = with
	}
	turns := make([]chat.Message, len(messages))
	for i, m := range messages {
		turn, err := c.turn(m)
		if err != nil {
			return c, err
		}
		turns[i] = turn
	}
	var err error
	c.prompt, err = c.format.Render(turns)
	return c, err
}

func (c conversation) turn(m message) (chat.Message, error) {
	turn := chat.Message{Role: m.Role, Content: string(m.Content)}
	switch m.Role {
	case "developer": // the newer name for it
		turn.Role = chat.System
	case chat.System, chat.User, chat.Tool:
	case chat.Assistant:
		turn.Sampled = m.TokenIDs
		if len(m.ToolCalls) > 0 && len(m.TokenIDs) == 0 {
			calls := make([]chat.Call, len(m.ToolCalls))
			for i, t := range m.ToolCalls {
				calls[i] = chat.Call{Name: t.Function.Name, Arguments: t.Function.Arguments}
			}
			text, err := chat.FormatCalls(c.style, turn.Content, calls)
			if err != nil {
				return turn, err
			}
			turn.Content = text
		}
	default:
		return turn, bad("messages", "role %q is not one of system, developer, user, assistant, tool", m.Role)
	}
	return turn, nil
}

// plan checks a chat request.
func (q *chatRequest) plan(s *Server) (plan, conversation, error) {
	switch choice := strings.TrimSpace(string(q.ToolChoice)); {
	case choice == "" || choice == "null" || choice == `"auto"`:
	case choice == `"none"`:
		q.Tools = nil
	default:
		return plan{}, conversation{}, bad("tool_choice", "tool_choice is auto or none; the model can't be forced")
	}
	switch {
	case q.ResponseFormat != nil && q.ResponseFormat.Type != "text":
		return plan{}, conversation{}, bad("response_format", "response_format %q is not offered, only text", q.ResponseFormat.Type)
	case q.TopLogProbs != 0:
		return plan{}, conversation{}, bad("top_logprobs", "top_logprobs is not offered; logprobs gives those of the sampled tokens")
	}
	for _, m := range q.Modalities {
		if m != "text" {
			return plan{}, conversation{}, bad("modalities", "modality %q is not offered, only text", m)
		}
	}
	c, err := s.conversation(q.Messages, q.Tools)
	if err != nil {
		return plan{}, c, err
	}
	p, err := s.plan(q.settings, c.prompt, q.MaxCompletionTokens)
	p.logprobs = q.LogProbs
	return p, c, err
}
