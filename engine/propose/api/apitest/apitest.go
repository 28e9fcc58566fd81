// Package apitest tells the same stories of a service to every binding of api.Model: one
// that works, is busy, refuses, stalls, drops, answers garbage, or has a model that loops,
// writes where it may not, or returns nothing. The service is a server in this process.
//
// It is for tests only.
package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/api"
	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

// Key is what the services want to be given; no file and no error may hold it.
const Key = "sk-apitest-0123456789"

// Turn is what a service's model replies.
type Turn struct {
	Text  string
	Calls []api.Call
}

// Protocol is one binding with what its service answers.
type Protocol struct {
	// New makes a Model for a server and a key.
	New func(url, key string) api.Model
	// Body is a well-formed answer of 100 tokens of input, of these 40 from the cache, and
	// 10 of output.
	Body func(t Turn) string
	// Error is the body of an answer that refuses.
	Error func(message string) string
	// Check looks at a request: number n of the story, from 1, with turns messages.
	Check func(t *testing.T, r *http.Request, body []byte, n int)
}

// story is a list of answers; the last one is given again and again.
type story struct {
	answers []answer
	want    []string // sources
	cause   error    // when there is none
	asked   int      // requests; 0 = not counted, since a client in a hurry may hang up before the server sees it
	tokens  int      // budget; 0 = none
	says    string   // in the error
}

// answer writes one answer.
type answer func(w http.ResponseWriter, r *http.Request, p Protocol)

func says(turn Turn) answer {
	return func(w http.ResponseWriter, _ *http.Request, p Protocol) { send(w, 200, p.Body(turn)) }
}

func writes(file, content string) answer {
	args, err := json.Marshal(map[string]string{"file_path": file, "content": content})
	if err != nil {
		panic(err) // strings are always valid JSON
	}
	return says(Turn{Calls: []api.Call{{ID: "call-1", Name: "Write", Args: string(args)}}})
}

func refuses(status int, header, message string) answer {
	return func(w http.ResponseWriter, _ *http.Request, p Protocol) {
		if name, value, ok := strings.Cut(header, ": "); ok {
			w.Header().Set(name, value)
		}
		send(w, status, p.Error(message))
	}
}

func garbage(text string) answer {
	return func(w http.ResponseWriter, _ *http.Request, _ Protocol) { send(w, 200, text) }
}

func stalls(_ http.ResponseWriter, r *http.Request, _ Protocol) { <-r.Context().Done() }

func drops(w http.ResponseWriter, _ *http.Request, p Protocol) {
	body := p.Body(Turn{Text: "hello"})
	w.Header().Set("Content-Length", "100000")
	w.Header().Set("Content-Type", "application/json")
	if _, err := io.WriteString(w, body[:len(body)/2]); err != nil {
		panic(err)
	}
	panic(http.ErrAbortHandler)
}

func send(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := io.WriteString(w, body); err != nil {
		panic(err)
	}
}

