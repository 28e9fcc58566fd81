package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

// run is a run in progress.
type run struct {
	*Site
	weight WeightPhase
	search HarnessPhase
	state  State
	since  time.Time // the last commit, for the wall time of a unit
	saving time.Time // when a unit's results began to be written
	taken  Energy    // at the last commit
}

// Run alternates until the budget is spent, measures the curve on the test split and
// returns the summary. On a store that already has a run it goes on after the last
// committed unit, with the same result as if it had never been stopped. When the context
// ends it returns the context's error and leaves a store to resume from.
func Run(ctx context.Context, c Config, p Parts) (_ *Summary, err error) {
	if err := c.Validate(p.Domain); err != nil {
		return nil, err
	}
	if err := disjoint(p.Domain); err != nil {
		return nil, err
	}
	r := &run{Site: newSite(c, p), since: time.Now()}
	r.taken = r.energy()
	r.weight, r.search = Updates[c.Update](r.Site), Searches[c.Search](r.Site)
	if p.Weight != nil {
		r.weight = p.Weight(r.Site)
	}
	if p.Search != nil {
		r.search = p.Search(r.Site)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	if err := r.alternate(ctx); err != nil {
		return nil, err
	}
	if err := r.measure(ctx); err != nil {
		return nil, err
	}
	return r.finish()
}

// disjoint refuses a domain whose splits share a task.
func disjoint(d *Domain) error {
	seen := map[TaskID]Split{}
	for _, split := range []Split{Train, Select, Test} {
		for _, t := range d.Tasks(split) {
			if other, ok := seen[t.ID]; ok {
				return Fail(AtTask, string(t.ID), fmt.Errorf("is in split %s and again in %s", other, split))
			}
			seen[t.ID] = split
		}
	}
	return nil
}

// seal hashes the ids of a split in order.
func seal(tasks []Task) string {
	h := sha256.New()
	for _, t := range tasks {
		fmt.Fprintf(h, "%d:%s", len(t.ID), t.ID)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// begin opens the store: it starts a run, or loads the weights that the journal ends with.
func (r *run) begin(ctx context.Context) error {
	store, d := r.Parts.Store, r.Parts.Domain
	seed := NewHarness(d.Seed, Meta{Hypothesis: "seed harness", Proposer: "seed"})
	manifest := Manifest{Config: r.Config, Weights: r.Parts.Policy.Weights(), Harness: seed.ID,
		Train: seal(d.Train), Select: seal(d.Select), Test: seal(d.Test)}
	if err := store.Begin(manifest); err != nil {
		return AtArchive.wrap("run", err)
	}
	records := store.Records()
	keep := Resumable(records)
	if err := store.Rewind(keep); err != nil {
		return AtArchive.wrap("journal", err)
	}
	r.state = Fold(records[:keep])
	r.meter.planned = r.meter.now.Budget + r.measureRollouts()
	r.meter.now.Stage, r.meter.now.Spent = StageStart, r.state.Spent
	r.meter.tell()
	if keep > 0 {
		if err := r.prune(); err != nil {
			return err
		}
		return r.useWeights(ctx, r.state.Saved, r.state.Weights)
	}
	if err := store.PutHarness(seed); err != nil {
		return AtArchive.wrap(string(seed.ID), err)
	}
	if _, err := r.Program(ctx, seed.ID); err != nil {
		return err
	}
	r.saving = time.Now()
	folder, id, err := r.save(ctx)
	if err != nil {
		return err
	}
	return r.commit(Record{Kind: StartRecord, Weights: id, Saved: folder, Harness: seed.ID})
}

func (r *run) save(ctx context.Context) (string, WeightsID, error) {
	folder, id, err := r.Parts.Store.SaveWeights(func(dir string) (WeightsID, error) {
		return r.Parts.Learner.Save(ctx, dir)
	})
	return folder, id, AtArchive.wrap("weights", err)
}

// enter tells the observer which unit comes.
func (r *run) enter(u Unit) {
	r.meter.now.Stage, r.meter.now.Unit = StageWeight, u
	if u.Phase == HarnessKind {
		r.meter.now.Stage = StageHarness
	}
}

// commitStep stores a weight step: rollouts, weights, then the record.
func (r *run) commitStep(ctx context.Context, u Unit, s StepResult) error {
	r.saving = time.Now()
	rec := Record{Kind: StepRecord, Cycle: u.Cycle, Index: u.Index, Weights: r.Parts.Policy.Weights(),
		Harness: r.state.Harness, Spent: len(s.Rollouts), Step: &s.Report, Spending: s.Spending,
		File: fmt.Sprintf("cycle-%02d-weight-%03d", u.Cycle, u.Index)}
	rec.Last = r.Config.endsPhase(u, r.state.after(rec), r.Parts.Domain)
	if err := r.Parts.Store.PutTrajectories(rec.File, s.Rollouts); err != nil {
		return AtArchive.wrap(rec.File, err)
	}
	switch {
	case s.Report.Updates == 0 && r.state.Saved != "":
		rec.Saved = r.state.Saved // nothing changed
	case rec.Last || u.Index%r.Config.SaveEvery == 0:
		folder, id, err := r.save(ctx)
		if err != nil {
			return err
		}
		rec.Saved, rec.Weights = folder, id
	}
	if err := r.commit(rec); err != nil || rec.Saved == "" {
		return err
	}
	return r.prune()
}

// prune drops weights that are neither a point of the curve nor the last saved ones.
func (r *run) prune() error {
	keep := []string{r.state.Saved}
	for _, p := range r.state.Points {
		if !slices.Contains(keep, p.Saved) {
			keep = append(keep, p.Saved)
		}
	}
	return AtArchive.wrap("weights", r.Parts.Store.Prune(keep))
}

// commitSearch stores an iteration: sources, rollouts, the note for proposers, then the
// record.
func (r *run) commitSearch(u Unit, s SearchResult) error {
	r.saving = time.Now()
	rec := Record{Kind: SearchRecord, Cycle: u.Cycle, Index: u.Index, Weights: r.state.Weights, Saved: r.state.Saved,
		Harness: s.Harness, Spent: len(s.Rollouts), Search: &s.Report, Spending: s.Spending,
		File: fmt.Sprintf("cycle-%02d-search-%03d", u.Cycle, u.Index)}
	rec.Last = r.Config.endsPhase(u, r.state.after(rec), r.Parts.Domain)
	for _, h := range s.Proposed {
		if err := r.Parts.Store.PutHarness(h); err != nil {
			return AtArchive.wrap(string(h.ID), err)
		}
	}
	if err := r.Parts.Store.PutTrajectories(rec.File, s.Rollouts); err != nil {
		return AtArchive.wrap(rec.File, err)
	}
	note := IterationNote{Cycle: u.Cycle, Index: u.Index, Incumbent: s.Harness, Search: s.Report, Rollouts: s.Rollouts}
	if err := r.Parts.Store.PutIteration(note); err != nil {
		return AtArchive.wrap(rec.File, err)
	}
	return r.commit(rec)
}

// commit appends the record to the journal and moves the state on.
func (r *run) commit(rec Record) error {
	rec.Seq = r.state.Records
	now := time.Now()
	rec.Spending.Wall, rec.Spending.Save, rec.Spending.Load = now.Sub(r.since).Seconds(), now.Sub(r.saving).Seconds(), r.loading
	r.loading = 0
	energy := r.energy()
	rec.Spending.Energy, r.taken = energy.Minus(r.taken), energy
	if err := r.Parts.Store.Commit(rec); err != nil {
		return AtArchive.wrap("journal", err)
	}
	r.since = now
	r.state.apply(rec)
	r.meter.finished(rec, r.state.Spent)
	return nil
}
