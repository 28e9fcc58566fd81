package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer"
	"github.com/seed-7c27e6b8/whale/trainer/chat"
	"github.com/seed-7c27e6b8/whale/trainer/nano"
)

const key = "k-secret"

// house is the nano model behind a server.
type house struct {
	trainer *trainer.Trainer
	url     string
}

func open(t testing.TB) house {
	t.Helper()
	dev, err := cuda.Open("cpu", 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Close)
	files, err := nano.Open(nano.For("lookup"))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := trainer.Open(files, dev, trainer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	server := httptest.NewServer(New(Model{Name: "nano", Policy: tr.Policy(), Chat: tr.Chat(), Tokens: tr.Tokenizer(), Context: tr.Context()}, key).Handler())
	t.Cleanup(server.Close)
	return house{tr, server.URL}
}

// post sends a body and returns status and answer.
func (h house) post(t testing.TB, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, h.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func ask(seed int, more string) string {
	return fmt.Sprintf(`{"model":"nano","seed":%d,"return_token_ids":true,"logprobs":true,"max_tokens":24,"messages":[{"role":"user","content":"who is vikrim married to?"}]%s}`, seed, more)
}

// inProcess is what the policy itself says to the same request.
func (h house) inProcess(t testing.TB, seed uint64) engine.Completion {
	t.Helper()
	ids, err := h.trainer.Policy().Encode([]engine.Turn{{Role: "user", Content: "who is vikrim married to?"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := h.trainer.Policy().Generate(t.Context(), engine.Request{Prompt: ids, MaxTokens: 24, Seed: seed, Sampling: engine.Sampling{Temperature: 1, TopP: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// collected is a stream put together again.
type collected struct {
	text   string
	ids    []int32
	logps  []float32
	reason string
	prompt []int32
	usage  *usage
}

func collect(t testing.TB, text string) map[int]*collected {
	t.Helper()
	all := map[int]*collected{}
	lines := strings.Split(strings.TrimSpace(text), "\n\n")
	if lines[len(lines)-1] != "data: [DONE]" {
		t.Fatalf("the stream ends with %q", lines[len(lines)-1])
	}
	for _, line := range lines[:len(lines)-1] {
		var a chatAnswer
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for _, c := range a.Choices {
			if all[c.Index] == nil {
				all[c.Index] = &collected{}
			}
			one := all[c.Index]
			one.prompt = append(one.prompt, a.PromptIDs...)
			one.ids = append(one.ids, c.TokenIDs...)
			if c.Delta.Content != nil {
				one.text += *c.Delta.Content
			}
			if c.LogProbs != nil {
				for _, l := range c.LogProbs.Content {
					one.logps = append(one.logps, l.LogProb)
				}
			}
			if c.Reason != nil {
				one.reason = *c.Reason
			}
		}
		if a.Usage != nil {
			if all[0] == nil {
				all[0] = &collected{}
			}
			all[0].usage = a.Usage
		}
	}
	return all
}

// The same seed gives the ids that the policy gives in process: whole, streamed, as
// further choices, and with 64 streams at once.
func TestAnswersAreThoseOfThePolicy(t *testing.T) {
	h := open(t)
	for seed := range 4 {
		want := h.inProcess(t, uint64(seed))
		status, text := h.post(t, "/v1/chat/completions", ask(seed, ""))
		var a chatAnswer
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK {
			t.Fatal(status, text)
		}
		c := a.Choices[0]
		if !slices.Equal(c.TokenIDs, want.Sampled) || *c.Message.Content != want.Text || len(c.LogProbs.Content) != len(want.Sampled) {
			t.Errorf("seed %d: %q %v, want %q %v", seed, *c.Message.Content, c.TokenIDs, want.Text, want.Sampled)
		}
		for i, l := range c.LogProbs.Content {
			if l.LogProb != want.LogProbs[i] {
				t.Errorf("seed %d: log-prob %d is %v, want %v", seed, i, l.LogProb, want.LogProbs[i])
			}
		}
		if a.Fingerprint != string(want.Weights) || a.Usage.Completion != len(want.Sampled) || a.Usage.Prompt != len(a.PromptIDs) {
			t.Errorf("seed %d: %+v", seed, a)
		}
	}
	_, text := h.post(t, "/v1/chat/completions", ask(1, `,"n":3`))
	var three chatAnswer
	if err := json.Unmarshal([]byte(text), &three); err != nil || len(three.Choices) != 3 {
		t.Fatal(text)
	}
	for i, c := range three.Choices {
		if want := h.inProcess(t, uint64(1+i)); !slices.Equal(c.TokenIDs, want.Sampled) {
			t.Errorf("choice %d: %v, want %v", i, c.TokenIDs, want.Sampled)
		}
	}
	var all sync.WaitGroup
	for seed := range 64 {
		all.Go(func() {
			_, text := h.post(t, "/v1/chat/completions", ask(seed, `,"stream":true,"stream_options":{"include_usage":true}`))
			got, want := collect(t, text)[0], h.inProcess(t, uint64(seed))
			reason := map[engine.StopReason]string{engine.StopEnd: "stop", engine.StopLength: "length"}[want.Stop]
			if !slices.Equal(got.ids, want.Sampled) || got.text != want.Text || !slices.Equal(got.logps, want.LogProbs) || got.reason != reason {
				t.Errorf("stream of seed %d: %+v, want %+v", seed, got, want)
			}
			if len(got.prompt) == 0 || got.usage == nil || got.usage.Completion != len(want.Sampled) {
				t.Errorf("stream of seed %d: prompt %v, usage %+v", seed, got.prompt, got.usage)
			}
		})
	}
	all.Wait()
}

// Token ids given back for an assistant message enter the prompt as they were sampled.
func TestSampledIDsReturnUnchanged(t *testing.T) {
	h := open(t)
	first := h.inProcess(t, 3)
	ids, _ := json.Marshal(first.Sampled)
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":"who is vikrim married to?"},{"role":"assistant","content":"other","token_ids":%s},{"role":"user","content":"and?"}]}`, ids)
	status, text := h.post(t, "/tokenize", body)
	want, err := h.trainer.Policy().Encode([]engine.Turn{{Role: "user", Content: "who is vikrim married to?"}, {Role: "assistant", Sampled: first.Sampled}, {Role: "user", Content: "and?"}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Tokens []int32 }
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != http.StatusOK || !slices.Equal(got.Tokens, want) {
		t.Errorf("%d %s, want %v", status, text, want)
	}
	prompt, _ := json.Marshal(want)
	status, text = h.post(t, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"seed":9,"max_tokens":12,"return_token_ids":true,"logprobs":0}`, prompt))
	c, err := h.trainer.Policy().Generate(t.Context(), engine.Request{Prompt: want, MaxTokens: 12, Seed: 9, Sampling: engine.Sampling{Temperature: 1, TopP: 1}})
	if err != nil {
		t.Fatal(err)
	}
	var a textAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK || !slices.Equal(a.Choices[0].TokenIDs, c.Sampled) || !slices.Equal(a.Choices[0].LogProbs.LogProbs, c.LogProbs) {
		t.Errorf("%d %s, want %v", status, text, c.Sampled)
	}
}

// A stop text ends the answer before it, streamed or not, wherever tokens are cut.
func TestStopTexts(t *testing.T) {
	h := open(t)
	whole := h.inProcess(t, 3).Text
	if len(whole) < 8 {
		t.Fatalf("the model says %q", whole)
	}
	for _, stop := range []string{whole[2:5], whole[4:5], "no such text"} {
		want, _, _ := strings.Cut(whole, stop)
		quoted, _ := json.Marshal([]string{stop})
		_, text := h.post(t, "/v1/chat/completions", ask(3, `,"stop":`+string(quoted)))
		var a chatAnswer
		if err := json.Unmarshal([]byte(text), &a); err != nil || *a.Choices[0].Message.Content != want {
			t.Errorf("stop %q: %s, want %q", stop, text, want)
		}
		_, text = h.post(t, "/v1/chat/completions", ask(3, `,"stream":true,"stop":`+string(quoted)))
		if got := collect(t, text)[0]; got.text != want || got.reason != *a.Choices[0].Reason {
			t.Errorf("stop %q streamed: %+v, want %q", stop, got, want)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	h := open(t)
	message := `"messages":[{"role":"user","content":"x"}]`
	for name, c := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"no json":         {"/v1/chat/completions", `{`, 400, "not the JSON"},
		"no messages":     {"/v1/chat/completions", `{}`, 400, "no messages"},
		"role":            {"/v1/chat/completions", `{"messages":[{"role":"robot","content":"x"}]}`, 400, `role \"robot\"`},
		"image":           {"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "image_url"},
		"other model":     {"/v1/chat/completions", `{"model":"gpt",` + message + `}`, 404, "model_not_found"},
		"bias":            {"/v1/chat/completions", `{"logit_bias":{"1":2},` + message + `}`, 400, "logit_bias"},
		"penalty":         {"/v1/chat/completions", `{"presence_penalty":1,` + message + `}`, 400, "presence_penalty"},
		"n":               {"/v1/chat/completions", `{"n":1000,` + message + `}`, 400, "n is 1000"},
		"temperature":     {"/v1/chat/completions", `{"temperature":-1,` + message + `}`, 400, "temperature"},
		"top_p":           {"/v1/chat/completions", `{"top_p":0,` + message + `}`, 400, "top_p"},
		"max_tokens":      {"/v1/chat/completions", `{"max_tokens":0,` + message + `}`, 400, "max_tokens"},
		"empty stop":      {"/v1/chat/completions", `{"stop":[""],` + message + `}`, 400, "stop"},
		"format":          {"/v1/chat/completions", `{"response_format":{"type":"json_object"},` + message + `}`, 400, "response_format"},
		"top_logprobs":    {"/v1/chat/completions", `{"top_logprobs":3,` + message + `}`, 400, "top_logprobs"},
		"forced tool":     {"/v1/chat/completions", `{"tool_choice":"required",` + message + `}`, 400, "tool_choice"},
		"tools":           {"/v1/chat/completions", `{"tools":[{"type":"function","function":{"name":"f"}}],` + message + `}`, 400, "no place for tools"},
		"foreign ids":     {"/v1/completions", `{"prompt":[1,99999999]}`, 400, "outside the vocabulary"},
		"negative id":     {"/v1/completions", `{"prompt":[-1]}`, 400, "outside the vocabulary"},
		"empty prompt":    {"/v1/completions", `{"prompt":""}`, 400, "empty"},
		"two prompts":     {"/v1/completions", `{"prompt":["a","b"]}`, 400, "one text"},
		"too long":        {"/v1/completions", `{"prompt":"` + strings.Repeat("word ", 50_000) + `"}`, 400, "context_length_exceeded"},
		"too long stream": {"/v1/completions", `{"stream":true,"prompt":"` + strings.Repeat("word ", 50_000) + `"}`, 400, "context_length_exceeded"},
		"large":           {"/v1/completions", `{"prompt":"` + strings.Repeat("x", maxBody) + `"}`, 413, "at most"},
	} {
		if status, text := h.post(t, c.path, c.body); status != c.status || !strings.Contains(text, c.want) || strings.Contains(text, key) {
			t.Errorf("%s: %d %.200s, want %d %s", name, status, text, c.status, c.want)
		}
	}
	r, err := http.Post(h.url+"/v1/chat/completions", "application/json", strings.NewReader(ask(1, "")))
	if err != nil || r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %v %v", r, err)
	}
}

// A client that leaves in the middle of a stream frees its place.
func TestClientThatLeaves(t *testing.T) {
	h := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/v1/chat/completions", strings.NewReader(ask(1, `,"stream":true,"n":8`)))
	r.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := answer.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	answer.Body.Close()
	if status, text := h.post(t, "/v1/chat/completions", ask(2, "")); status != http.StatusOK {
		t.Error(status, text)
	}
}

// The official client in Go: a reply, a stream, the models, an error of its own type.
func TestOfficialClient(t *testing.T) {
	h := open(t)
	client := openai.NewClient(option.WithBaseURL(h.url+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
	want := h.inProcess(t, 3)
	params := openai.ChatCompletionNewParams{Model: "nano", Seed: openai.Int(3), MaxCompletionTokens: openai.Int(24), Logprobs: openai.Bool(true),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("who is vikrim married to?")}}
	reply, err := client.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if reply.Choices[0].Message.Content != want.Text || len(reply.Choices[0].Logprobs.Content) != len(want.Sampled) {
		t.Errorf("got %+v, want %q", reply, want.Text)
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	var sum openai.ChatCompletionAccumulator
	for stream.Next() {
		if !sum.AddChunk(stream.Current()) {
			t.Error("a chunk that does not fit")
		}
	}
	if err := stream.Err(); err != nil || sum.Choices[0].Message.Content != want.Text {
		t.Errorf("%v: %+v, want %q", err, sum.Choices, want.Text)
	}
	models, err := client.Models.List(t.Context())
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != "nano" {
		t.Errorf("%v: %+v", err, models)
	}
	params.N = openai.Int(1000)
	_, err = client.Chat.Completions.New(t.Context(), params)
	if e, ok := err.(*openai.Error); !ok || e.StatusCode != 400 || e.Param != "n" {
		t.Errorf("got %v", err)
	}
}

// The official client in Python, where it is installed.
func TestOfficialPythonClient(t *testing.T) {
	python := os.Getenv("WHALE_PYTHON")
	if python == "" {
		python = "python3"
	}
	if exec.Command(python, "-c", "import openai").Run() != nil {
		t.Skip("python3 has no package openai: its client was not tried")
	}
	h := open(t)
	command := exec.CommandContext(t.Context(), python, "testdata/client.py", h.url+"/v1", key, h.inProcess(t, 3).Text)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Tool calls: a scripted model that speaks the format of Qwen3 through a real template.
func TestToolCalls(t *testing.T) {
	h := open(t)
	template, err := chat.NewTemplate(h.trainer.Tokenizer(), chat.Source{Template: toolTemplate}, nil)
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string) *scripted {
		return &scripted{ids: append(h.trainer.Tokenizer().Encode(text), template.Stops()[0])}
	}
	tools := `,"tools":[{"type":"function","function":{"name":"search","description":"finds","parameters":{"type":"object","properties":{"query":{"type":"string"}}}}}]`
	for name, c := range map[string]struct {
		text, content, reason string
		calls                 []functionCall
	}{
		"call":    {"one moment\n<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"a\"}}\n</tool_call>", "one moment", "tool_calls", []functionCall{{"search", `{"query": "a"}`}}},
		"two":     {"<tool_call>\n{\"name\": \"search\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"<b\"}}\n</tool_call>", "", "tool_calls", []functionCall{{"search", "{}"}, {"search", `{"query": "<b"}`}}},
		"none":    {"a < b and <tool_ is no call", "a < b and <tool_ is no call", "stop", nil},
		"garbled": {"<tool_call>\nno json\n</tool_call>", "<tool_call>\nno json\n</tool_call>", "stop", nil},
	} {
		policy := say(c.text)
		server := httptest.NewServer(New(Model{Name: "nano", Policy: policy, Chat: template, Tokens: h.trainer.Tokenizer(), Context: 4096}, key).Handler())
		other := house{h.trainer, server.URL}
		_, text := other.post(t, "/v1/chat/completions", ask(1, tools))
		var a chatAnswer
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(text)
		}
		var calls []functionCall
		for _, use := range a.Choices[0].Message.ToolCalls {
			calls = append(calls, use.Function)
		}
		if got := a.Choices[0]; *got.Message.Content != c.content || *got.Reason != c.reason || !reflect.DeepEqual(calls, c.calls) {
			t.Errorf("%s: %s", name, text)
		}
		if !strings.Contains(h.trainer.Tokenizer().Decode(policy.prompt), `"name": "search"`) {
			t.Errorf("%s: the prompt does not tell the tools: %q", name, h.trainer.Tokenizer().Decode(policy.prompt))
		}
		_, text = other.post(t, "/v1/chat/completions", ask(1, tools+`,"stream":true`))
		if got := collect(t, text)[0]; got.reason != c.reason || strings.TrimSpace(got.text) != c.content || strings.Count(text, `"name":"search"`) != len(c.calls) {
			t.Errorf("%s streamed: %+v\n%s", name, got, text)
		}
		server.Close()
	}
}

// toolTemplate is a small template in the manner of Qwen3's.
const toolTemplate = `{%- if tools %}{{- '<|im_start|>system\n' }}{%- for tool in tools %}{{- tool | tojson }}{{- '\n' }}{%- endfor %}{{- 'Answer with <tool_call>.<|im_end|>\n' }}{%- endif %}{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}`

// scripted says the same to everything.
type scripted struct {
	ids    []int32
	prompt []int32
}

func (s *scripted) Weights() engine.WeightsID { return "w0" }

func (s *scripted) Stream(_ context.Context, r engine.Request, each func(int32, float32)) (engine.Completion, error) {
	s.prompt = r.Prompt
	for _, id := range s.ids {
		each(id, -1)
	}
	return engine.Completion{Sampled: s.ids, LogProbs: make([]float32, len(s.ids)), Stop: engine.StopEnd}, nil
}

func FuzzChatRequest(f *testing.F) {
	f.Add([]byte(ask(1, `,"stop":["a"],"tools":[{"type":"function","function":{"name":"f"}}]`)))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`))
	h := open(f)
	s := New(Model{Name: "nano", Policy: &scripted{ids: []int32{1, 2, 3}}, Chat: h.trainer.Chat(), Tokens: h.trainer.Tokenizer(), Context: 512}, "")
	handler := s.Handler()
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/tokenize"} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
			if w.Code >= 500 {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}
