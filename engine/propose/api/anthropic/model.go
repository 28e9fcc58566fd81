// Package anthropic binds the official client of the Messages API to api.Model: tools,
// prompt caching with a mark behind the system prompt and one behind the newest turn, and
// errors with their status. Retries are the loop's, so the client makes none.
//
// It knows the protocol and nothing of proposals. Not covered: streaming, thinking budgets,
// tools that the service itself runs.
package anthropic

import (
	"context"
	"errors"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/seed-7c27e6b8/whale/engine/propose/api"
)

// Settings say which model, where, and with which key.
type Settings struct {
	Model string
	URL   string // base URL of a compatible service; empty = the official one
	Key   string
	Token string // sent instead of a key, if not empty
}

// forever stands for no limit of the client's own, which would end at ten minutes and refuse
// to ask for long replies of some models: the loop's is the context's.
const forever = 24 * time.Hour

// Model is a model behind the Messages API.
type Model struct {
	client sdk.Client
	name   string
}

var _ api.Model = (*Model)(nil)

// New makes a Model. The environment is not read.
func New(s Settings) *Model {
	options := []option.RequestOption{option.WithoutEnvironmentDefaults(), option.WithMaxRetries(0),
		option.WithRequestTimeout(forever)}
	if s.URL != "" {
		options = append(options, option.WithBaseURL(strings.TrimSuffix(strings.TrimSuffix(s.URL, "/"), "/v1")+"/"))
	}
	switch {
	case s.Token != "":
		options = append(options, option.WithAuthToken(s.Token))
	case s.Key != "":
		options = append(options, option.WithAPIKey(s.Key))
		if s.URL != "" { // compatible services know the header of older clients
			options = append(options, option.WithHeader("X-Api-Key", s.Key))
		}
	default: // a local service may want none
		options = append(options, option.WithAPIKey("none"))
	}
	return &Model{client: sdk.NewClient(options...), name: s.Model}
}

// Open implements api.Model.
func (m *Model) Open(o api.Opening) api.Chat {
	c := &chat{m: m, params: sdk.MessageNewParams{Model: m.name, MaxTokens: int64(o.MaxTokens),
		System: []sdk.TextBlockParam{{Text: o.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}}}
	for _, t := range o.Tools {
		properties, required := t.Schema()
		c.params.Tools = append(c.params.Tools, sdk.ToolUnionParam{OfTool: &sdk.ToolParam{Name: t.Name,
			Description: sdk.String(t.Description), InputSchema: sdk.ToolInputSchemaParam{Properties: properties, Required: required}}})
	}
	return c
}

// chat is one conversation; params holds what both sides said.
type chat struct {
	m      *Model
	params sdk.MessageNewParams
}

// Say implements api.Chat.
func (c *chat) Say(ctx context.Context, in api.Input) (api.Reply, error) {
	var blocks []sdk.ContentBlockParamUnion
	for _, r := range in.Results {
		text := r.Text
		if text == "" {
			text = "(empty)"
		}
		blocks = append(blocks, sdk.NewToolResultBlock(r.ID, text, r.Failed))
	}
	if in.Text != "" {
		blocks = append(blocks, sdk.NewTextBlock(in.Text))
	}
	said := append(c.params.Messages[:len(c.params.Messages):len(c.params.Messages)], sdk.NewUserMessage(blocks...))
	params := c.params
	params.Messages = append(said[:len(said)-1:len(said)-1], sdk.NewUserMessage(marked(blocks)...))
	message, err := c.m.client.Messages.New(ctx, params)
	if err != nil {
		return api.Reply{}, failure(err)
	}
	if message == nil || len(message.Content) == 0 && message.StopReason == "" { // the body null gives nil
		return api.Reply{}, &api.ServiceError{Err: errors.New("the answer is no message")}
	}
	c.params.Messages = append(said, sdk.NewAssistantMessage(answer(message)...))
	return reply(message), nil
}

// answer is the model's message as the next request has it. The service refuses empty
// texts and empty turns.
func answer(m *sdk.Message) []sdk.ContentBlockParamUnion {
	var blocks []sdk.ContentBlockParamUnion
	for _, b := range m.Content {
		if block := b.ToParam(); block.OfText == nil || block.OfText.Text != "" {
			blocks = append(blocks, block)
		}
	}
	if len(blocks) == 0 {
		blocks = append(blocks, sdk.NewTextBlock("(nothing)"))
	}
	return blocks
}

// marked are the blocks of a turn with a cache mark on the last.
func marked(blocks []sdk.ContentBlockParamUnion) []sdk.ContentBlockParamUnion {
	out := append([]sdk.ContentBlockParamUnion(nil), blocks...)
	last := &out[len(out)-1]
	switch {
	case last.OfText != nil:
		block := *last.OfText
		block.CacheControl = sdk.NewCacheControlEphemeralParam()
		last.OfText = &block
	case last.OfToolResult != nil:
		block := *last.OfToolResult
		block.CacheControl = sdk.NewCacheControlEphemeralParam()
		last.OfToolResult = &block
	}
	return out
}

func reply(m *sdk.Message) api.Reply {
	u := m.Usage
	r := api.Reply{Model: m.Model, Cut: m.StopReason == sdk.StopReasonMaxTokens, Usage: api.Usage{Input: api.Tokens(u.InputTokens),
		Read: api.Tokens(u.CacheReadInputTokens), Written: api.Tokens(u.CacheCreationInputTokens), Output: api.Tokens(u.OutputTokens)}}
	for _, b := range m.Content {
		switch b := b.AsAny().(type) {
		case sdk.TextBlock:
			r.Text += b.Text
		case sdk.ToolUseBlock:
			r.Calls = append(r.Calls, api.Call{ID: b.ID, Name: b.Name, Args: string(b.Input)})
		}
	}
	return r
}

// failure gives an error its status. Requests are not in its text: they have the key.
func failure(err error) error {
	var failed *sdk.Error
	if !errors.As(err, &failed) {
		return &api.ServiceError{Err: err}
	}
	return api.Refused(failed.StatusCode, failed.Response, failed.Message, failed.RawJSON())
}
