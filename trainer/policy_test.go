package trainer

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/chat"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

// letters is a tokenizer of the 256 bytes and the control tokens of ChatML.
func letters(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Train(func(func(string) bool) {}, tokenizer.TrainSpec{Pattern: `[a-z]+|\s|.`, Added: []tokenizer.AddedToken{
		{Content: "<|endoftext|>", Special: true}, {Content: "<|im_start|>", Special: true}, {Content: "<|im_end|>", Special: true}}})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// small is a model that letters fits, with some padding rows.
func small(family string) checkpoint.Config {
	return checkpoint.Config{Family: family, Vocab: 264, Hidden: 24, Intermediate: 40, Heads: 4, KVHeads: 2, HeadDim: 8,
		Layers: checkpoint.LayersOf(checkpoint.FullAttention, 2), QKNorm: family == checkpoint.Qwen3, Tied: true,
		RMSEps: 1e-6, RopeTheta: 1e4, MaxPositions: 256, DType: checkpoint.F32}
}

// serve is a trainer with random weights; when the test ends its cache must be in order.
func serve(t testing.TB, c checkpoint.Config, dev *cuda.Device, o Options) *Trainer {
	t.Helper()
	tr, err := New(c, letters(t), dev, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.InitNormal(11, 0.25); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tr.Close()
		checkBook(t, tr.policy.g.cache)
	})
	return tr
}

// checkBook verifies a cache that nobody uses.
func checkBook(t testing.TB, k *cache) {
	t.Helper()
	if k.reserved != 0 || len(k.free)+k.idle != k.count {
		t.Errorf("cache: %d free, %d idle, %d reserved of %d pages", len(k.free), k.idle, k.reserved, k.count)
	}
	seen := map[int32]bool{}
	for _, at := range k.free {
		seen[at] = true
	}
	for g := k.oldest.next; g != &k.oldest; g = g.next {
		if g.refs != 0 || seen[g.index] {
			t.Errorf("cache: idle page %d has %d references, taken twice: %v", g.index, g.refs, seen[g.index])
		}
		seen[g.index] = true
		if g.parent != nil && !g.parent.listed {
			t.Errorf("cache: parent of idle page %d is gone", g.index)
		}
	}
	for key, g := range k.index {
		if !g.listed || g.n < key.n {
			t.Errorf("cache: index names page %d, which is not there", g.index)
		}
	}
}

// mixedRequests are prompts of several lengths, many of them with a common beginning or
// equal, under several samplings.
func mixedRequests(n int) []engine.Request {
	rng := rand.New(rand.NewPCG(8, 9))
	long := make([]int32, 100)
	for i := range long {
		long[i] = int32(rng.IntN(259))
	}
	samplings := []engine.Sampling{{Temperature: 1}, {Temperature: 0.7, TopK: 5}, {Temperature: 1.3, TopP: 0.8}, {}, {Temperature: 1, TopK: 20, TopP: 0.9}}
	var list []engine.Request
	for i := range n {
		prompt := slices.Clone(long[:1+rng.IntN(len(long))])
		if i%3 == 0 {
			prompt = slices.Clone(long[:37])
		}
		if i%4 == 1 {
			prompt = append(prompt, int32(i))
		}
		list = append(list, engine.Request{Prompt: prompt, MaxTokens: 1 + rng.IntN(40), Sampling: samplings[i%len(samplings)], Seed: uint64(i)})
	}
	return list
}

