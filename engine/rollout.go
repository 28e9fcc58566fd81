package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Job asks for one rollout.
type Job struct {
	Program Program
	Harness HarnessID
	Task    Task
	Sample  int
	Seed    uint64 // RolloutSeed
	Phase   string // which part of the run asks, for the record
}

// Admission decides how many rollouts are in flight.
type Admission interface {
	// Admit waits until a rollout that may hold so many tokens fits, and returns what
	// gives its place back. It fails only with the context's error.
	Admit(ctx context.Context, tokens int) (release func(), err error)
}

// Pool runs rollouts.
type Pool struct {
	Domain    *Domain
	Policy    Policy
	Sampling  Sampling
	Retries   int // further attempts at a rollout that the host lost
	Admission Admission
	// Done is told each finished rollout, one at a time, in the order they finish; nil = nobody.
	Done func(*Trajectory)

	gauge gauge
	drain time.Duration // of the last Rollouts, after the last job was admitted
}

// Rollouts runs jobs, admits them in order and returns their trajectories in job order.
// A bad rollout is data: it comes back as a trajectory with its outcome. An error means
// that the context ended; then no trajectory is returned.
func (p *Pool) Rollouts(ctx context.Context, jobs []Job) ([]*Trajectory, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make([]*Trajectory, len(jobs))
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i, job := range jobs {
		release, err := p.Admission.Admit(ctx, p.Domain.Budget.Tokens)
		if err != nil {
			cancel()
			break
		}
		wg.Go(func() {
			defer release()
			t := p.rollout(ctx, job)
			if t == nil {
				return
			}
			done[i] = t
			if p.Done != nil {
				mu.Lock()
				defer mu.Unlock()
				p.Done(t)
			}
		})
	}
	admitted := time.Now()
	wg.Wait()
	p.drain = time.Since(admitted)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return done, nil
}

// rollout makes one rollout, again with the same seed when the host lost it. It returns
// nil when the context ended.
func (p *Pool) rollout(ctx context.Context, job Job) *Trajectory {
	var before Cost // of lost attempts: they were paid for
	for attempt := 0; ; attempt++ {
		t := p.attempt(ctx, job)
		if ctx.Err() != nil {
			return nil
		}
		if t.Outcome != Infra || attempt >= p.Retries {
			t.Cost = before.Add(t.Cost)
			return t
		}
		before = before.Add(t.Cost)
	}
}

// attempt is one rollout from start to verdict.
func (p *Pool) attempt(ctx context.Context, job Job) *Trajectory {
	begin := time.Now()
	t := &Trajectory{Task: job.Task.ID, Harness: job.Harness, Weights: p.Policy.Weights(),
		Phase: job.Phase, Sample: job.Sample, Seed: job.Seed}
	p.gauge.move(away, starting, begin)
	err := p.play(ctx, job, t)
	p.gauge.move(inGuest, atVerifier, time.Now())
	t.Outcome = Classify(err)
	if t.Outcome == Scored {
		var fault error
		if t.Verdict, fault = verify(p.Domain.World, job.Task, t); fault != nil {
			t.Outcome, err = Infra, fault
		}
	} else {
		t.Verdict = Verdict{Kind: Unparsed}
	}
	if err != nil {
		t.Failure, t.Cause = valid(err.Error()), string(boundary(err))
	}
	end := time.Now()
	p.gauge.move(atVerifier, away, end)
	t.Cost.Seconds = end.Sub(begin).Seconds()
	return t
}

// play lets the harness work on the task and fills in what happened. Its error says how
// it ended, ErrBudget for an overrun.
func (p *Pool) play(ctx context.Context, job Job, t *Trajectory) error {
	var env Environment
	err := guard(AtTask, string(job.Task.ID), func() (err error) {
		env, err = p.Domain.World.Start(job.Task)
		return err
	})
	p.gauge.move(starting, inGuest, time.Now())
	if err != nil {
		return AtTask.wrap(string(job.Task.ID), &hostFault{err})
	}
	s := NewSession(SessionSetup{Policy: p.Policy, Env: env, Tools: p.Domain.Tools, Sampling: p.Sampling,
		Seed: job.Seed, Task: job.Task.ID, Budget: p.Domain.Budget})
	s.gauge = &p.gauge
	start := Start{Domain: job.Task.Domain, Input: job.Task.Input, Tools: p.Domain.Tools, Budget: p.Domain.Budget}
	var use GuestUse
	err = guard(AtSandbox, string(job.Harness), func() (err error) {
		use, err = job.Program.Run(ctx, start, s)
		return err
	})
	t.Events, t.Submitted = s.events, s.submitted
	t.Cost = s.cost
	t.Cost.SandboxSeconds = use.Seconds
	switch use.Engine {
	case "interpret":
		t.Cost.Interpreted++
	case "compile":
		t.Cost.Compiled++
	}
	if e := guard(AtTask, string(job.Task.ID), func() error { t.Record = valid(env.Record()); return nil }); e != nil {
		return e
	}
	return ending(s, job.Harness, err)
}

// ending decides what a program's error means, knowing what the session saw: a fault of
// the host can't be hidden by the harness, and a harness that gives up because its
// budget is used up has not failed.
func ending(s *Session, harness HarnessID, err error) error {
	var fail *HarnessError
	switch {
	case s.fault != nil:
		return s.fault
	case s.overrun && errors.As(err, &fail) && !fail.Panic:
		return ErrBudget
	case err != nil && Classify(err) == Infra:
		return AtSandbox.wrap(string(harness), err)
	}
	return err
}

// hostFault keeps a cause's text but not its type, so that an error of the wrong kind
// at the host's side is not mistaken for the harness's.
type hostFault struct{ cause error }

func (h *hostFault) Error() string { return h.cause.Error() }

// boundary names where a rollout's error came from.
func boundary(err error) Boundary {
	var f *Failure
	var limit *LimitError
	switch {
	case errors.As(err, &f):
		return f.Boundary
	case errors.As(err, &limit):
		return AtSandbox
	}
	return AtHarness
}
