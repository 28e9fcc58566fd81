package engine_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"sync"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/engine/schedule"
)

// searches is how often an A/A test is made.
const searches = 1000

// chance is a number in [0,1) made of the values.
func chance(values ...uint64) float64 {
	h := fnv.New64a()
	for _, v := range values {
		h.Write(binary.LittleEndian.AppendUint64(nil, v))
	}
	x := h.Sum64() // FNV mixes its high bits badly; this is the finisher of splitmix
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// namesake runs harnesses that all do the same and differ in a word of their prompt.
type namesake struct{}

func (namesake) Load(_ context.Context, h engine.Harness) (engine.Program, error) {
	return enginetest.Func(func(ctx context.Context, s engine.Start, host engine.Host) error {
		content := fmt.Sprintf("%s hint 0 by %s", s.Input, h.ID)
		_, err := host.Generate(ctx, []engine.Message{{Role: "user", Content: content}}, engine.GenerateOptions{})
		return err
	}), nil
}

// byPrompt answers with randomness of its own for every prompt, so that namesakes are
// equally good and do not agree.
type byPrompt struct{ *enginetest.Brain }

func (b byPrompt) Generate(ctx context.Context, r engine.Request) (engine.Completion, error) {
	h := fnv.New64a()
	for _, id := range r.Prompt {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(id)))
	}
	r.Seed = uint64(chance(r.Seed, h.Sum64()) * (1 << 53))
	return b.Brain.Generate(ctx, r)
}

// frozen is a store for runs that never train: they share one folder of weights.
type frozen struct{ *enginetest.Store }

func (s frozen) SaveWeights(save func(dir string) (engine.WeightsID, error)) (string, engine.WeightsID, error) {
	id, err := save(s.Dir)
	return ".", id, err
}

func (frozen) Prune([]string) error { return nil }

// search makes one searching iteration over candidates and says whether one was accepted.
func search(t *testing.T, dir string, seed uint64, acceptP float64, candidates fixed, change func(*engine.Parts)) bool {
	t.Helper()
	c := enginetest.Config()
	c.Condition, c.Iterations, c.Candidates, c.Seed, c.AcceptP = "harness-only", 2, len(candidates), seed, acceptP
	c.Rollouts = c.SelectTasks * (1 + len(candidates))
	c.TestTasks, c.TestSamples, c.CurveSamples = 1, 1, 0
	store := frozen{enginetest.NewStore(dir)}
	p := enginetest.Parts(store)
	p.Proposer = candidates
	if change != nil {
		change(&p)
	}
	if _, err := engine.Run(t.Context(), c, p); err != nil {
		t.Fatal(err)
	}
	last := store.Records()[2].Search
	if len(last.Compared) != len(candidates) {
		t.Fatalf("%d candidates compared, want %d; refused %v", len(last.Compared), len(candidates), last.Rejected)
	}
	for _, e := range last.Evaluated {
		if e.Accepted {
			return true
		}
	}
	return false
}

// Candidates that do exactly what the incumbent does see the same tasks and seeds and tie
// with it everywhere; a tie keeps the incumbent, however lax the setting. Candidates with
// the incumbent's very bytes are not even run, which TestRun_search has.
func TestAA_identical(t *testing.T) {
	const h0 = "hint=0 turns=1"
	dir := t.TempDir()
	for seed := range uint64(searches) {
		if search(t, dir, seed, 1, fixed{h0 + " ", h0 + "  ", h0 + "   "}, nil) {
			t.Fatalf("seed %d accepts a copy", seed)
		}
	}
}

