package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// RSFT is the weight phase of the paper: rejection-sampling fine-tuning (spec/rsft.md 5).
// A step draws rollouts from the weights in use and makes one pass of log-likelihood
// updates over those that were rewarded. No step sees the rollouts of another.
type RSFT struct{ Site *Site }

// Step makes one RSFT step.
func (r RSFT) Step(ctx context.Context, u Unit, s State) (StepResult, error) {
	return r.Site.step(ctx, s, methods["rsft"])
}

// lesson is a rollout to learn from and the weight of its tokens in the loss, above 0; in a
// policy gradient it is their advantage, not 0.
type lesson struct {
	rollout *Trajectory
	weight  float32
}

// method is what a weight phase learns from its rollouts, and how.
type method struct {
	choose   func([]*Trajectory) []lesson
	gradient bool // follow the policy gradient of the lessons' advantages
}

// rewarded are the lessons of rejection sampling: every accepted rollout counts the same.
func rewarded(ts []*Trajectory) []lesson {
	var lessons []lesson
	for _, t := range Accept(ts) {
		lessons = append(lessons, lesson{t, 1})
	}
	return lessons
}

// step draws rollouts and makes one pass over what the method chooses of them.
func (s *Site) step(ctx context.Context, state State, by method) (StepResult, error) {
	number := state.Steps + 1
	tasks, epoch := s.trainTasks(number)
	program, err := s.Program(ctx, state.Harness)
	if err != nil {
		return StepResult{}, err
	}
	purpose := fmt.Sprintf("train/%d", number)
	jobs := s.Jobs(state.Harness, program, tasks, s.Config.Samples, purpose)
	ts, spending, err := s.Rollouts(ctx, jobs)
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
	result.Report.Accepted = len(Accept(ts))
	return result, s.learn(ctx, number, by, ts, &result)
}

// trainTasks are the tasks of step number (from 1): the next ones in the epoch's order. What
// is left at the end of an epoch is dropped.
func (s *Site) trainTasks(number int) (tasks []Task, epoch int) {
	train, n := s.Parts.Domain.Train, s.Config.Prompts
	perEpoch := len(train) / n
	epoch = (number - 1) / perEpoch
	order := permutation(s.Config.Seed, epoch, len(train))
	at := (number - 1) % perEpoch * n
	for _, i := range order[at : at+n] {
		tasks = append(tasks, train[i])
	}
	return tasks, epoch
}

// learn makes the updates of a step. With no lesson it makes none: weights and optimizer
// stay as they are, bit for bit.
func (s *Site) learn(ctx context.Context, number int, by method, ts []*Trajectory, result *StepResult) error {
	report := &result.Report
	var rows []Sequence
	for _, l := range by.choose(ts) {
		for _, row := range Sequences(l.rollout) {
			row.Weight, row.Advantage = l.weight, 0
			if by.gradient {
				row.Weight, row.Advantage = 0, l.weight
			}
			rows = append(rows, row)
			for _, span := range row.Sampled {
				l.rollout.Cost.Trained += span.To - span.From
			}
		}
		if c := l.rollout.Answer(); c != nil && c.Stop == StopLength {
			report.Truncated++
		}
	}
	report.Sequences = len(rows)
	begin, energy := time.Now(), s.energy()
	for from := 0; from < len(rows); from += s.Config.Batch {
		batch := rows[from:min(from+s.Config.Batch, len(rows))]
		u, err := s.update(ctx, by, batch)
		if err != nil {
			return AtDevice.wrap(fmt.Sprintf("update of step %d", number), err)
		}
		if from == 0 {
			report.Drift, report.DriftMax, report.GradNorm = u.Drift, u.DriftMax, u.GradNorm
			if u.Apart {
				return Fail(AtPolicy, fmt.Sprintf("update of step %d", number), fmt.Errorf(
					"%w: log-probabilities of sampled ids differ by %.2g on average, %.2g at most: a mask, position or cache fault", ErrApart, u.Drift, u.DriftMax))
			}
		}
		report.add(u)
		result.Spending.Cost = result.Spending.Cost.Add(Cost{Trained: u.Tokens, Forward: u.Forward, LearnSeconds: u.Seconds})
	}
	if report.Tokens > 0 {
		report.NLL /= float64(report.Tokens)
		report.KL /= float64(report.Tokens)
	}
	result.Spending.Cost.TrainSeconds += time.Since(begin).Seconds()
	result.Spending.TrainEnergy = s.energy().Minus(energy)
	return nil
}

// ErrApart: policy and learner do not compute the same model.
var ErrApart = errors.New("policy and learner are apart")

// update makes one optimizer step.
func (s *Site) update(ctx context.Context, by method, batch []Sequence) (Update, error) {
	if !by.gradient {
		return s.Parts.Learner.Update(ctx, batch)
	}
	l, err := s.gradientLearner()
	if err != nil {
		return Update{}, err
	}
	return l.Reinforce(ctx, batch, s.Config.PolicyGradient)
}

// add counts one optimizer step; NLL and KL are sums over tokens until learn divides them.
func (s *Step) add(u Update) {
	if u.Skipped {
		s.Skipped++
		return
	}
	s.Updates++
	s.Tokens += u.Tokens
	s.NLL += u.NLL * float64(u.Tokens)
	s.KL += u.KL * float64(u.Tokens)
	s.Clipped += u.Clipped
}