// together runs all requests at once.
func together(t testing.TB, p engine.Policy, requests []engine.Request) []engine.Completion {
	t.Helper()
	done := make([]engine.Completion, len(requests))
	errs := make([]error, len(requests))
	var all sync.WaitGroup
	for i, r := range requests {
		all.Go(func() { done[i], errs[i] = p.Generate(t.Context(), r) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return done
}

// oneByOne runs them in order.
func oneByOne(t testing.TB, p engine.Policy, requests []engine.Request) []engine.Completion {
	t.Helper()
	var done []engine.Completion
	for _, r := range requests {
		c, err := p.Generate(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, c)
	}
	return done
}

// What a call returns depends on its request and the weights only: not on what else runs,
// on the cache, on the size of a step, on threads.
func TestCompletionsDependOnRequestOnly(t *testing.T) {
	requests := mixedRequests(64)
	for _, family := range []string{checkpoint.Llama, checkpoint.Qwen3} {
		want := oneByOne(t, serve(t, small(family), cpu(t, 1), Options{NoPrefixSharing: true}).Policy(), requests)
		for _, v := range []struct {
			name    string
			threads int
			run     func(testing.TB, engine.Policy, []engine.Request) []engine.Completion
			o       Options
		}{
			{"one by one, shared prefixes", 1, oneByOne, Options{}},
			{"64 at once", 1, together, Options{}},
			{"64 at once, no sharing", 1, together, Options{NoPrefixSharing: true}},
			{"two threads", 2, together, Options{}},
			{"steps of 7 rows", 2, together, Options{StepTokens: 7}},
			{"a cache that evicts", 1, together, Options{CacheTokens: 320}},
			{"one by one in a cache that evicts", 1, oneByOne, Options{CacheTokens: 320}},
		} {
			tr := serve(t, small(family), cpu(t, v.threads), v.o)
			for i, got := range v.run(t, tr.Policy(), requests) {
				w := want[i]
				if !slices.Equal(got.Sampled, w.Sampled) || !slices.Equal(got.LogProbs, w.LogProbs) || got.Stop != w.Stop || got.Text != w.Text {
					t.Errorf("%s, %s, request %d: %v %v, alone %v %v", family, v.name, i, got.Sampled, got.LogProbs, w.Sampled, w.LogProbs)
				}
			}
			if n := tr.Counters(); !v.o.NoPrefixSharing && v.o.CacheTokens == 0 && n.Cached < n.Prefill {
				t.Errorf("%s: %d prompt tokens came from the cache, %d were computed", v.name, n.Cached, n.Prefill)
			}
		}
	}
}

// The log-probabilities that the policy reports are those that the learner computes.
func TestPolicyAndLearnerAgree(t *testing.T) { policyAndLearnerAgree(t, cuda.Float32) }

func TestPolicyAndLearnerAgreeInBF16(t *testing.T) {
	if dev := cpu(t, 1); !dev.Has(cuda.BF16) {
		t.Skip("this processor has no bfloat16 products (AVX512_BF16): nothing tested")
	}
	for _, precision := range []cuda.Precision{cuda.BF16, cuda.BF16x3} {
		policyAndLearnerAgree(t, precision)
	}
}

func policyAndLearnerAgree(t *testing.T, precision cuda.Precision) {
	for _, family := range []string{checkpoint.Llama, checkpoint.Qwen3} {
		tr := serve(t, small(family), cpu(t, 2), Options{Precision: precision})
		var requests []engine.Request
		for _, r := range mixedRequests(40) {
			r.Sampling.Temperature = 1 // what the learner assumes; truncation does not change the log-probability
			requests = append(requests, r)
		}
		var rows []Row
		var sequences []engine.Sequence
		done := together(t, tr.Policy(), requests)
		for i, c := range done {
			s := engine.Sequence{IDs: slices.Concat(requests[i].Prompt, c.Sampled), LogProbs: c.LogProbs}
			s.Sampled = []engine.Span{{From: len(requests[i].Prompt), To: len(s.IDs)}}
			row, err := rowOf(s)
			if err != nil {
				t.Fatal(err)
			}
			rows, sequences = append(rows, row), append(sequences, s)
		}
		scores, err := tr.Score(t.Context(), rows)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range done {
			for j, got := range scores[i] {
				if math.Abs(float64(got-c.LogProbs[j])) > 1e-4 {
					t.Errorf("%s, request %d, token %d: learner %v, policy %v", family, i, j, got, c.LogProbs[j])
				}
			}
		}
		u, err := tr.Learner().Update(t.Context(), sequences)
		if err != nil || u.Drift > 1e-4 || u.Tokens == 0 {
			t.Errorf("%s: update %+v, %v: drift above 1e-4", family, u, err)
		}
		if u, err = tr.Learner().Update(t.Context(), sequences); err != nil || u.Drift < 1e-4 {
			t.Errorf("%s: update %+v, %v: no drift after the weights moved", family, u, err)
		}
	}
}

// A conversation that goes on computes only what is new.
func TestTurnsReuseTheCache(t *testing.T) {
	tr := serve(t, small(checkpoint.Qwen3), cpu(t, 1), Options{})
	turns := []engine.Turn{{Role: "user", Content: "what is a whale, and how long can it hold its breath?"}}
	known := 0 // tokens whose keys and values must be in the cache
	for range 3 {
		prompt, err := tr.Policy().Encode(turns)
		if err != nil {
			t.Fatal(err)
		}
		c, err := tr.Policy().Generate(t.Context(), engine.Request{Prompt: prompt, MaxTokens: 9, Sampling: engine.Sampling{Temperature: 1}, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		if c.Cached != known {
			t.Errorf("%d tokens of a prompt of %d were cached, want %d", c.Cached, len(prompt), known)
		}
		known = len(prompt) + len(c.Sampled) - 1 // the last sampled id was never run
		turns = append(turns, engine.Turn{Role: "assistant", Sampled: c.Sampled}, engine.Turn{Role: "user", Content: "go on"})
	}
}

// Tools of the first turn are told of by the model's own template, as before every turn
// that follows; a format without a place for them and tools elsewhere are ErrContext.
func TestEncodeOffersTools(t *testing.T) {
	tr := serve(t, small(checkpoint.Llama), cpu(t, 1), Options{})
	tools := []engine.ToolSpec{{Name: "add", Description: "adds", Schema: `{"type":"object","properties":{"x":{"type":"number"}}}`}}
	turns := []engine.Turn{{Role: "user", Content: "Q", Tools: tools}}
	if _, err := tr.Policy().Encode(turns); !errors.Is(err, engine.ErrContext) || !errors.Is(err, chat.ErrNoTools) {
		t.Errorf("ChatML without a tag for calls: %v", err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "chat", "hermes.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	if tr.chat, err = chat.NewTemplate(tr.Tokenizer(), chat.Source{Template: string(text)}, nil); err != nil {
		t.Fatal(err)
	}
	const told = `<tools>
{"type": "function", "function": {"name": "add", "description": "adds", "parameters": {"type": "object", "properties": {"x": {"type": "number"}}}}}
</tools>`
	first, err := tr.Policy().Encode(turns)
	if err != nil || !strings.Contains(tr.Tokenizer().Decode(first), told) {
		t.Fatalf("%q, %v", tr.Tokenizer().Decode(first), err)
	}
	sampled := tr.Chat().Reply("yes")
	second, err := tr.Policy().Encode(append(turns, engine.Turn{Role: "assistant", Sampled: sampled}, engine.Turn{Role: "tool", Content: "3"}))
	if want := slices.Concat(first, sampled); err != nil || len(second) < len(want) || !slices.Equal(second[:len(want)], want) {
		t.Errorf("the next context %q does not go on from the first, %v", tr.Tokenizer().Decode(second), err)
	}
	other, err := tr.Policy().Encode([]engine.Turn{{Role: "user", Content: "Q", Tools: []engine.ToolSpec{{Name: "mul", Schema: "{}"}}}})
	if err != nil || strings.Contains(tr.Tokenizer().Decode(other), `"add"`) || !strings.Contains(tr.Tokenizer().Decode(other), `"mul"`) {
		t.Errorf("other tools: %q, %v", tr.Tokenizer().Decode(other), err)
	}
	plain, err := tr.Policy().Encode([]engine.Turn{{Role: "user", Content: "Q"}})
	if err != nil || strings.Contains(tr.Tokenizer().Decode(plain), "<tools>") {
		t.Errorf("without tools: %q, %v", tr.Tokenizer().Decode(plain), err)
	}
	for name, bad := range map[string][]engine.Turn{
		"late tools":       {{Role: "user", Content: "Q"}, {Role: "user", Content: "R", Tools: tools}},
		"no schema":        {{Role: "user", Content: "Q", Tools: []engine.ToolSpec{{Name: "add"}}}},
		"malformed schema": {{Role: "user", Content: "Q", Tools: []engine.ToolSpec{{Name: "add", Schema: "{"}}}},
	} {
		if _, err := tr.Policy().Encode(bad); !errors.Is(err, engine.ErrContext) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Samples of one prompt compute it once.
func TestSamplesShareTheirPrompt(t *testing.T) {
	tr := serve(t, small(checkpoint.Llama), cpu(t, 1), Options{})
	prompt := mixedRequests(1)[0].Prompt
	requests := make([]engine.Request, 8)
	for i := range requests {
		requests[i] = engine.Request{Prompt: prompt, MaxTokens: 3, Sampling: engine.Sampling{Temperature: 1}, Seed: uint64(i)}
	}
	together(t, tr.Policy(), requests)
	if n := tr.Counters(); n.Prefill != len(prompt)+7 || n.Cached != 7*(len(prompt)-1) {
		t.Errorf("8 samples of %d ids computed %d and reused %d", len(prompt), n.Prefill, n.Cached)
	}
}

func TestSamplingIsTruncatedAndSeeded(t *testing.T) {
	tr := serve(t, small(checkpoint.Llama), cpu(t, 1), Options{})
	prompt := []int32{1, 2, 3}
	draw := func(by engine.Sampling) map[int32]int {
		requests := make([]engine.Request, 400)
		for i := range requests {
			requests[i] = engine.Request{Prompt: prompt, MaxTokens: 1, Sampling: by, Seed: uint64(i)}
		}
		counts := map[int32]int{}
		for _, c := range together(t, tr.Policy(), requests) {
			counts[c.Sampled[0]]++
		}
		return counts
	}
	greedy := draw(engine.Sampling{})
	if len(greedy) != 1 {
		t.Errorf("greedy drew %d different ids", len(greedy))
	}
	if n := len(draw(engine.Sampling{Temperature: 2, TopK: 3})); n != 3 {
		t.Errorf("top-k 3 drew %d different ids in 400", n)
	}
	if nucleus := draw(engine.Sampling{Temperature: 1, TopP: 1e-6}); len(nucleus) != 1 {
		t.Errorf("top-p 1e-6 drew %d different ids", len(nucleus))
	}
	all := draw(engine.Sampling{Temperature: 50})
	if len(all) < 100 {
		t.Errorf("temperature 50 drew only %d different ids in 400", len(all))
	}
	for id := range all {
		if int(id) >= tr.Tokenizer().Size() {
			t.Errorf("drew padding id %d", id)
		}
	}
}

// uniform is documented as splitmix64 over a counter; these are its first values.
func TestUniformIsInRangeAndFlat(t *testing.T) {
	var bins [16]int
	for seed := range uint64(64) {
		for p := range 64 {
			u := uniform(seed, p)
			if u < 0 || u >= 1 {
				t.Fatalf("uniform(%d,%d) = %v", seed, p, u)
			}
			bins[int(u*16)]++
		}
	}
	for i, n := range bins { // 256 expected, standard deviation 15.5
		if n < 180 || n > 332 {
			t.Errorf("bin %d holds %d of 4096", i, n)
		}
	}
	if uniform(1, 2) == uniform(2, 1) || uniform(0, 1) == uniform(1, 0) {
		t.Error("seed and position are interchangeable")
	}
}

func TestRequestsThatCannotRun(t *testing.T) {
	tr := serve(t, small(checkpoint.Llama), cpu(t, 1), Options{CacheTokens: 128})
	for _, v := range []struct {
		name string
		r    engine.Request
		want error
	}{
		{"empty", engine.Request{MaxTokens: 1}, engine.ErrContext},
		{"longer than the context", engine.Request{Prompt: make([]int32, 256), MaxTokens: 1}, engine.ErrContext},
		{"larger than the cache", engine.Request{Prompt: make([]int32, 100), MaxTokens: 50}, engine.ErrContext},
		{"id outside", engine.Request{Prompt: []int32{264}, MaxTokens: 1}, engine.ErrContext},
		{"no tokens", engine.Request{Prompt: []int32{1}}, engine.ErrBudget},
	} {
		if _, err := tr.Policy().Generate(t.Context(), v.r); !errors.Is(err, v.want) {
			t.Errorf("%s: %v, want %v", v.name, err, v.want)
		}
	}
	if _, err := tr.Policy().Encode([]engine.Turn{{Role: "wizard"}}); !errors.Is(err, engine.ErrContext) {
		t.Errorf("unknown role: %v", err)
	}
	c, err := tr.Policy().Generate(t.Context(), engine.Request{Prompt: make([]int32, 40), MaxTokens: 9, Sampling: engine.Sampling{Temperature: 1}})
	if err != nil || len(c.Sampled) == 0 {
		t.Errorf("after the refusals: %v", err)
	}
}

// A caller that gives up leaves its pages to others, and the others' results alone.
func TestCancelledCallsFreeTheirPages(t *testing.T) {
	tr := serve(t, small(checkpoint.Llama), cpu(t, 1), Options{CacheTokens: 400})
	want := oneByOne(t, serve(t, small(checkpoint.Llama), cpu(t, 1), Options{}).Policy(), mixedRequests(12))
	ctx, cancel := context.WithCancel(t.Context())
	var gone sync.WaitGroup
	for i := range 50 {
		gone.Go(func() {
			r := engine.Request{Prompt: []int32{int32(i), 1, 2}, MaxTokens: 200, Sampling: engine.Sampling{Temperature: 1}, Seed: uint64(i)}
			if _, err := tr.Policy().Generate(ctx, r); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	cancel()
	for i, c := range together(t, tr.Policy(), mixedRequests(12)) {
		if !slices.Equal(c.Sampled, want[i].Sampled) {
			t.Errorf("request %d changed beside cancelled calls", i)
		}
	}
	gone.Wait()
}

// New weights void the cache: the same request gives what a fresh trainer gives.
func TestUpdateVoidsTheCache(t *testing.T) {
	requests := mixedRequests(10)
	row := Row{IDs: []int32{5, 6, 7, 8}, Weights: []float32{0, 1, 1, 1}}
	var first, second []engine.Completion
	for _, warm := range []bool{true, false} {
		tr := serve(t, small(checkpoint.Qwen3), cpu(t, 1), Options{})
		before := tr.Policy().Weights()
		if warm {
			first = together(t, tr.Policy(), requests)
		}
		if _, err := tr.Step(t.Context(), []Row{row}, 0.01); err != nil {
			t.Fatal(err)
		}
		second = together(t, tr.Policy(), requests)
		if !warm {
			break
		}
		if second[0].Weights == before || second[0].Weights != tr.Policy().Weights() || first[0].Weights != before {
			t.Errorf("weights ids %s, then %s", first[0].Weights, second[0].Weights)
		}
		first = second
	}
	for i := range first {
		if !slices.Equal(first[i].Sampled, second[i].Sampled) || !slices.Equal(first[i].LogProbs, second[i].LogProbs) {
			t.Errorf("request %d: %v with a used cache, %v with a fresh one", i, first[i].Sampled, second[i].Sampled)
		}
	}
}

// Sequences that are under way when the weights change are sampled from the new weights only.
func TestUpdateRestartsSequences(t *testing.T) {
	tr := serve(t, small(checkpoint.Llama), cpu(t, 1), Options{})
	r := engine.Request{Prompt: []int32{1, 2, 3}, MaxTokens: 20, Sampling: engine.Sampling{Temperature: 1, TopP: 1}, Seed: 3}
	g := &generator{t: tr, rows: 8, valid: 259, scratch: tr.policy.g.scratch, cache: tr.policy.g.cache}
	s := newSequence(r, 256)
	g.waiting = []*sequence{s}
	for range 5 {
		if err := g.step(); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.ids) != 8 {
		t.Fatalf("%d ids after 5 steps", len(s.ids))
	}
	if _, err := tr.Step(t.Context(), []Row{{IDs: []int32{5, 6}, Weights: []float32{0, 1}}}, 0.01); err != nil {
		t.Fatal(err)
	}
	for len(g.live)+len(g.waiting) > 0 {
		if err := g.step(); err != nil {
			t.Fatal(err)
		}
	}
	got := <-s.reply
	want := oneByOne(t, tr.Policy(), []engine.Request{r})[0]
	if !slices.Equal(got.completion.Sampled, want.Sampled[:len(got.completion.Sampled)]) || got.completion.Weights != want.Weights {
		t.Errorf("restarted: %v, fresh %v", got.completion, want)
	}
}

func TestCloseEndsCallsAndLeavesNothingBehind(t *testing.T) {
	dev := cpu(t, 1)
	before := runtime.NumGoroutine()
	tr, err := New(small(checkpoint.Llama), letters(t), dev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			_, err := tr.Policy().Generate(t.Context(), engine.Request{Prompt: []int32{1}, MaxTokens: 200, Sampling: engine.Sampling{Temperature: 1}, Seed: uint64(i)})
			if err != nil && !errors.Is(err, errClosed) {
				t.Error(err)
			}
		})
	}
	tr.Close()
	calls.Wait()
	if _, err := tr.Policy().Generate(t.Context(), engine.Request{Prompt: []int32{1}, MaxTokens: 1}); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
	for tries := 0; runtime.NumGoroutine() > before; tries++ {
		if tries > 1e6 {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
}
