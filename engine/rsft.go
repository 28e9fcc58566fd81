package engine

import (
	"context"
	"fmt"
	"time"
)

// RSFT is the weight phase of the paper: rejection-sampling fine-tuning (spec/rsft.md 5).
// A step draws rollouts from the weights in use and makes one pass of log-likelihood
// updates over those that were rewarded. No step sees the rollouts of another.
type RSFT struct{ Site *Site }

// Step makes one RSFT step.
func (r RSFT) Step(ctx context.Context, u Unit, s State) (StepResult, error) {
	number := s.Steps + 1
	tasks, epoch := r.batch(number)
	program, err := r.Site.Program(ctx, s.Harness)
	if err != nil {
		return StepResult{}, err
	}
	purpose := fmt.Sprintf("train/%d", number)
	jobs := r.Site.Jobs(s.Harness, program, tasks, r.Site.Config.Samples, purpose)
	ts, spending, err := r.Site.Rollouts(ctx, jobs)
	if err != nil {
		return StepResult{}, err
	}
	result := StepResult{Rollouts: ts, Report: Step{Epoch: epoch}, Spending: spending}
	for _, t := range ts {
		if t.Outcome != Infra {
			result.Report.Counted++
			result.Report.Mean += t.Verdict.Reward
		}
	}
	result.Report.Mean /= float64(max(1, result.Report.Counted))
	return result, r.learn(ctx, number, &result)
}

// batch are the tasks of step number (from 1): the next ones in the epoch's order. What
// is left at the end of an epoch is dropped.
func (r RSFT) batch(number int) (tasks []Task, epoch int) {
	train, n := r.Site.Parts.Domain.Train, r.Site.Config.Prompts
	perEpoch := len(train) / n
	epoch = (number - 1) / perEpoch
	order := permutation(r.Site.Config.Seed, epoch, len(train))
	at := (number - 1) % perEpoch * n
	for _, i := range order[at : at+n] {
		tasks = append(tasks, train[i])
	}
	return tasks, epoch
}

// learn makes the updates of a step. With nothing accepted it makes none: weights and
// optimizer stay as they are, bit for bit.
func (r RSFT) learn(ctx context.Context, number int, result *StepResult) error {
	report := &result.Report
	accepted := Accept(result.Rollouts)
	report.Accepted = len(accepted)
	var rows []Sequence
	for _, t := range accepted {
		rows = append(rows, Sequences(t)...)
		if c := t.Answer(); c != nil && c.Stop == StopLength {
			report.Truncated++
		}
	}
	report.Sequences = len(rows)
	begin := time.Now()
	for from := 0; from < len(rows); from += r.Site.Config.Batch {
		batch := rows[from:min(from+r.Site.Config.Batch, len(rows))]
		u, err := r.Site.Parts.Learner.Update(ctx, batch)
		if err != nil {
			return AtDevice.wrap(fmt.Sprintf("update of step %d", number), err)
		}
		if from == 0 {
			report.Drift, report.GradNorm = u.Drift, u.GradNorm
		}
		report.add(u)
		result.Spending.Cost = result.Spending.Cost.Add(Cost{Trained: u.Tokens, Forward: u.Forward})
	}
	if report.Tokens > 0 {
		report.NLL /= float64(report.Tokens)
	}
	result.Spending.Cost.TrainSeconds += time.Since(begin).Seconds()
	return nil
}

// add counts one optimizer step; NLL is a sum over tokens until learn divides it.
func (s *Step) add(u Update) {
	if u.Skipped {
		s.Skipped++
		return
	}
	s.Updates++
	s.Tokens += u.Tokens
	s.NLL += u.NLL * float64(u.Tokens)
}
