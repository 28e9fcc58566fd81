// Package bench holds what the task sets share: task ids and the demonstration episodes
// that teach the embedded models. The task sets themselves are the packages below it.
//
// A domain is an *engine.Domain: lists of tasks, tools, a budget, a World that serves
// the tools of a rollout and judges it, the seed harness and its SKILL.md. The package
// of a domain builds one; nothing here knows how a model or a sandbox works, and no
// reference answer leaves a World.
package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Message is one entry of an episode; the roles are those of harnesses/kit.
type Message struct {
	Role    string
	Content string
	// Trained marks what a model would have written. The trainer weighs these tokens,
	// the end of the turn included, higher than the rest (spec/nano.md section 4).
	Trained bool
}

// Episode is one demonstration, rendered by the same chat format as a rollout.
type Episode struct {
	// Kind names the generator: lookup, sums, drill or chess.
	Kind     string
	Messages []Message
}

// Generator makes demonstrations. The same seed gives the same sequence.
type Generator interface {
	// Next returns the next episode. Progress in [0,1] is the share of the training
	// already done; generators without a curriculum ignore it.
	Next(progress float64) Episode
}

// TaskID hashes what is public of a task, in this order. Reference answers stay out: whoever
// sees ids could try answers out on the hash.
func TaskID(parts ...string) engine.TaskID {
	hash := sha256.New()
	for _, part := range parts {
		hash.Write([]byte(part))
		hash.Write([]byte{0})
	}
	return engine.TaskID("t" + hex.EncodeToString(hash.Sum(nil))[:16])
}

// IsTest picks about a tenth of the tasks of a file that does not name its splits: by digits
// of the id, others than those that the order of ids begins with.
func IsTest(id engine.TaskID) bool { return id[len(id)-2:] < "1a" } // 26 of 256

// Rand is a random stream: the same seed and name give the same numbers, different names
// give unrelated ones.
func Rand(seed uint64, name string) *rand.Rand {
	sum := sha256.Sum256([]byte(name))
	stream := uint64(0)
	for _, b := range sum[:8] {
		stream = stream<<8 | uint64(b)
	}
	return rand.New(rand.NewPCG(seed, stream))
}

// LastPair is what stands between the last complete pair of tags of a text that has no
// other `<` inside; false when there is none. It takes time in proportion to the text.
func LastPair(text, opening, closing string) (string, bool) {
	for {
		end := strings.LastIndex(text, closing)
		if end < 0 {
			return "", false
		}
		text = text[:end]
		if begin := strings.LastIndexByte(text, '<'); begin >= 0 && strings.HasPrefix(text[begin:], opening) {
			return text[begin+len(opening):], true
		}
	}
}

// Answer reads the answer from a text that the model wrote: the last complete pair of
// answer tags (spec/nano.md section 3.1), trimmed and lower-cased; false when there is
// none.
func Answer(text string) (string, bool) {
	answer, ok := LastPair(text, "<answer>", "</answer>")
	return Fold(answer), ok
}

// Fold is the form in which answers are compared.
func Fold(answer string) string { return strings.ToLower(strings.TrimSpace(answer)) }

// Judge compares the answer of a trajectory with the reference.
func Judge(t *engine.Trajectory, want string) engine.Verdict {
	call := t.Answer()
	if call == nil {
		return engine.Verdict{Kind: engine.Unparsed}
	}
	got, ok := Answer(call.Text)
	switch {
	case !ok:
		return engine.Verdict{Kind: engine.Unparsed}
	case got == Fold(want):
		return engine.Verdict{Kind: engine.Equal, Reward: 1, Answer: got}
	}
	return engine.Verdict{Kind: engine.Different, Answer: got}
}
