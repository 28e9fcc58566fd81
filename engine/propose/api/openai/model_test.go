package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine/propose/api"
	"github.com/seed-7c27e6b8/whale/engine/propose/api/apitest"
)

func quote(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func body(t apitest.Turn) string {
	var calls []string
	finish := "stop"
	for _, c := range t.Calls {
		finish = "tool_calls"
		calls = append(calls, fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, quote(c.ID), quote(c.Name), quote(c.Args)))
	}
	return fmt.Sprintf(`{"id":"c","object":"chat.completion","created":1,"model":"some-model","choices":[{"index":0,"finish_reason":%q,
"message":{"role":"assistant","content":%s,"own_field":1,"tool_calls":[%s]}}],
"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110,"prompt_tokens_details":{"cached_tokens":40}}}`, finish, quote(t.Text), strings.Join(calls, ","))
}

// request is what the service gets, as far as the tests look at it.
type request struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	Tools     []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string `json:"name"`
			Parameters struct {
				Type       string         `json:"type"`
				Properties map[string]any `json:"properties"`
				Required   []string       `json:"required"`
			} `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Messages []struct {
		Role  string `json:"role"`
		ID    string `json:"tool_call_id"`
		Calls []struct {
			ID string `json:"id"`
		} `json:"tool_calls"`
		Own int `json:"own_field"`
	} `json:"messages"`
}

// check looks at everything that every request must have: the key, tools, and a result for
// every call.
func check(t *testing.T, r *http.Request, body []byte, _ int) {
	var q request
	if err := json.Unmarshal(body, &q); err != nil {
		t.Errorf("%v in %s", err, body)
		return
	}
	if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+apitest.Key || q.Model != "some-model" || q.MaxTokens < 1 {
		t.Errorf("%s, %v, %s, %d", r.URL, r.Header, q.Model, q.MaxTokens)
	}
	if len(q.Tools) != 5 || q.Tools[0].Function.Parameters.Type != "object" || len(q.Tools[0].Function.Parameters.Required) == 0 {
		t.Errorf("%+v", q)
	}
	var open []string
	for i, m := range q.Messages {
		switch {
		case m.Own != 0 || (m.Role == "system") != (i == 0):
			t.Errorf("message %d: %+v", i, m)
		case m.Role == "tool":
			if len(open) == 0 || m.ID != open[0] {
				t.Errorf("message %d answers %q, open are %v", i, m.ID, open)
				return
			}
			open = open[1:]
		default:
			if len(open) > 0 {
				t.Errorf("message %d: calls %v have no result", i, open)
			}
			for _, c := range m.Calls {
				open = append(open, c.ID)
			}
		}
	}
}

func TestModel(t *testing.T) {
	apitest.Run(t, apitest.Protocol{
		New:  func(url, key string) api.Model { return New(Settings{Model: "some-model", URL: url + "/v1", Key: key}) },
		Body: body, Check: check,
		Error: func(message string) string { return `{"error":{"message":` + quote(message) + `,"type":"some_error"}}` },
	})
}
