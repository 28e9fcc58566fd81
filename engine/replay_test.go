package engine_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
)

// Every rollout of a run can be run again: its weights are recalled, also those that were
// pruned, and it comes out the same.
func TestReplay(t *testing.T) {
	for _, update := range []string{"", "advantage", "policy-gradient"} {
		config := enginetest.Config()
		config.Update = update
		_, records, store := mustPlay(t, config, nil)
		parts := enginetest.Parts(store)
		pool := engine.Pool{Domain: parts.Domain, Policy: parts.Policy, Sampling: config.Sampling, Admission: parts.Admission}
		tasks := map[engine.TaskID]engine.Task{}
		for _, split := range []engine.Split{engine.Train, engine.Select, engine.Test} {
			for _, task := range parts.Domain.Tasks(split) {
				tasks[task.ID] = task
			}
		}
		kept, err := store.Weights()
		if err != nil || len(kept) >= len(records)/2 {
			t.Fatalf("%d of %d weights were kept, %v", len(kept), len(records), err)
		}
		n := 0
		for i := len(records) - 1; i > 0; i -= 2 { // backwards, so that nothing is in use already
			ts, err := store.Trajectories(records[i].File)
			if err != nil {
				t.Fatal(err)
			}
			want := ts[len(ts)/2]
			if err := engine.Recall(t.Context(), config, store, parts.Learner, parts.Policy, want.Weights); err != nil {
				t.Fatal(err)
			}
			h, err := store.Harness(want.Harness)
			if err != nil {
				t.Fatal(err)
			}
			got, err := pool.Rollouts(t.Context(), []engine.Job{{Program: program(t, h.Source), Harness: h.ID,
				Task: tasks[want.Task], Sample: want.Sample, Seed: want.Seed, Phase: want.Phase}})
			if err != nil {
				t.Fatal(err)
			}
			if err := engine.Same(want, got[0]); err != nil {
				t.Errorf("%s: %v", records[i].File, err)
			}
			n++
		}
		if n < 5 {
			t.Errorf("%d replayed", n)
		}
		if err := engine.Recall(t.Context(), config, store, parts.Learner, parts.Policy, "w0"); err == nil || !strings.Contains(err.Error(), "archive w0: the run never had these weights") {
			t.Errorf("got %v", err)
		}
		other := config
		other.Batch = 1
		var unkept engine.WeightsID
		for _, r := range records {
			if r.Step != nil && r.Index == 1 && r.Step.Sequences > r.Step.Updates {
				unkept = r.Weights
			}
		}
		if unkept == "" {
			t.Fatal("no step to test with")
		}
		if err := engine.Recall(t.Context(), other, store, parts.Learner, parts.Policy, unkept); err == nil || !strings.Contains(err.Error(), "trained again it gives weights") {
			t.Errorf("got %v", err)
		}
	}
}

// What differs is named; what belongs to the machine does not count.
func TestSame(t *testing.T) {
	rollout := func() *engine.Trajectory {
		return &engine.Trajectory{Task: "t", Events: []engine.Event{
			{Said: &engine.Turn{Role: "user", Content: "q"}},
			{Call: &engine.Call{Handle: 1, Prompt: []int32{1}, Sampled: []int32{2}, LogProbs: []float32{-.5}, Cached: 1, Seconds: 1}}},
			Cost: engine.Cost{Sampled: 1, Cached: 1, Seconds: 1}}
	}
	for name, c := range map[string]struct {
		change func(*engine.Trajectory)
		say    string
	}{
		"nothing": {func(*engine.Trajectory) {}, ""},
		"machine": {func(r *engine.Trajectory) {
			r.Cost.Seconds, r.Cost.Cached, r.Events[1].Call.Cached, r.Events[1].Call.Seconds = 2, 0, 0, 2
			r.Cost.Trained, r.Events[1].Call.Wall = 7, 3 // a replay does not train
		}, ""},
		"a bit":    {func(r *engine.Trajectory) { r.Events[1].Call.LogProbs[0] = math.Nextafter32(-.5, 0) }, "event 2 was"},
		"a token":  {func(r *engine.Trajectory) { r.Events[1].Call.Sampled[0] = 3 }, "event 2 was"},
		"an event": {func(r *engine.Trajectory) { r.Events = r.Events[:1] }, "2 events, now 1"},
		"verdict":  {func(r *engine.Trajectory) { r.Verdict.Reward = 1 }, "rollout was"},
		"tokens":   {func(r *engine.Trajectory) { r.Cost.Sampled = 2 }, "rollout was"},
	} {
		other := rollout()
		c.change(other)
		err := engine.Same(rollout(), other)
		if (err == nil) != (c.say == "") || err != nil && (!errors.Is(err, engine.ErrDiffers) || !strings.Contains(err.Error(), c.say)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
