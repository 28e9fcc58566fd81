package enginetest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Brain is policy and learner in one: its weights are a skill in [0,1], the chance to
// answer right without a hint; each point of hint adds .1.
type Brain struct {
	mu     sync.Mutex
	Skill  float64
	Moment float64 // stands for the optimizer's state: a step's size depends on it
	// Calls counts completions by the request's seed, for faults that pass.
	Calls map[uint64]int
	near  *saved // reference weights of a policy gradient
	// Fault, when not nil, may fail a completion: attempt counts from 0.
	Fault func(r engine.Request, attempt int) error
}

// NewBrain has a skill of .3.
func NewBrain() *Brain { return &Brain{Skill: .3, Calls: map[uint64]int{}} }

const endToken = 300

// Encode renders a turn as a role marker and bytes, or as the sampled ids.
func (b *Brain) Encode(turns []engine.Turn) ([]int32, error) {
	var ids []int32
	for _, t := range turns {
		ids = append(ids, map[string]int32{"system": 301, "user": 302, "assistant": 303, "tool": 304}[t.Role])
		if t.Sampled != nil {
			ids = append(ids, t.Sampled...)
			continue
		}
		for _, c := range []byte(t.Content) {
			ids = append(ids, int32(c))
		}
	}
	return append(ids, 303), nil
}

// Generate answers the first square in the prompt, right, "hmm" or wrong, by the seed.
func (b *Brain) Generate(ctx context.Context, r engine.Request) (engine.Completion, error) {
	b.mu.Lock()
	skill, attempt := b.Skill, b.Calls[r.Seed]
	b.Calls[r.Seed]++
	b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return engine.Completion{}, err
	}
	if b.Fault != nil {
		if err := b.Fault(r, attempt); err != nil {
			return engine.Completion{}, err
		}
	}
	var prompt []byte
	for _, id := range r.Prompt {
		if id < 256 {
			prompt = append(prompt, byte(id))
		}
	}
	n, hint := read(string(prompt), "square "), read(string(prompt), "hint ")
	u := rand.New(rand.NewPCG(r.Seed, 1)).Float64()
	text := strconv.Itoa(n*n + 1)
	switch chance := min(1, skill+.1*float64(hint)); {
	case u < chance && n%5 != 0:
		text = strconv.Itoa(n * n)
	case u < chance+.3:
		text = "hmm"
	}
	c := engine.Completion{Text: text, Stop: engine.StopEnd, Weights: b.Weights(), Cached: len(r.Prompt) / 2, Seconds: 1e-9 * float64(len(text))}
	for _, ch := range []byte(text) {
		c.Sampled = append(c.Sampled, int32(ch))
	}
	c.Sampled = append(c.Sampled, endToken)
	if len(c.Sampled) > r.MaxTokens {
		c.Sampled, c.Stop = c.Sampled[:r.MaxTokens], engine.StopLength
		c.Text = text[:r.MaxTokens]
	}
	for i := range c.Sampled {
		c.LogProbs = append(c.LogProbs, -.1*float32(i+1))
	}
	return c, nil
}

func read(text, after string) int {
	_, rest, _ := strings.Cut(text, after)
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(rest[:end])
	if err != nil {
		return 0
	}
	return n
}

// Weights names the skill.
func (b *Brain) Weights() engine.WeightsID {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := sha256.Sum256(fmt.Append(nil, b.Skill))
	return engine.WeightsID("w" + hex.EncodeToString(sum[:6]))
}

// Update raises the skill a little, depending on the ids and on the moment.
func (b *Brain) Update(_ context.Context, batch []engine.Sequence) (engine.Update, error) {
	b.mu.Lock()
	u := engine.Update{NLL: 1 - b.Skill, GradNorm: float64(len(batch)), Seconds: 1e-9 * float64(len(batch))}
	h := sha256.New()
	for _, s := range batch {
		u.Forward += len(s.IDs)
		h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(s.Weight)))
		for _, span := range s.Sampled {
			u.Tokens += span.To - span.From
			for _, id := range s.IDs[span.From:span.To] {
				h.Write(binary.LittleEndian.AppendUint32(nil, uint32(id)))
			}
		}
	}
	if u.Skipped = u.Tokens == 0; !u.Skipped {
		b.Moment = .5*b.Moment + float64(h.Sum(nil)[0])/255
		b.Skill = min(.95, b.Skill+.01*b.Moment)
	}
	b.mu.Unlock()
	u.Weights = b.Weights()
	return u, nil
}

// Reference reads what Save wrote.
func (b *Brain) Reference(_ context.Context, dir string) error {
	s, err := readSaved(dir)
	b.near = &s
	return err
}

// Reinforce raises the skill by a part of what Update does that depends on the advantages;
// its distance to the reference is that of the skills.
func (b *Brain) Reinforce(ctx context.Context, batch []engine.Sequence, by engine.Surrogate) (engine.Update, error) {
	if by.Beta > 0 && b.near == nil {
		return engine.Update{}, errors.New("no reference weights")
	}
	weighed := slices.Clone(batch)
	for i := range weighed {
		if len(weighed[i].LogProbs) == 0 {
			return engine.Update{}, errors.New("a sequence without log-probs")
		}
		weighed[i].Weight = weighed[i].Advantage
	}
	before := b.Skill
	u, err := b.Update(ctx, weighed)
	if by.Beta > 0 {
		u.KL = math.Abs(before - b.near.Skill)
	}
	return u, err
}

type saved struct{ Skill, Moment float64 }

func readSaved(dir string) (s saved, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "weights.json"))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// Save writes weights.json.
func (b *Brain) Save(_ context.Context, dir string) (engine.WeightsID, error) {
	b.mu.Lock()
	text, err := json.Marshal(saved{b.Skill, b.Moment})
	b.mu.Unlock()
	if err != nil {
		return "", err
	}
	return b.Weights(), os.WriteFile(filepath.Join(dir, "weights.json"), text, 0o644)
}

// Load reads what Save wrote.
func (b *Brain) Load(_ context.Context, dir string) error {
	s, err := readSaved(dir)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Skill, b.Moment = s.Skill, s.Moment
	return nil
}
