package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// patience is how many times in a row a proposer may fail before the run ends: once or
// twice is a bad hour of some service, three times is a proposer that does not work.
const patience = 3

// candidates asks for candidates and loads them. What is refused goes back to the
// proposer with the reason, at most Config.Repairs times; what is refused in the end is in
// the next iteration's brief. The programs are the caller's to close, on an error too.
func (s *Site) candidates(ctx context.Context, b Brief, state State, result *SearchResult) (loaded []Harness, programs []Program, err error) {
	seen := map[HarnessID]bool{}
	for _, id := range state.Phase {
		seen[id] = true
	}
	for {
		from, refused := len(result.Proposed), len(result.Report.Rejected)
		if err := s.propose(ctx, b, state, result); err != nil {
			return loaded, programs, err
		}
		for _, h := range result.Proposed[from:] {
			program, no, err := s.admit(ctx, h, seen)
			switch {
			case err != nil:
				return loaded, programs, err
			case no != nil:
				result.Report.Rejected = append(result.Report.Rejected, Rejection{h, *no})
			default:
				loaded, programs = append(loaded, h), append(programs, program)
			}
		}
		back := result.Report.Rejected[refused:]
		if result.Report.Repairs > 0 && len(result.Proposed) == from { // nothing new came of it
			return loaded, programs, nil
		}
		if len(back) == 0 || result.Report.Failed != "" || result.Report.Repairs >= s.Config.Repairs {
			return loaded, programs, nil
		}
		result.Report.Repairs++
		b.Rejected = append(b.Rejected[:len(b.Rejected):len(b.Rejected)], back...)
		b.Slots, b.Repair = len(back), len(back)
	}
}

// ProposerError ends a run whose proposer failed in several iterations in a row. These
// iterations are taken back, so that the search has them when the run goes on.
type ProposerError struct {
	Times   int
	First   string    // what the first of the failures was
	Harness HarnessID // the incumbent, which the run keeps
	Err     error     // the latest failure
}

func (e *ProposerError) Error() string {
	return fmt.Sprintf("harness proposer: no candidates in %d iterations in a row, first for this: %s; the run keeps harness %s",
		e.Times, strings.TrimPrefix(e.First, "harness proposer: "), e.Harness)
}

// Unwrap gives errors.Is and errors.As the latest failure.
func (e *ProposerError) Unwrap() error { return e.Err }

// ended returns the error that a search ended with. After a *ProposerError the journal loses
// the iterations at its end in which the proposer failed: the search has them again when
// the run goes on. What these calls cost stays in the proposer's own account only.
func (r *run) ended(err error) error {
	var stuck *ProposerError
	if !errors.As(err, &stuck) {
		return err
	}
	records := r.Parts.Store.Records()
	n := len(records)
	for n > 0 && records[n-1].Search != nil && records[n-1].Search.fruitless() {
		n--
	}
	return errors.Join(err, AtArchive.wrap("journal", r.Parts.Store.Rewind(n)))
}

// propose asks for candidates and names them by their content, whatever the proposer
// calls them. A proposer that fails costs its iteration; the last of `patience` failures
// in a row is a *ProposerError. A budget that is used up is no failure, and what it made
// before counts.
func (s *Site) propose(ctx context.Context, b Brief, state State, result *SearchResult) error {
	begin := time.Now()
	var proposed []Harness
	err := guard(AtHarness, "proposer", func() (err error) {
		spender, counts := s.Parts.Proposer.(Spender)
		if counts {
			before := spender.Spent()
			defer func() {
				result.Spending.Cost.Proposal = result.Spending.Cost.Proposal.Add(spender.Spent().Minus(before))
			}()
		}
		proposed, err = s.Parts.Proposer.Propose(ctx, b)
		return err
	})
	result.Spending.Cost.ProposeSeconds += time.Since(begin).Seconds()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		err = AtHarness.wrap("proposer", err)
		spent := errors.Is(err, ErrSpent)
		if state.Failing+1 >= patience && !spent && len(result.Proposed) == 0 {
			return &ProposerError{state.Failing + 1, state.Failure, state.Harness, err}
		}
		result.Report.Failed, result.Report.Spent = oneLine(err), spent
		return nil
	}
	for _, h := range proposed[:min(len(proposed), b.Slots)] {
		h.Meta.Cycle, h.Meta.Iteration = b.Cycle, b.Iteration
		h = NewHarness(h.Source, h.Meta)
		if b.Repair == 0 || !slices.ContainsFunc(result.Proposed, func(o Harness) bool { return o.ID == h.ID }) {
			result.Proposed = append(result.Proposed, h)
		}
	}
	return nil
}

// admit loads a candidate or says why it is refused.
func (s *Site) admit(ctx context.Context, h Harness, seen map[HarnessID]bool) (Program, *LoadError, error) {
	if refused := s.refuse(h, seen[h.ID]); refused != nil {
		return nil, refused, nil
	}
	seen[h.ID] = true
	program, err := s.load(ctx, h)
	var refused *LoadError
	if errors.As(err, &refused) {
		return nil, refused, nil
	}
	return program, nil, err
}

// refuse says what is wrong with a candidate before it is loaded; nil when nothing is.
func (s *Site) refuse(h Harness, seen bool) *LoadError {
	if seen {
		return &LoadError{Rule: "duplicate",
			Reason: "this source was already evaluated in this phase", Hint: "change what it does"}
	}
	if Conditions[s.Config.Condition].PromptsOnly {
		if refused := PromptsOnly(s.Parts.Domain.Seed, h.Source); refused != nil {
			return refused
		}
	}
	if s.taboo == nil {
		s.taboo = newTaboo(s.Parts.Domain)
	}
	return s.taboo.refuse(h.Source)
}
