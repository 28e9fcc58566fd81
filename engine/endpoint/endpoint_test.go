package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

// bytesOf are words whose ids are bytes; 300 ends a reply.
type bytesOf struct{}

func (bytesOf) Encode(turns []engine.Turn) ([]int32, error) {
	var ids []int32
	for _, t := range turns {
		text := t.Role + ":" + t.Content + "\n"
		if t.Sampled != nil {
			ids = append(ids, t.Sampled...)
			continue
		}
		for _, b := range []byte(text) {
			ids = append(ids, int32(b))
		}
	}
	return ids, nil
}

func (bytesOf) Reply(text string) []int32 {
	var ids []int32
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return append(ids, 300)
}

func (bytesOf) Text(sampled []int32) string {
	var b strings.Builder
	for _, id := range sampled {
		if id < 256 {
			b.WriteByte(byte(id))
		}
	}
	return b.String()
}

// fake is a server that can be told to misbehave.
type fake struct {
	*httptest.Server
	exact bool
	model string
	print string
	calls atomic.Int64 // completions asked for
	// spoil answers a completion instead, if it says so.
	spoil func(n int64, w http.ResponseWriter) bool
	last  sync.Map // "query" -> query
}

func serve(t *testing.T, exact bool) *fake {
	f := &fake{exact: exact, model: "m", print: "fp"}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/models":
		fmt.Fprintf(w, `{"data":[{"id":%q}]}`, f.model)
		return
	case r.URL.Path == "/tokenize" && f.exact:
		var q struct{ Messages []engine.Turn }
		json.NewDecoder(r.Body).Decode(&q)
		ids, _ := bytesOf{}.Encode(q.Messages)
		json.NewEncoder(w).Encode(map[string]any{"tokens": ids})
		return
	case r.URL.Path == "/v1/completions" && f.exact, r.URL.Path == "/v1/chat/completions":
	default:
		http.Error(w, `{"error":{"message":"no such call"}}`, http.StatusNotFound)
		return
	}
	n := f.calls.Add(1)
	if f.spoil != nil && f.spoil(n, w) {
		return
	}
	var q query
	json.NewDecoder(r.Body).Decode(&q)
	f.last.Store("query", q)
	text := fmt.Sprintf("seed %d", q.Seed)
	if f.exact {
		ids := bytesOf{}.Reply(text)
		ids = ids[:min(len(ids), q.MaxTokens)]
		reason := "stop"
		if ids[len(ids)-1] != 300 {
			reason = "length"
		}
		logps := make([]float32, len(ids))
		for i := range logps {
			logps[i] = -float32(i)
		}
		json.NewEncoder(w).Encode(map[string]any{"model": f.model, "system_fingerprint": f.print, "choices": []any{map[string]any{
			"text": text, "finish_reason": reason, "token_ids": ids, "logprobs": map[string]any{"token_logprobs": logps}}}})
		return
	}
	json.NewEncoder(w).Encode(map[string]any{"model": f.model, "system_fingerprint": f.print, "choices": []any{map[string]any{
		"message": map[string]any{"role": "assistant", "content": text}, "finish_reason": "stop"}}})
}

func open(t *testing.T, servers ...*fake) *Policy {
	t.Helper()
	p, err := Open(t.Context(), options(servers...))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range servers {
		f.calls.Store(0)
	}
	return p
}

func options(servers ...*fake) Options {
	o := Options{Words: bytesOf{}, Backoff: time.Millisecond, Timeout: 5 * time.Second, Key: "sk-secret"}
	for _, f := range servers {
		o.Addresses = append(o.Addresses, f.URL+"/v1")
	}
	return o
}

// generate encodes a conversation and asks for its reply.
func generate(ctx context.Context, p *Policy, seed uint64, most int) (engine.Completion, error) {
	ids, err := p.Encode([]engine.Turn{{Role: "user", Content: "hello"}, {Role: "assistant", Sampled: []int32{'o', 'k', 300}}, {Role: "tool", Content: "found"}})
	if err != nil {
		return engine.Completion{}, err
	}
	return p.Generate(ctx, engine.Request{Prompt: ids, MaxTokens: most, Seed: seed, Sampling: engine.Sampling{Temperature: 1, TopP: 1}})
}

