package serve

import (
	"reflect"
	"sync"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/endpoint"
	"github.com/seed-7c27e6b8/whale/trainer"
)

type words struct{ t *trainer.Trainer }

func (w words) Encode(turns []engine.Turn) ([]int32, error) { return w.t.Policy().Encode(turns) }
func (w words) Reply(text string) []int32                   { return w.t.Chat().Reply(text) }
func (w words) Text(sampled []int32) string                 { return w.t.Chat().Text(sampled) }

// A run whose policy is a served model gets what it would get in process: ids, text,
// log-probabilities, stop reason and weights id.
func TestEndpointIsThePolicy(t *testing.T) {
	h := open(t)
	p, err := endpoint.Open(t.Context(), endpoint.Options{Addresses: []string{h.url + "/v1"}, Key: key, Words: words{h.trainer}})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Exact() || p.Weights() != h.trainer.Policy().Weights() || p.Model() != "nano" {
		t.Fatalf("exact %v, weights %s, model %s", p.Exact(), p.Weights(), p.Model())
	}
	var all sync.WaitGroup
	for seed := range uint64(64) {
		all.Go(func() {
			turns := []engine.Turn{{Role: "user", Content: "who is vikrim married to?"}, {Role: "assistant", Sampled: h.inProcess(t, seed).Sampled}, {Role: "tool", Content: "vikrim: nothing."}}
			ids, err := p.Encode(turns)
			if err != nil {
				t.Error(err)
				return
			}
			r := engine.Request{Prompt: ids, MaxTokens: 16, Seed: seed<<60 | seed, Sampling: engine.Sampling{Temperature: .7, TopP: .9, TopK: 20}}
			got, err := p.Generate(t.Context(), r)
			if err != nil {
				t.Error(err)
				return
			}
			want, err := h.trainer.Policy().Generate(t.Context(), r)
			if err != nil {
				t.Error(err)
				return
			}
			got.Cached, got.Seconds, want.Cached, want.Seconds = 0, 0, 0, 0
			if !reflect.DeepEqual(got, want) {
				t.Errorf("seed %d: %+v, want %+v", seed, got, want)
			}
		})
	}
	all.Wait()
}
