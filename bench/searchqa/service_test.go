package searchqa

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
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// serve starts a server that plays the handlers one after the other, the last one for
// good, and returns an endpoint without pauses.
func serve(t *testing.T, handlers ...http.HandlerFunc) (Endpoint, *atomic.Int32) {
	t.Helper()
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(calls.Add(1))
		handlers[min(n, len(handlers))-1](w, r)
	}))
	t.Cleanup(server.Close)
	return Endpoint{URL: server.URL + "/retrieve", Backoff: time.Nanosecond, Retries: 2}, &calls
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); fmt.Fprint(w, "no\nway") }
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

// cutOff promises more than it sends.
func cutOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	fmt.Fprint(w, `{"result":`)
}

const twoFound = `{"result":[[{"document":{"id":"7","contents":"\"Halle\"\nA town.\nOn a river."},"score":2.5},{"document":{"contents":"plain"},"score":1}]]}`

// What a server may do, what comes of it, and after how many tries.
func TestRetriever(t *testing.T) {
	found := []string{"\"Halle\"\nA town.\nOn a river.", "plain"}
	for _, c := range []struct {
		name     string
		handlers []http.HandlerFunc
		want     []string
		fails    bool
		calls    int32
	}{
		{"documents with scores", []http.HandlerFunc{says(twoFound)}, found, false, 1},
		{"documents alone", []http.HandlerFunc{says(`{"result":[[{"id":7,"contents":"plain"}]]}`)}, found[1:], false, 1},
		{"more than asked for", []http.HandlerFunc{says(`{"result":[[{"contents":"a"},{"contents":"b"},{"contents":"c"},{"contents":"d"}]]}`)}, []string{"a", "b", "c"}, false, 1},
		{"nothing found", []http.HandlerFunc{says(`{"result":[[]]}`)}, nil, false, 1},
		{"busy, then found", []http.HandlerFunc{status(503), status(429), says(twoFound)}, found, false, 3},
		{"cut, then found", []http.HandlerFunc{cutOff, says("<html>"), says(twoFound)}, found, false, 3},
		{"busy for good", []http.HandlerFunc{status(500)}, nil, true, 3},
		{"not there", []http.HandlerFunc{status(404)}, nil, true, 1},
		{"no result for the query", []http.HandlerFunc{says(`{"result":[]}`)}, nil, true, 1},
		{"document without contents", []http.HandlerFunc{says(`{"result":[[{"id":1}]]}`)}, nil, true, 3},
		{"endless", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, endless{}) }}, nil, true, 1},
	} {
		endpoint, calls := serve(t, c.handlers...)
		got, err := retriever{newService(endpoint)}.search(t.Context(), "halle", 3)
		if !slices.Equal(got, c.want) || (err != nil) != c.fails || calls.Load() != c.calls {
			t.Errorf("%s: %q, %v after %d calls", c.name, got, err, calls.Load())
		}
		if c.fails && (!errors.Is(err, ErrService) || strings.Contains(err.Error(), "\n") || engine.Classify(err) != engine.Infra) {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
}

// endless gives bytes for as long as someone reads.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// The request has the form that Search-R1's server reads.
func TestRetrievalRequest(t *testing.T) {
	var got, method, path, kind, key string
	endpoint, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got, method, path, kind, key = string(body), r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Authorization")
		fmt.Fprint(w, twoFound)
	})
	endpoint.Key = "k1"
	env := environment{retriever{newService(endpoint)}}
	text, err := env.Tool(t.Context(), engine.ToolCall{Name: "search", Args: `{"query":" Where is \"Halle\"? ","k":"2"}`})
	if err != nil || text != "Halle: A town. On a river.\nplain" {
		t.Errorf("%q, %v", text, err)
	}
	if want := `{"queries":["Where is \"Halle\"?"],"topk":2,"return_scores":true}`; got != want || method != "POST" || path != "/retrieve" || kind != "application/json" || key != "Bearer k1" {
		t.Errorf("%s %s, %s, %s, %s", method, path, kind, key, got)
	}
}

// A server gets no more than the first bytes of a query, whole runes only.
func TestLongQuery(t *testing.T) {
	var got retrieval
	endpoint, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, twoFound)
	})
	query := "x" + strings.Repeat("é", 1<<19)
	env := environment{retriever{newService(endpoint)}}
	if _, err := env.Tool(t.Context(), engine.ToolCall{Name: "search", Args: kit.Args("query", query)}); err != nil {
		t.Error(err)
	}
	if len(got.Queries) != 1 || got.Queries[0] != query[:maxQuery-1] {
		t.Errorf("%d queries, %d bytes", len(got.Queries), len(strings.Join(got.Queries, "")))
	}
}