var stories = map[string]story{
	"works": {answers: []answer{says(Turn{Text: "look", Calls: []api.Call{{ID: "a", Name: "Glob", Args: `{"pattern":"harnesses/**"}`},
		{ID: "b", Name: "Read", Args: `{"file_path":"evolution.md"}`}}}), writes("out/1/harness.go", "one"), writes("out/2/harness.go", "two"), says(Turn{Text: "done"})},
		want: []string{"one", "two"}, asked: 4},
	"busy at first": {answers: []answer{refuses(429, "Retry-After: 3", "slow down"), refuses(500, "", "oops"), refuses(503, "", ""), writes("out/1/harness.go", "x"), says(Turn{Text: "done"})},
		want: []string{"x"}, asked: 5},
	"busy for good": {answers: []answer{refuses(529, "", "overloaded")}, cause: api.ErrService, asked: 6, says: "529"},
	"bad key":       {answers: []answer{refuses(401, "", "no such key "+Key)}, cause: api.ErrService, asked: 1, says: "401"},
	"bad request":   {answers: []answer{refuses(400, "", "the prompt is too long")}, cause: api.ErrService, asked: 1, says: "400"},
	"dies later":    {answers: []answer{writes("out/1/harness.go", "x"), refuses(400, "", "no")}, want: []string{"x"}, asked: 2},
	"garbage":       {answers: []answer{garbage("<html>"), garbage("{}"), garbage(`{"content": 7, "choices": "x"}`), garbage("null")}, cause: api.ErrService, asked: 6},
	"garbage once":  {answers: []answer{garbage("{"), writes("out/1/harness.go", "x"), says(Turn{Text: "done"})}, want: []string{"x"}, asked: 3},
	"stalls":        {answers: []answer{stalls}, cause: api.ErrService, says: "no whole answer"},
	"drops":         {answers: []answer{drops}, cause: api.ErrService, asked: 6},
	"drops once":    {answers: []answer{drops, writes("out/1/harness.go", "x"), says(Turn{Text: "done"})}, want: []string{"x"}, asked: 3},
	"broken call":   {answers: []answer{says(Turn{Calls: []api.Call{{ID: "a", Name: "Sing", Args: `{}`}}}), writes("out/1/harness.go", "x"), says(Turn{})}, want: []string{"x"}, asked: 3},
	"outside":       {answers: []answer{writes("accepted.json", "x"), writes("../x", "x"), says(Turn{Text: "done"})}, cause: api.ErrNothing, asked: 5},
	"nothing":       {answers: []answer{says(Turn{Text: "I would rather not."})}, cause: api.ErrNothing, asked: 3},
	"loops":         {answers: []answer{says(Turn{Calls: []api.Call{{ID: "a", Name: "Glob", Args: `{"pattern":"*"}`}}})}, cause: api.ErrLoop, asked: 6},
	"over budget":   {answers: []answer{says(Turn{Calls: []api.Call{{ID: "a", Name: "Glob", Args: `{"pattern":"*"}`}}})}, tokens: 300, cause: engine.ErrSpent, asked: 3},
}

// Run tells all stories to a binding.
func Run(t *testing.T, p Protocol) {
	for name, s := range stories {
		t.Run(name, func(t *testing.T) { s.tell(t, p) })
	}
}

// server answers as a story says and counts requests.
func (s story) server(t *testing.T, p Protocol) (url string, asked func() int) {
	var mu sync.Mutex
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		at := n
		mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if err == nil { // a client that was in a hurry may have hung up
			p.Check(t, r, body, at)
		}
		s.answers[min(at, len(s.answers))-1](w, r, p)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func (s story) tell(t *testing.T, p Protocol) {
	url, asked := s.server(t, p)
	b := folder(t)
	proposer := &api.Proposer{Name: "test", Model: p.New(url, Key), Hide: []string{Key}, Patience: time.Minute,
		Budget: desk.Budget{Tokens: s.tokens}, Price: api.Price{Input: 1, Read: .5, Output: 2},
		Pause: func(context.Context, time.Duration) error { return nil }}
	if s.says == "no whole answer" {
		proposer.Patience = 20 * time.Millisecond
	}
	made, err := proposer.Propose(t.Context(), b)
	var got []string
	for _, h := range made {
		got = append(got, h.Source)
	}
	if !slices.Equal(got, s.want) || !errors.Is(err, s.cause) || (err == nil) != (s.cause == nil) || s.asked > 0 && asked() != s.asked {
		t.Errorf("%q after %d requests, %v", got, asked(), err)
	}
	if err != nil && (strings.Contains(err.Error(), Key) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), s.says)) {
		t.Error(err)
	}
	spent := proposer.Spent()
	if n := spent.Calls; spent.Input != 100*n || spent.Cached != 40*n || spent.Output != 10*n || spent.Dollars < float64(n)*99.9e-6 || spent.Dollars > float64(n)*100.1e-6 {
		t.Errorf("spent %+v", spent)
	}
	clean(t, b)
}

// folder is a small run folder and the brief that goes with it.
func folder(t *testing.T) engine.Brief {
	t.Helper()
	h := engine.NewHarness("package harness\n", engine.Meta{})
	dir := t.TempDir()
	for name, text := range map[string]string{"harnesses/" + string(h.ID) + "/harness.go": h.Source, "accepted.json": "{}", "evolution.md": "# Search\n"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return engine.Brief{Domain: "d", Skill: "advice", Cycle: 1, Iteration: 2, Slots: 2, Folder: dir, Incumbent: h.ID, Entries: []engine.Entry{{Harness: h}}}
}

// clean fails the test when a file has the key, or the archive was written to.
func clean(t *testing.T, b engine.Brief) {
	t.Helper()
	err := filepath.WalkDir(b.Folder, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), Key) {
			t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(b.Folder, "accepted.json")); err != nil || string(text) != "{}" {
		t.Errorf("accepted.json: %q, %v", text, err)
	}
}