// Candidates that are equally good and differ by luck are accepted at the rate that
// accept_p names, for each candidate: with M of them at most M times that. Without a
// threshold (1) it is a coin for each, ties aside, so most searches end with another one;
// what the next phase measures again is what counts, not the gain that was accepted.
func TestAA_noise(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		acceptP     float64
		candidates  fixed
		least, most float64 // of the searches, before sampling error
	}{
		{.05, fixed{"a"}, .002, .05},
		{.2, fixed{"a"}, .05, .2},
		{.05, fixed{"a", "b", "c"}, .01, .15},
		{1, fixed{"a", "b", "c"}, .5, .95},
	} {
		accepted := 0
		for seed := range uint64(searches) {
			if search(t, dir, seed, c.acceptP, c.candidates, func(p *engine.Parts) {
				p.Sandbox, p.Policy = namesake{}, byPrompt{p.Policy.(*enginetest.Brain)}
			}) {
				accepted++
			}
		}
		rate := float64(accepted) / searches
		t.Logf("accept_p %.2f, %d candidates: %.3f accepted", c.acceptP, len(c.candidates), rate)
		if slack := 3 * math.Sqrt(c.most*(1-c.most)/searches); rate > c.most+slack || rate < c.least {
			t.Errorf("accept_p %v with %d candidates accepts %.3f, want %.3f to %.3f", c.acceptP, len(c.candidates), rate, c.least, c.most)
		}
	}
}

// faulty loses three in ten attempts: a third each before a reply, after the first one,
// and when the verdict is made.
type faulty struct {
	enginetest.World
	mu       sync.Mutex
	attempts map[uint64]uint64 // by rollout seed
}

var errHost = errors.New("host fault")

const lossRate = .3

func (f *faulty) Verify(task engine.Task, t *engine.Trajectory) (engine.Verdict, error) {
	f.mu.Lock()
	attempt := f.attempts[t.Seed]
	f.attempts[t.Seed]++
	f.mu.Unlock()
	if chance(t.Seed, attempt, 1) < .12 {
		return engine.Verdict{Kind: engine.Equal, Reward: 1}, errHost // what comes with an error does not count
	}
	return f.World.Verify(task, t)
}

// shaky is the policy's side: it fails by request and attempt, the second turn too, and
// marks each completion with a log-probability that no other one has.
type shaky struct {
	*enginetest.Brain
}

func (s shaky) Generate(ctx context.Context, r engine.Request) (engine.Completion, error) {
	c, err := s.Brain.Generate(ctx, r)
	if err == nil {
		c.LogProbs[0] = -float32(chance(r.Seed, 3)) - 1
	}
	return c, err
}

func newShaky(b *enginetest.Brain) shaky {
	b.Fault = func(r engine.Request, attempt int) error {
		if chance(r.Seed, uint64(attempt), 2) < .16 {
			return errHost
		}
		return nil
	}
	return shaky{Brain: b}
}

