// Package openai binds the official client of chat completions to api.Model: any server
// that speaks this protocol with tools will do, also a local one or whale serve. Retries
// are the loop's, so the client makes none.
//
// It knows the protocol and nothing of proposals. Not covered: streaming, and the newer
// Responses protocol, which few other servers speak.
package openai

import (
	"context"
	"errors"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/seed-7c27e6b8/whale/engine/propose/api"
)

// Settings say which model, where, and with which key.
type Settings struct {
	Model string
	URL   string // base URL of a compatible service, with /v1; empty = the official one
	Key   string // empty = none, for a local service
}

// official is the base URL of the service that the client is made for.
const official = "https://api.openai.com/v1"

// Model is a model behind chat completions.
type Model struct {
	client sdk.Client
	name   string
	own    bool // the official service
}

var _ api.Model = (*Model)(nil)

// New makes a Model. Everything is set here, so nothing of the environment counts.
func New(s Settings) *Model {
	m := &Model{name: s.Model, own: s.URL == ""}
	url, key := s.URL, s.Key
	if m.own {
		url = official
	}
	if key == "" {
		key = "none"
	}
	m.client = sdk.NewClient(option.WithBaseURL(url), option.WithAPIKey(key), option.WithMaxRetries(0),
		option.WithHeaderDel("OpenAI-Organization"), option.WithHeaderDel("OpenAI-Project"))
	return m
}

// Open implements api.Model.
func (m *Model) Open(o api.Opening) api.Chat {
	c := &chat{m: m, params: sdk.ChatCompletionNewParams{Model: m.name, Messages: []sdk.ChatCompletionMessageParamUnion{sdk.SystemMessage(o.System)}}}
	if m.own { // other servers know the older name only
		c.params.MaxCompletionTokens = sdk.Int(int64(o.MaxTokens))
		c.params.PromptCacheKey = sdk.String("whale-proposer")
	} else {
		c.params.MaxTokens = sdk.Int(int64(o.MaxTokens))
	}
	for _, t := range o.Tools {
		properties, required := t.Schema()
		c.params.Tools = append(c.params.Tools, sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: t.Name,
			Description: sdk.String(t.Description), Parameters: shared.FunctionParameters{
				"type": "object", "properties": properties, "required": required}}))
	}
	return c
}

// chat is one conversation; params holds what both sides said.
type chat struct {
	m      *Model
	params sdk.ChatCompletionNewParams
}

// Say implements api.Chat.
func (c *chat) Say(ctx context.Context, in api.Input) (api.Reply, error) {
	params := c.params
	params.Messages = params.Messages[:len(params.Messages):len(params.Messages)]
	for _, r := range in.Results {
		params.Messages = append(params.Messages, sdk.ToolMessage(r.Text, r.ID))
	}
	if in.Text != "" {
		params.Messages = append(params.Messages, sdk.UserMessage(in.Text))
	}
	done, err := c.m.client.Chat.Completions.New(ctx, params)
	if err != nil {
		return api.Reply{}, failure(err)
	}
	if done == nil || len(done.Choices) == 0 { // the body null gives nil
		return api.Reply{}, &api.ServiceError{Err: errors.New("the answer has no choice")}
	}
	choice := done.Choices[0]
	c.params.Messages = append(params.Messages, said(choice.Message))
	cached := min(api.Tokens(done.Usage.PromptTokensDetails.CachedTokens), api.Tokens(done.Usage.PromptTokens))
	r := api.Reply{Text: choice.Message.Content, Model: done.Model, Cut: choice.FinishReason == "length", Usage: api.Usage{
		Input: api.Tokens(done.Usage.PromptTokens) - cached, Read: cached, Output: api.Tokens(done.Usage.CompletionTokens)}}
	for _, call := range choice.Message.ToolCalls {
		r.Calls = append(r.Calls, api.Call{ID: call.ID, Name: call.Function.Name, Args: call.Function.Arguments})
	}
	return r, nil
}

// said is the model's message as the next request has it: text and calls only, since
// servers refuse fields of their own in what comes back.
func said(m sdk.ChatCompletionMessage) sdk.ChatCompletionMessageParamUnion {
	var out sdk.ChatCompletionAssistantMessageParam
	if m.Content != "" || len(m.ToolCalls) == 0 {
		out.Content.OfString = sdk.String(m.Content)
	}
	for _, call := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{ID: call.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: call.Function.Name, Arguments: call.Function.Arguments}}})
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &out}
}

// failure gives an error its status. Requests are not in its text: they have the key.
func failure(err error) error {
	var failed *sdk.Error
	if !errors.As(err, &failed) {
		return &api.ServiceError{Err: err}
	}
	return api.Refused(failed.StatusCode, failed.Response, failed.Message, failed.RawJSON())
}