func TestIDsGoBothWaysWhereTheServerHasThem(t *testing.T) {
	f := serve(t, true)
	p := open(t, f)
	if !p.Exact() {
		t.Fatal("the server tokenizes alike, but is not sent ids")
	}
	c, err := generate(t.Context(), p, 7, 50)
	if err != nil || c.Text != "seed 7" || c.Stop != engine.StopEnd || len(c.LogProbs) != 7 || c.Sampled[6] != 300 {
		t.Errorf("%v: %+v", err, c)
	}
	if q, _ := f.last.Load("query"); !slices.Contains(q.(query).Prompt, 300) || q.(query).Messages != nil {
		t.Errorf("sampled ids did not return: %+v", q)
	}
	if c, err = generate(t.Context(), p, 7, 3); err != nil || c.Stop != engine.StopLength || len(c.Sampled) != 3 {
		t.Errorf("%v: %+v", err, c)
	}
}

func TestTextsWhereItHasNot(t *testing.T) {
	f := serve(t, false)
	p := open(t, f)
	if p.Exact() {
		t.Fatal("the server has no ids")
	}
	c, err := generate(t.Context(), p, 7, 50)
	if err != nil || c.Text != "" && c.Text != "seed 7" || p.o.Words.Text(c.Sampled) != "seed 7" || c.LogProbs != nil || c.Stop != engine.StopEnd {
		t.Errorf("%v: %+v", err, c)
	}
	q, _ := f.last.Load("query")
	if m := q.(query).Messages; len(m) != 3 || m[1].Content != "ok" || m[2].Role != "user" || m[2].Content != "found" {
		t.Errorf("messages %+v", m)
	}
	if c, err = generate(t.Context(), p, 7, 3); err != nil || c.Stop != engine.StopLength || c.Text != "see" {
		t.Errorf("%v: %+v", err, c)
	}
	if _, err := p.Generate(t.Context(), engine.Request{Prompt: []int32{1}, MaxTokens: 5}); err == nil {
		t.Error("a prompt that was never encoded has a reply")
	}
}

