package enginetest

import (
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/schedule"
)

// Config is a run of two cycles that takes milliseconds.
func Config() engine.Config {
	c := engine.Defaults()
	c.Domain, c.Cycles, c.Steps, c.Iterations = "squares", 2, 3, 3
	c.Prompts, c.Samples, c.Batch = 4, 4, 8
	c.SelectTasks, c.TestSamples, c.CurveSamples, c.InFlight = 16, 4, 2, 8
	c.Repairs = 0 // each iteration asks once
	return c
}

// Parts are a fresh world around a store.
func Parts(store engine.Store) engine.Parts {
	brain := NewBrain()
	return engine.Parts{Domain: Domain(40), Sandbox: Sandbox{}, Policy: brain, Learner: brain,
		Proposer: &Proposer{}, Store: store, Admission: schedule.New(schedule.Limits{Rollouts: 8})}
}