// pooled rolls out all training tasks of a large domain.
func pooled(t *testing.T, world engine.World, policy engine.Policy, retries int) ([]*engine.Trajectory, engine.Score) {
	t.Helper()
	d := enginetest.Domain(600)
	d.World = world
	h := engine.NewHarness("hint=2 turns=3", engine.Meta{})
	program, err := enginetest.Sandbox{}.Load(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []engine.Job
	for _, task := range d.Train {
		for k := range 2 {
			jobs = append(jobs, engine.Job{Program: program, Harness: h.ID, Task: task, Sample: k, Seed: engine.RolloutSeed(5, "aa", task.ID, k)})
		}
	}
	pool := engine.Pool{Domain: d, Policy: policy, Sampling: engine.Defaults().Sampling, Retries: retries,
		Admission: schedule.New(schedule.Limits{Rollouts: 8})}
	ts, err := pool.Rollouts(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return ts, engine.NewScore(d.Train, ts)
}

// Three in ten attempts are lost to the host. The mean stays inside the interval of the
// undisturbed one and the other way round, the coverage tells the loss, and a rollout that
// was repeated is the one that would have been.
func TestFaults_mean(t *testing.T) {
	clean, want := pooled(t, enginetest.World{}, shaky{Brain: enginetest.NewBrain()}, 0)
	for _, c := range []struct {
		retries     int
		least, most float64 // coverage
	}{{0, .64, .76}, {2, .95, .995}} {
		ts, got := pooled(t, &faulty{attempts: map[uint64]uint64{}}, newShaky(enginetest.NewBrain()), c.retries)
		t.Logf("%d retries: coverage %.3f, mean %.3f, undisturbed %.3f [%.3f, %.3f]", c.retries, got.Coverage, got.Mean, want.Mean, want.Lo, want.Hi)
		if got.Coverage < c.least || got.Coverage > c.most {
			t.Errorf("coverage %.3f, want %.2f to %.2f", got.Coverage, c.least, c.most)
		}
		if got.Mean < want.Lo || got.Mean > want.Hi || want.Mean < got.Lo || want.Mean > got.Hi {
			t.Errorf("mean %.3f [%.3f, %.3f], undisturbed %.3f [%.3f, %.3f]", got.Mean, got.Lo, got.Hi, want.Mean, want.Lo, want.Hi)
		}
		for i, r := range ts {
			switch {
			case r.Outcome == engine.Infra && (r.Verdict.Reward != 0 || r.Failure == ""):
				t.Fatalf("a lost rollout has a reward or no reason: %+v", r)
			case r.Outcome != engine.Infra && (r.Verdict != clean[i].Verdict || r.Answer().LogProbs[0] != clean[i].Answer().LogProbs[0]):
				t.Fatalf("rollout %d is another one than without faults", i)
			}
		}
	}
}

// pupil keeps what it is taught.
type pupil struct {
	*enginetest.Brain
	rows []engine.Sequence
}

func (p *pupil) Update(ctx context.Context, batch []engine.Sequence) (engine.Update, error) {
	p.rows = append(p.rows, batch...)
	return p.Brain.Update(ctx, batch)
}

// No token of a lost rollout is learned, though many of these hold the right answer; all
// others that were rewarded are.
func TestFaults_training(t *testing.T) {
	c := enginetest.Config()
	c.Condition, c.Retries, c.Steps, c.Prompts, c.TestTasks, c.CurveSamples = "weight-only", 0, 6, 8, 4, 0
	var p *pupil
	_, records, store := mustPlay(t, c, func(parts *engine.Parts) {
		brain := parts.Policy.(*enginetest.Brain)
		p = &pupil{Brain: brain}
		parts.Domain.World, parts.Policy, parts.Learner = &faulty{attempts: map[uint64]uint64{}}, newShaky(brain), p
	})
	learned := map[float32]int{} // by the mark of a call
	for _, row := range p.rows {
		at := 0
		for _, span := range row.Sampled {
			learned[row.LogProbs[at]]++
			at += span.To - span.From
		}
	}
	var rollouts, lost, lostRight, taught int
	for _, r := range records {
		if r.Kind != engine.StepRecord {
			continue
		}
		ts, err := store.Trajectories(r.File)
		if err != nil {
			t.Fatal(err)
		}
		for _, rollout := range ts {
			rollouts++
			want := 0
			switch {
			case rollout.Outcome == engine.Infra:
				lost++
				var n int
				answer := rollout.Answer()
				if answer == nil {
					continue
				}
				for _, task := range enginetest.Domain(40).Train {
					if _, err := fmt.Sscanf(task.Input, "square %d", &n); err == nil && task.ID == rollout.Task && answer.Text == fmt.Sprint(n*n) {
						lostRight++
					}
				}
			case rollout.Verdict.Reward > .5:
				want = 1
			}
			for _, call := range rollout.Learned() {
				taught += want
				if got := learned[call.LogProbs[0]]; got != want {
					t.Fatalf("a call of a rollout that is %s with reward %v was learned %d times", rollout.Outcome, rollout.Verdict.Reward, got)
				}
			}
		}
	}
	if share := float64(lost) / float64(rollouts); math.Abs(share-lossRate) > .08 || lostRight < 10 || taught < 50 {
		t.Errorf("%d rollouts, %d lost (%.2f), %d of these right, %d calls learned: not what this test is about", rollouts, lost, share, lostRight, taught)
	}
}