// Whatever a server does wrong now and then is tried again; whatever it does always is a
// fault of the policy with its reason, and never a reply.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(w http.ResponseWriter)
		want  error // always: what it is; nil = any
	}{
		"status 500": {func(w http.ResponseWriter) { http.Error(w, "oops", 500) }, nil},
		"busy":       {func(w http.ResponseWriter) { http.Error(w, "later", http.StatusTooManyRequests) }, nil},
		"garbage":    {func(w http.ResponseWriter) { io.WriteString(w, "<html>sk-secret") }, ErrGarbage},
		"no choice":  {func(w http.ResponseWriter) { io.WriteString(w, `{"choices":[]}`) }, ErrGarbage},
		"no text":    {func(w http.ResponseWriter) { io.WriteString(w, `{"choices":[{"finish_reason":"stop"}]}`) }, ErrGarbage},
		"reason":     {func(w http.ResponseWriter) { io.WriteString(w, `{"choices":[{"text":"x","finish_reason":"why"}]}`) }, ErrGarbage},
		"too many ids": {func(w http.ResponseWriter) {
			fmt.Fprintf(w, `{"choices":[{"text":"x","finish_reason":"stop","token_ids":[%s1]}]}`, strings.Repeat("1,", 99))
		}, ErrGarbage},
		"log-probs missing": {func(w http.ResponseWriter) {
			io.WriteString(w, `{"choices":[{"text":"x","finish_reason":"stop","token_ids":[1]}]}`)
		}, ErrGarbage},
		"log-prob above 0": {func(w http.ResponseWriter) {
			io.WriteString(w, `{"choices":[{"text":"x","finish_reason":"stop","token_ids":[1],"logprobs":{"token_logprobs":[0.5]}}]}`)
		}, ErrGarbage},
		"cut": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"choices":[`)
		}, ErrGarbage},
	} {
		f := serve(t, true)
		p := open(t, f)
		f.spoil = func(n int64, w http.ResponseWriter) bool {
			if n%2 == 1 {
				c.spoil(w)
			}
			return n%2 == 1
		}
		if got, err := generate(t.Context(), p, 1, 50); err != nil || got.Text != "seed 1" {
			t.Errorf("%s now and then: %v %+v", name, err, got)
		}
		f.spoil = func(_ int64, w http.ResponseWriter) bool { c.spoil(w); return true }
		_, err := generate(t.Context(), p, 1, 50)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || strings.Contains(err.Error(), "sk-secret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s always: %v", name, err)
		}
		var failure *engine.Failure
		if !errors.As(err, &failure) || failure.Boundary != engine.AtPolicy {
			t.Errorf("%s always: %T", name, err)
		}
	}
}

// A server that takes a request and never answers costs the time that is set, an attempt,
// and the error says where, how long, and what sets it.
func TestStallEndsWithTheTimeout(t *testing.T) {
	f := serve(t, true)
	o := options(f)
	o.Timeout, o.Attempts, o.Setting = 50*time.Millisecond, 2, "--wait"
	p, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	leave := make(chan struct{})
	t.Cleanup(func() { close(leave) })
	var begins atomic.Bool // an answer that begins and does not go on is none
	f.spoil = func(_ int64, w http.ResponseWriter) bool {
		if begins.Load() {
			io.WriteString(w, `{"choices":`)
			w.(http.Flusher).Flush()
		}
		<-leave
		return true
	}
	for _, name := range []string{"is silent", "begins"} {
		_, err = generate(t.Context(), p, 1, 50)
		if want := "policy generate: 2 attempts: endpoint " + f.URL + "/v1: no whole answer in 50ms; --wait sets how long is waited"; !errors.Is(err, context.DeadlineExceeded) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
		begins.Store(true)
		p.places[0].rest, p.places[0].failed = time.Time{}, 0
	}
	// A call that finds no address says what the others met.
	p.places[0].rest = time.Now().Add(time.Hour)
	if _, err := generate(t.Context(), p, 1, 50); !errors.Is(err, ErrDown) || !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), ErrDown.Error()) != 1 {
		t.Errorf("got %v", err)
	}
}

// Whoever stops a call that waits does not wait with it, whatever the limit is: in a
// completion, in the question for the model, and between attempts.
func TestStoppedWhileItStalls(t *testing.T) {
	f := serve(t, true)
	o := options(f)
	o.Timeout, o.Backoff = time.Hour, time.Hour
	leave, arrived := make(chan struct{}), make(chan struct{}, 1)
	t.Cleanup(func() { close(leave) })
	stopped := func(do func(ctx context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-arrived; cancel() }()
		if err := do(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	p, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context) error { _, err := generate(ctx, p, 1, 50); return err }
	var fails atomic.Bool
	f.spoil = func(_ int64, w http.ResponseWriter) bool {
		if fails.Load() {
			http.Error(w, "oops", http.StatusInternalServerError)
			arrived <- struct{}{}
			return true
		}
		arrived <- struct{}{}
		<-leave
		return true
	}
	stopped(ask)
	stopped(func(ctx context.Context) error { _, err := Open(ctx, o); return err })
	fails.Store(true)
	stopped(ask)
}

func TestRequestsThatAreRefused(t *testing.T) {
	f := serve(t, true)
	p := open(t, f)
	f.spoil = func(_ int64, w http.ResponseWriter) bool {
		http.Error(w, `{"error":{"code":"context_length_exceeded"}}`, 400)
		return true
	}
	if _, err := generate(t.Context(), p, 1, 50); !errors.Is(err, engine.ErrContext) || f.calls.Load() != 1 {
		t.Errorf("got %v after %d calls", err, f.calls.Load())
	}
	f.spoil = func(_ int64, w http.ResponseWriter) bool {
		http.Error(w, `key sk-secret is wrong`, http.StatusUnauthorized)
		return true
	}
	if _, err := generate(t.Context(), p, 1, 50); !errors.Is(err, ErrRefused) || f.calls.Load() != 2 || strings.Contains(err.Error(), "sk-secret") {
		t.Errorf("got %v after %d calls", err, f.calls.Load())
	}
}

// Calls go to the address with the fewest in flight; one that is down is left alone, and
// used again when it is well.
func TestAddresses(t *testing.T) {
	a, b := serve(t, true), serve(t, true)
	p := open(t, a, b)
	gate := make(chan struct{})
	var inside sync.WaitGroup
	inside.Add(10)
	for _, f := range []*fake{a, b} {
		f.spoil = func(int64, http.ResponseWriter) bool { inside.Done(); <-gate; return false }
	}
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			if _, err := generate(t.Context(), p, uint64(i), 50); err != nil {
				t.Error(err)
			}
		})
	}
	inside.Wait()
	close(gate)
	all.Wait()
	if a.calls.Load() != 5 || b.calls.Load() != 5 {
		t.Errorf("%d and %d calls", a.calls.Load(), b.calls.Load())
	}

	a.spoil = func(_ int64, w http.ResponseWriter) bool {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return true
	}
	b.spoil = nil
	for i := range 10 {
		if _, err := generate(t.Context(), p, uint64(i), 50); err != nil {
			t.Errorf("with one address down: %v", err)
		}
	}
	a.spoil, b.spoil = nil, func(_ int64, w http.ResponseWriter) bool {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return true
	}
	p.mu.Lock()
	p.places[0].rest = time.Time{} // its rest is over
	p.mu.Unlock()
	before := a.calls.Load()
	if _, err := generate(t.Context(), p, 1, 50); err != nil || a.calls.Load() != before+1 {
		t.Errorf("an address that is well again is not used: %v", err)
	}
}

func TestModelThatChanges(t *testing.T) {
	f := serve(t, true)
	p := open(t, f)
	before := p.Weights()
	dir := t.TempDir()
	if id, err := (Learner{p}).Save(t.Context(), dir); err != nil || id != before {
		t.Fatal(id, err)
	}
	f.print = "other"
	if _, err := generate(t.Context(), p, 1, 50); !errors.Is(err, ErrChanged) {
		t.Errorf("another fingerprint: %v", err)
	}
	f.print, f.model = "fp", "gpt"
	if _, err := generate(t.Context(), p, 1, 50); !errors.Is(err, ErrChanged) {
		t.Errorf("another model: %v", err)
	}
	if err := (Learner{p}).Load(t.Context(), dir); err != nil {
		t.Error(err)
	}
	f.print = "other"
	later := open(t, f)
	if err := (Learner{later}).Load(t.Context(), dir); !errors.Is(err, ErrChanged) {
		t.Errorf("resumed with another model: %v", err)
	}
	if _, err := (Learner{p}).Update(t.Context(), nil); !errors.Is(err, ErrFrozen) {
		t.Errorf("update: %v", err)
	}
}

func TestNothingAnswers(t *testing.T) {
	f := serve(t, true)
	f.Close()
	if _, err := Open(t.Context(), options(f)); !errors.Is(err, ErrDown) {
		t.Errorf("got %v", err)
	}
	if _, err := Open(t.Context(), Options{Addresses: []string{"http://user:sk-secret@127.0.0.1:1/v1"}, Words: bytesOf{}}); err == nil || strings.Contains(err.Error(), "sk-secret") {
		t.Errorf("got %v", err)
	}
	if _, err := Open(t.Context(), Options{Words: bytesOf{}}); err == nil {
		t.Error("no address is enough")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"model":"m","choices":[{"text":"x","finish_reason":"stop","token_ids":[1],"logprobs":{"token_logprobs":[-0.5]}}]}`), true)
	f.Add([]byte(`{"choices":[{"message":{"content":null},"finish_reason":"tool_calls"}]}`), false)
	f.Fuzz(func(t *testing.T, body []byte, exact bool) {
		var got result
		if json.Unmarshal(body, &got) != nil {
			return
		}
		p := &Policy{o: Options{Model: "m"}, exact: exact}
		a, err := p.read(got, engine.Request{MaxTokens: 8})
		if err == nil && exact && (len(a.ids) == 0 || len(a.ids) > 8 || len(a.logps) != len(a.ids)) {
			t.Errorf("%s is read as %+v", body, a)
		}
	})
}

// TestTools: tools that a conversation offers are part of its ids, so a server that takes
// texts would not hear of them.
func TestTools(t *testing.T) {
	turns := []engine.Turn{{Role: "user", Content: "q", Tools: []engine.ToolSpec{{Name: "add", Schema: "{}"}}}}
	for _, exact := range []bool{true, false} {
		if _, err := open(t, serve(t, exact)).Encode(turns); errors.Is(err, engine.ErrContext) == exact {
			t.Errorf("exact %v: %v", exact, err)
		}
	}
}