// The pauses double up to ten seconds; an ended context ends the waiting.
func TestBackoff(t *testing.T) {
	endpoint, calls := serve(t, status(500))
	endpoint.Backoff, endpoint.Retries = time.Second, 6
	s := newService(endpoint)
	var pauses []time.Duration
	s.pause = func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }
	if err := s.post(t.Context(), 1, nil); !errors.Is(err, ErrService) {
		t.Errorf("%v", err)
	}
	want := []time.Duration{1e9, 2e9, 4e9, 8e9, 10e9, 10e9}
	if !slices.Equal(pauses, want) || calls.Load() != 7 {
		t.Errorf("pauses %v after %d calls", pauses, calls.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.pause = func(ctx context.Context, d time.Duration) error { cancel(); return wait(ctx, d) }
	if err := s.post(ctx, 1, nil); !errors.Is(err, context.Canceled) || calls.Load() != 8 {
		t.Errorf("cancelled: %v after %d calls", err, calls.Load())
	}
	endpoint.Retries = -1
	if err := newService(endpoint).post(t.Context(), 1, nil); !errors.Is(err, ErrService) || calls.Load() != 9 {
		t.Errorf("no further try: %v after %d calls", err, calls.Load())
	}
}

// Nobody listens, and a server that never answers: both lose the rollout to the host.
func TestUnreachable(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	err := newService(Endpoint{URL: gone.URL, Backoff: 1, Retries: 1}).post(t.Context(), 1, nil)
	if !errors.Is(err, ErrService) || !strings.Contains(err.Error(), "2 tries") {
		t.Errorf("nobody listens: %v", err)
	}
	release := make(chan struct{})
	endpoint, _ := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	endpoint.Timeout, endpoint.Retries = time.Millisecond, 1
	if err := newService(endpoint).post(t.Context(), 1, nil); !errors.Is(err, ErrService) {
		t.Errorf("never answers: %v", err)
	}
}

// No more requests are in flight than connections are allowed.
func TestPool(t *testing.T) {
	var now, most atomic.Int32
	endpoint, calls := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		fmt.Fprint(w, twoFound)
		now.Add(-1)
	})
	endpoint.Connections = 3
	s := retriever{newService(endpoint)}
	var pending sync.WaitGroup
	for range 60 {
		pending.Go(func() {
			if _, err := s.search(t.Context(), "q", 1); err != nil {
				t.Error(err)
			}
		})
	}
	pending.Wait()
	if calls.Load() != 60 || most.Load() > 3 {
		t.Errorf("%d calls, %d at once", calls.Load(), most.Load())
	}
}

// chat is the reply of a chat endpoint.
func chat(text string) string {
	data, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": map[string]string{"role": "assistant", "content": text}}}})
	if err != nil {
		panic(err)
	}
	return string(data)
}

func TestJudgeModel(t *testing.T) {
	for _, c := range []struct {
		reply      string
		same       bool
		unreadable bool
	}{
		{chat("yes"), true, false},
		{chat(" Yes.\n"), true, false},
		{chat("<think>no, no</think>\n**Yes**"), true, false},
		{chat("no"), false, false},
		{chat("yes and no"), false, true},
		{chat("yesterday"), false, true},
		{chat(""), false, true},
		{`{"choices":[]}`, false, true},
	} {
		var body string
		endpoint, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			body = string(data)
			fmt.Fprint(w, c.reply)
		})
		same, err := NewModel(endpoint, "m1").Same(t.Context(), Case{Question: "Who?", Golden: []string{"Ida"}, Answer: `Say "yes"`})
		if same != c.same || errors.Is(err, ErrUnreadable) != c.unreadable || (err != nil) != c.unreadable {
			t.Errorf("%s: %v, %v", c.reply, same, err)
		}
		var request chatRequest
		if err := json.Unmarshal([]byte(body), &request); err != nil || request.Model != "m1" || request.Temperature != 0 || len(request.Messages) != 1 ||
			!strings.HasSuffix(request.Messages[0].Content, `{"question":"Who?","golden_answers":["Ida"],"answer":"Say \"yes\""}`) {
			t.Errorf("request %s, %v", body, err)
		}
	}
	endpoint, _ := serve(t, status(500))
	if _, err := NewModel(endpoint, "m1").Same(t.Context(), Case{}); !errors.Is(err, ErrService) || errors.Is(err, ErrUnreadable) {
		t.Errorf("unreachable: %v", err)
	}
}

// Replies of a foreign server give documents or an error.
func FuzzRetrieved(f *testing.F) {
	f.Add(twoFound)
	f.Add(`{"result":[[{"contents":"a"}],null,[{}]]}`)
	f.Add(`{"result":[[{"document":null,"contents":"x"}]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var r retrieved
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return
		}
		for _, list := range r.Result {
			for _, d := range list {
				if line := oneLine(d.contents); strings.Contains(line, "\n") {
					t.Errorf("%q is shown as %q", d.contents, line)
				}
			}
		}
	})
}
