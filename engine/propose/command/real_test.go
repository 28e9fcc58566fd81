package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

// services are stand-ins for what the real agents talk to. They are as little of each
// protocol as the agents need: a reply that uses a tool to write slot 1, then one that ends.
var services = map[string]func(w http.ResponseWriter, r *http.Request, out string, turn int){
	"codex": responses, "claude-code": messages,
}

// events writes server-sent events; each is named by its type.
func events(w http.ResponseWriter, all ...map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range all {
		text, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], text)
	}
}

// responses speaks OpenAI's Responses protocol; the tool is Codex's shell.
func responses(w http.ResponseWriter, r *http.Request, out string, turn int) {
	if !strings.HasSuffix(r.URL.Path, "/responses") {
		http.NotFound(w, r)
		return
	}
	item := map[string]any{"type": "message", "role": "assistant", "id": "m", "content": []any{map[string]any{"type": "output_text", "text": "done"}}}
	if turn == 0 {
		args, err := json.Marshal(map[string]any{"cmd": "test ! -e journal.jsonl && cat harnesses/*/harness.go > " + out + "/1/harness.go && echo '// better' >> " + out + "/1/harness.go"})
		if err != nil {
			panic(err)
		}
		item = map[string]any{"type": "function_call", "id": "f", "call_id": "c", "name": "exec_command", "arguments": string(args)}
	}
	events(w, map[string]any{"type": "response.created", "response": map[string]any{"id": "r"}},
		map[string]any{"type": "response.output_item.done", "output_index": 0, "item": item},
		map[string]any{"type": "response.completed", "response": map[string]any{"id": "r", "usage": map[string]any{
			"input_tokens": 100, "input_tokens_details": map[string]any{"cached_tokens": 40}, "output_tokens": 7, "total_tokens": 107}}})
}

// messages speaks Anthropic's Messages protocol; the tool is Claude Code's Write.
func messages(w http.ResponseWriter, r *http.Request, out string, turn int) {
	if !strings.HasSuffix(r.URL.Path, "/messages") {
		http.NotFound(w, r)
		return
	}
	block, delta, stop := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": "done"}, "end_turn"
	if turn == 0 {
		args, err := json.Marshal(map[string]any{"file_path": out + "/1/harness.go", "content": source + "// better\n"})
		if err != nil {
			panic(err)
		}
		block, delta, stop = map[string]any{"type": "tool_use", "id": "t", "name": "Write", "input": map[string]any{}}, map[string]any{"type": "input_json_delta", "partial_json": string(args)}, "tool_use"
	}
	events(w, map[string]any{"type": "message_start", "message": map[string]any{"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []any{},
		"usage": map[string]any{"input_tokens": 60, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 0, "output_tokens": 1}}},
		map[string]any{"type": "content_block_start", "index": 0, "content_block": block},
		map[string]any{"type": "content_block_delta", "index": 0, "delta": delta},
		map[string]any{"type": "content_block_stop", "index": 0},
		map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": stop}, "usage": map[string]any{"output_tokens": 7}},
		map[string]any{"type": "message_stop"})
}

// realAgent is the agent as it is installed here, at home in an empty folder, with a service
// on this machine; the test is skipped where it isn't installed.
func realAgent(t *testing.T, name string, answer http.HandlerFunc) *Proposer {
	t.Helper()
	program := map[string]string{"codex": "codex", "claude-code": "claude"}[name]
	if _, err := exec.LookPath(program); err != nil {
		t.Skip(err)
	}
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	home := t.TempDir()
	for _, v := range []string{"HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"} {
		t.Setenv(v, home)
	}
	t.Setenv("MY_KEY", key)
	p, err := NewAgent(name, Agent{Model: "stand-in", URL: server.URL + "/v1", Key: "MY_KEY"})
	if err != nil {
		t.Fatal(err)
	}
	p.Hide = append(p.Hide, key)
	return p
}

// The real programs, as far as they are installed, against a service that is not.
func TestAgents_real(t *testing.T) {
	for name, service := range services {
		t.Run(name, func(t *testing.T) {
			b := archive(t)
			out := filepath.Join(b.Folder, desk.Proposals, "cycle-02-iteration-03-try-1", "out")
			var mu sync.Mutex
			keyed := true
			p := realAgent(t, name, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				used := strings.Contains(string(body), `"function_call_output"`) || strings.Contains(string(body), `"tool_result"`)
				if r.Method == http.MethodPost {
					keyed = keyed && strings.Contains(r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"), key)
				}
				n := 1 // the end; also for titles and the like, which Claude Code asks for aside
				if !used && strings.Contains(string(body), "Improve the harness") {
					n = 0
				}
				service(w, r, out, n)
			})
			p.Limit = time.Minute
			made, err := p.Propose(context.Background(), b)
			if err != nil || len(made) != 1 || !strings.HasSuffix(made[0].Source, "// better\n") || made[0].Meta.Proposer != name {
				t.Fatalf("%+v, %v\n%s\n%s", made, err, printed(t, b, "stdout.txt"), printed(t, b, "stderr.txt"))
			}
			if cost := p.Spent(); cost.Calls == 0 || cost.Input < 200 || cost.Cached < 80 || cost.Output < 14 {
				t.Errorf("spent %+v", cost)
			}
			if !keyed {
				t.Error("asked without the key")
			}
			if text := printed(t, b, "stdout.txt"); len(text) < 200 || strings.Contains(text, key) {
				t.Errorf("transcript %q", text)
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(out), "work")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the copy is left: %v", err)
			}
		})
	}
}

// A service that never answers: the agent is ended at the limit.
func TestAgents_realStalled(t *testing.T) {
	for name := range services {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{})
			once := sync.Once{}
			p := realAgent(t, name, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						return
					}
					once.Do(func() { close(asked) })
				}
				<-r.Context().Done()
			})
			p.Limit, p.Grace = 8*time.Second, time.Second
			_, err := p.Propose(context.Background(), archive(t))
			var failed *Error
			if !errors.Is(err, ErrTime) || !errors.As(err, &failed) || failed.Folder == "" {
				t.Error(err)
			}
			select {
			case <-asked:
			default:
				t.Error("was ended before it asked")
			}
		})
	}
}
