package ledger

import "github.com/seed-7c27e6b8/whale/engine"

// Rollout is what one rollout cost, its share of the update that learned from it included.
type Rollout struct {
	File    string           `json:"file"` // of its unit
	Index   int              `json:"index"`
	Task    engine.TaskID    `json:"task"`
	Sample  int              `json:"sample"`
	Harness engine.HarnessID `json:"harness"`
	Outcome engine.Outcome   `json:"outcome"`
	Reward  float64          `json:"reward"`
	Cost    engine.Cost      `json:"cost"`
	Joules  *float64         `json:"joules"` // null = could not be read
	Calls   []Call           `json:"calls"`
}

// Call is what one call cost.
type Call struct {
	Handle  int      `json:"handle"`
	Prefill int      `json:"prefill"`
	Cached  int      `json:"cached"`
	Sampled int      `json:"sampled"`
	Trained int      `json:"trained"` // all of Sampled or nothing
	Wall    float64  `json:"wall"`    // seconds from asking to the answer
	Device  float64  `json:"device"`  // seconds of the device's steps, shared out by tokens
	Learn   float64  `json:"learn"`   // seconds of updates, shared out by trained tokens
	Joules  *float64 `json:"joules"`
}

// Rollouts shares a unit's cost out among its rollouts and their calls. Tokens are each
// one's own. The joules of generating go by device seconds, the seconds and joules of
// updating by trained tokens, so all of them add up to the unit's.
func Rollouts(l Line, file string, ts []*engine.Trajectory) []Rollout {
	var device, trained float64
	for _, t := range ts {
		device += t.Cost.DeviceSeconds
		trained += float64(t.Cost.Trained)
	}
	s := l.Spending
	joules := func(deviceSeconds float64, tokens int) *float64 {
		generating, learning := s.RolloutEnergy.Total(), s.TrainEnergy.Total()
		if generating == nil && learning == nil {
			return nil
		}
		sum := share(generating, deviceSeconds, device) + share(learning, float64(tokens), trained)
		return &sum
	}
	learn := s.Cost.LearnSeconds
	rollouts := make([]Rollout, len(ts))
	for i, t := range ts {
		r := Rollout{File: file, Index: i, Task: t.Task, Sample: t.Sample, Harness: t.Harness, Outcome: t.Outcome,
			Reward: t.Verdict.Reward, Cost: t.Cost, Joules: joules(t.Cost.DeviceSeconds, t.Cost.Trained)}
		r.Cost.LearnSeconds = share(&learn, float64(t.Cost.Trained), trained)
		learned := map[*engine.Call]bool{}
		if t.Cost.Trained > 0 {
			for _, c := range t.Learned() {
				learned[c] = true
			}
		}
		for _, c := range t.Calls() {
			call := Call{Handle: c.Handle, Prefill: len(c.Prompt) - c.Cached, Cached: c.Cached, Sampled: len(c.Sampled), Wall: c.Wall, Device: c.Seconds}
			if learned[c] {
				call.Trained = call.Sampled
			}
			call.Learn = share(&learn, float64(call.Trained), trained)
			call.Joules = joules(call.Device, call.Trained)
			r.Calls = append(r.Calls, call)
		}
		rollouts[i] = r
	}
	return rollouts
}

// share is the part of an amount that falls to one of all.
func share(amount *float64, one, all float64) float64 {
	if amount == nil || all == 0 {
		return 0
	}
	return *amount * one / all
}
