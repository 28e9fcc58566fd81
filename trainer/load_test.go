package trainer

import (
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// A policy at rest holds nothing; its room is the cache's, whatever was generated before.
func TestPolicy_load(t *testing.T) {
	p := serve(t, small(checkpoint.Qwen3), cpu(t, 2), Options{CacheTokens: 1 << 10}).Policy()
	prompt, err := p.Encode([]engine.Turn{{Role: "user", Content: "2+3=?"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := p.Generate(t.Context(), engine.Request{Prompt: prompt, MaxTokens: 8, Sampling: engine.Sampling{Temperature: 1, TopP: 1}, Seed: 1}); err != nil {
			t.Fatal(err)
		}
	}
	l := p.Load()
	if l.Waiting != 0 || l.Running > 1 || l.Room < 1<<10 || l.Used < 0 || l.Used > l.Room {
		t.Errorf("%+v", l)
	}
}
