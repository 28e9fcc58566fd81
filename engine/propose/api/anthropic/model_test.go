package anthropic

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
	var blocks []string
	if t.Text != "" {
		blocks = append(blocks, `{"type":"text","text":`+quote(t.Text)+`}`)
	}
	stop := "end_turn"
	for _, c := range t.Calls {
		stop = "tool_use"
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quote(c.ID), quote(c.Name), c.Args))
	}
	return fmt.Sprintf(`{"id":"msg","type":"message","role":"assistant","model":"some-model","content":[%s],"stop_reason":%q,
"usage":{"input_tokens":60,"cache_read_input_tokens":40,"cache_creation_input_tokens":0,"output_tokens":10}}`, strings.Join(blocks, ","), stop)
}

// request is what the service gets, as far as the tests look at it.
type request struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	System    []struct {
		Cache *struct{ Type string } `json:"cache_control"`
	} `json:"system"`
	Tools []struct {
		Name   string `json:"name"`
		Schema struct {
			Type       string         `json:"type"`
			Properties map[string]any `json:"properties"`
			Required   []string       `json:"required"`
		} `json:"input_schema"`
	} `json:"tools"`
	Messages []struct {
		Role    string `json:"role"`
		Content []struct {
			Type  string                 `json:"type"`
			Text  string                 `json:"text"`
			ID    string                 `json:"tool_use_id"`
			Cache *struct{ Type string } `json:"cache_control"`
		} `json:"content"`
	} `json:"messages"`
}

// check looks at everything that every request must have: the key, tools, alternating
// turns, and cache marks behind the system prompt and the newest turn only.
func check(t *testing.T, r *http.Request, body []byte, _ int) {
	var q request
	if err := json.Unmarshal(body, &q); err != nil {
		t.Errorf("%v in %s", err, body)
		return
	}
	if r.URL.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != apitest.Key || q.Model != "some-model" || q.MaxTokens < 1 {
		t.Errorf("%s, %v, %s, %d", r.URL, r.Header, q.Model, q.MaxTokens)
	}
	if len(q.System) != 1 || q.System[0].Cache == nil || len(q.Tools) != 5 || q.Tools[0].Schema.Type != "object" || len(q.Tools[0].Schema.Required) == 0 {
		t.Errorf("%+v", q)
	}
	for i, m := range q.Messages {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want || len(m.Content) == 0 {
			t.Errorf("message %d: %+v", i, m)
		}
		for j, c := range m.Content {
			newest := i == len(q.Messages)-1 && j == len(m.Content)-1
			if (c.Cache != nil) != newest || c.Type == "text" && c.Text == "" || c.Type == "tool_result" && c.ID == "" {
				t.Errorf("block %d of message %d: %+v", j, i, c)
			}
		}
	}
}

func TestModel(t *testing.T) {
	apitest.Run(t, apitest.Protocol{
		New:  func(url, key string) api.Model { return New(Settings{Model: "some-model", URL: url, Key: key}) },
		Body: body, Check: check,
		Error: func(message string) string {
			return `{"type":"error","error":{"type":"some_error","message":` + quote(message) + `}}`
		},
	})
}
