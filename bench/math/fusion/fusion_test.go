package fusion

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

// service answers each request with the next of its answers, the last one again and again.
type service struct {
	answers []answer
	calls   atomic.Int32
	seen    atomic.Pointer[request]
}

type answer struct {
	status int
	body   string
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body request
	if r.Method != http.MethodPost || r.URL.Path != "/base/run_code" || json.NewDecoder(r.Body).Decode(&body) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	s.seen.Store(&body)
	n := int(s.calls.Add(1))
	a := s.answers[min(n, len(s.answers))-1]
	w.WriteHeader(a.status)
	// A client that went away is no matter.
	_, _ = w.Write([]byte(a.body))
}

func client(t *testing.T, s *service, o Options) *Client {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c, err := New(server.URL+"/base", o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	good     = `{"status":"Success","run_result":{"status":"Finished","return_code":0,"stdout":"4\n","stderr":""}}`
	mistake  = `{"status":"Failed","run_result":{"status":"Finished","return_code":1,"stdout":"a","stderr":"Traceback\n  File x\nline 1\nNameError: b"}}`
	slow     = `{"status":"Failed","run_result":{"status":"TimeLimitExceeded","stdout":"","stderr":""}}`
	internal = `{"status":"SandboxError","message":"no\nroom"}`
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []answer
		want    string
		fails   bool
		calls   int32
	}{
		{"good", []answer{{200, good}}, "4\n", false, 1},
		{"a mistake of the program", []answer{{200, mistake}}, "a\nError:   File x\nline 1\nNameError: b", false, 1},
		{"a slow program", []answer{{200, slow}}, "Error: the program took too long", false, 1},
		{"busy, then good", []answer{{503, ""}, {429, ""}, {200, good}}, "4\n", false, 3},
		{"its own fault, then good", []answer{{200, internal}, {200, good}}, "4\n", false, 2},
		{"always busy", []answer{{503, "full"}}, "", true, 3},
		{"its own fault", []answer{{200, internal}}, "", true, 3},
		{"refused", []answer{{404, "no\nsuch page"}}, "", true, 1},
		{"no JSON", []answer{{200, "<html>"}}, "", true, 1},
		{"no result", []answer{{200, `{"status":"Success"}`}}, "", true, 1},
		{"strange status", []answer{{200, `{"status":"Great","run_result":{}}`}}, "", true, 1},
		{"much output", []answer{{200, strings.Repeat(" ", maxAnswer+1)}}, "Error: too much output", false, 1},
	} {
		s := &service{answers: c.answers}
		got, err := client(t, s, Options{Pause: time.Microsecond, MemoryMB: 64}).Run(t.Context(), "print(2+2)")
		if got != c.want || (err != nil) != c.fails || s.calls.Load() != c.calls {
			t.Errorf("%s: %q, %v, %d calls", c.name, got, err, s.calls.Load())
		}
		if err != nil && (!errors.Is(err, ErrService) || engine.Classify(err) != engine.Infra || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v is %s", c.name, err, engine.Classify(err))
		}
		if seen := s.seen.Load(); seen == nil || *seen != (request{Code: "print(2+2)", Language: "python", RunTimeout: 10, MemoryMB: 64}) {
			t.Errorf("%s: sent %+v", c.name, seen)
		}
	}
}

// Nobody listens: a fault of the host after the retries, never an empty output.
func TestUnreachable(t *testing.T) {
	server := httptest.NewServer(&service{})
	server.Close()
	c, err := New(server.URL, Options{Pause: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Run(t.Context(), "1"); !errors.Is(err, ErrService) || engine.Classify(err) != engine.Infra {
		t.Errorf("%v", err)
	}
}

func TestCancelled(t *testing.T) {
	c := client(t, &service{answers: []answer{{503, ""}}}, Options{Pause: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := c.Run(ctx, "1")
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestNew(t *testing.T) {
	for _, base := range []string{"", "localhost:8080", "ftp://x", "http://", "http://[::1", "%"} {
		if _, err := New(base, Options{}); err == nil {
			t.Errorf("%q is taken", base)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{good, mistake, slow, internal, "{", `{"run_result":{}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if text, err := read(raw); err != nil && (text != "" || !errors.Is(err, ErrService)) {
			t.Errorf("%q, %v", text, err)
		}
	})
}
