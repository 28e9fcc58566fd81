package engine

import "context"

// WeightPhase makes better weights while the harness is frozen.
type WeightPhase interface {
	// Step makes one update of the weights in use; it stores nothing.
	Step(ctx context.Context, u Unit, s State) (StepResult, error)
}

// HarnessPhase finds a better harness while the weights are frozen.
type HarnessPhase interface {
	// Iterate makes one iteration of the search; it stores nothing.
	Iterate(ctx context.Context, u Unit, s State) (SearchResult, error)
}

// StepResult is what one weight step hands back.
type StepResult struct {
	Rollouts []*Trajectory
	Report   Step
	Spending Spending
}

// SearchResult is what one search iteration hands back.
type SearchResult struct {
	Proposed []Harness     // all that was proposed, in order
	Rollouts []*Trajectory // of the evaluated, in order
	Report   Search
	Harness  HarnessID // the incumbent from now on
	Spending Spending
}

// alternate is the recipe. Cycle k is
//
//	θ ← weight phase (θ, h)     E steps of rejection-sampling fine-tuning under harness h
//	h ← harness phase (θ, h)    I iterations of search under the new weights
//
// and each round of the loop is one step or one iteration, whichever comes next. A unit
// is committed as a whole, and what comes next depends on committed units only: that is
// all there is to going on after a kill.
func (r *run) alternate(ctx context.Context) error {
	for {
		unit, more := r.Config.next(r.state, r.Parts.Domain)
		if !more {
			return nil
		}
		r.enter(unit)
		switch unit.Phase {
		case WeightKind:
			step, err := r.weight.Step(ctx, unit, r.state)
			if err != nil {
				return err
			}
			if err := r.commitStep(ctx, unit, step); err != nil {
				return err
			}
		case HarnessKind:
			found, err := r.search.Iterate(ctx, unit, r.state)
			if err != nil {
				return r.ended(err)
			}
			if err := r.commitSearch(unit, found); err != nil {
				return err
			}
		}
	}
}
