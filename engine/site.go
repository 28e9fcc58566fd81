package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Parts are what a run is made of.
type Parts struct {
	Domain    *Domain
	Sandbox   Sandbox
	Policy    Policy
	Learner   Learner // trains the weights that Policy generates with
	Proposer  Proposer
	Store     Store
	Admission Admission
	Observer  Observer    // may be nil
	Energy    EnergyMeter // nil = joules are not known
	Estimate  *Estimate   // of the whole run, for the summary; may be nil

	// Ways to improve weights or harness that have no name in Updates and Searches; nil =
	// what Config.Update and Config.Search say.
	Weight func(*Site) WeightPhase
	Search func(*Site) HarnessPhase
}

// Site is where the phases work: the settings, the parts, and rollouts.
type Site struct {
	Config Config
	Parts  Parts
	pool   *Pool
	meter  *meter

	harness HarnessID // the accepted harness whose program is loaded; no candidate
	program Program
	near    string // folder of the learner's reference weights
	file    string // whose trajectories are in memory
	read    []*Trajectory

	loading float64 // seconds since the last commit
	taboo   *taboo  // what no candidate may hold; nil until the first comes
}

func newSite(c Config, p Parts) *Site {
	m := &meter{observer: p.Observer, began: time.Now()}
	m.now.Budget = c.Budget(p.Domain)
	if Conditions[c.Condition].Pace == PaceCycles {
		m.now.Cycles = c.Cycles
	}
	return &Site{Config: c, Parts: p, meter: m, pool: &Pool{Domain: p.Domain, Policy: p.Policy,
		Sampling: c.Sampling, Retries: c.Retries, Admission: p.Admission, Done: m.rollout}}
}

// Rollouts runs jobs and says what they cost. It fails when the context ends and when
// the host lost every single rollout, unless the harnesses may be the cause: candidates
// that kill their sandbox are their proposer's problem.
func (s *Site) Rollouts(ctx context.Context, jobs []Job) ([]*Trajectory, Spending, error) {
	s.meter.begin(len(jobs))
	return s.rollouts(ctx, jobs)
}

// rollouts is Rollouts for a part of a unit.
func (s *Site) rollouts(ctx context.Context, jobs []Job) ([]*Trajectory, Spending, error) {
	begin, energy := time.Now(), s.energy()
	ts, err := s.pool.Rollouts(ctx, jobs)
	spending := Spending{Rollouts: time.Since(begin).Seconds(), Drain: s.pool.drain.Seconds(),
		RolloutEnergy: s.energy().Minus(energy), Idle: s.pool.gauge.take()}
	for _, t := range ts {
		spending.Cost = spending.Cost.Add(t.Cost)
	}
	if err == nil {
		err = s.lost(ts)
	}
	return ts, spending, err
}

// energy is what the machine took so far.
func (s *Site) energy() Energy {
	if s.Parts.Energy == nil {
		return Energy{}
	}
	return s.Parts.Energy.Energy()
}

// lost reports a host that lost everything, with the first cause.
func (s *Site) lost(ts []*Trajectory) error {
	for _, t := range ts {
		if t.Outcome != Infra || t.Cause == string(AtSandbox) && t.Harness != s.harness {
			return nil
		}
	}
	if len(ts) == 0 {
		return nil
	}
	return Fail(Boundary(ts[0].Cause), string(ts[0].Task),
		fmt.Errorf("all %d rollouts were lost to the host; the first: %s", len(ts), ts[0].Failure))
}

// Jobs are the rollouts of a harness on tasks, samples of a task side by side.
func (s *Site) Jobs(h HarnessID, p Program, tasks []Task, samples int, purpose string) []Job {
	jobs := make([]Job, 0, len(tasks)*samples)
	for _, task := range tasks {
		for i := range samples {
			jobs = append(jobs, Job{Program: p, Harness: h, Task: task, Sample: i,
				Seed: RolloutSeed(s.Config.Seed, purpose, task.ID, i), Phase: purpose})
		}
	}
	return jobs
}

// Program loads a harness from the store, which must be loadable, and keeps it until
// another is asked for.
func (s *Site) Program(ctx context.Context, id HarnessID) (Program, error) {
	if s.harness == id && s.program != nil {
		return s.program, nil
	}
	if err := s.close(); err != nil {
		return nil, err
	}
	h, err := s.Parts.Store.Harness(id)
	if err != nil {
		return nil, AtArchive.wrap(string(id), err)
	}
	program, err := s.load(ctx, h)
	if err != nil {
		return nil, AtHarness.wrap(string(id), err)
	}
	s.harness, s.program = id, program
	return program, nil
}

// load loads a candidate. A *LoadError comes back as it is, everything else as a failure.
func (s *Site) load(ctx context.Context, h Harness) (program Program, err error) {
	var refused *LoadError
	begin := time.Now()
	err = guard(AtSandbox, string(h.ID), func() (err error) {
		program, err = s.Parts.Sandbox.Load(ctx, h)
		return err
	})
	s.loading += time.Since(begin).Seconds()
	if err == nil || errors.As(err, &refused) {
		return program, err
	}
	return nil, AtSandbox.wrap(string(h.ID), err)
}

func (s *Site) close() error {
	if s.program == nil {
		return nil
	}
	err := s.program.Close()
	s.program = nil
	return Fail(AtSandbox, string(s.harness), err)
}

// Archived returns the rollouts of one harness in a unit's file.
func (s *Site) Archived(file string, h HarnessID) ([]*Trajectory, error) {
	if s.file != file || file == "" {
		ts, err := s.Parts.Store.Trajectories(file)
		if err != nil {
			return nil, AtArchive.wrap(file, err)
		}
		s.file, s.read = file, ts
	}
	var own []*Trajectory
	for _, t := range s.read {
		if t.Harness == h {
			own = append(own, t)
		}
	}
	return own, nil
}

// useWeights makes a point's weights the current ones.
func (s *Site) useWeights(ctx context.Context, folder string, id WeightsID) error {
	begin := time.Now()
	defer func() { s.loading += time.Since(begin).Seconds() }()
	if err := s.Parts.Learner.Load(ctx, s.Parts.Store.WeightsDir(folder)); err != nil {
		return AtArchive.wrap("weights "+folder, err)
	}
	if got := s.Parts.Policy.Weights(); got != id {
		return Fail(AtArchive, "weights "+folder, fmt.Errorf("hold %s, the journal says %s", got, id))
	}
	return nil
}
