package engine

import "slices"

// threshold is what a reward must exceed, strictly, to be learned from (spec/rsft.md 1.4).
const threshold = 0.5

// Accepted says whether a rollout was scored with a reward strictly above 0.5.
func (t *Trajectory) Accepted() bool { return t.Outcome == Scored && t.Verdict.Reward > threshold }

// Accept returns the rollouts to learn from, in rollout order: all that are accepted, with no
// cap per task and no removal of duplicates.
func Accept(ts []*Trajectory) []*Trajectory {
	var accepted []*Trajectory
	for _, t := range ts {
		if t.Accepted() {
			accepted = append(accepted, t)
		}
	}
	return accepted
}

// Sequences turns a trajectory into training rows (Scheme A of spec/rsft.md 4.3). A call
// whose prompt continues what an earlier call saw and wrote extends that row, any other
// call starts a row of its own; a call cut by a limit ends its row, since whatever
// follows it in a later prompt was never sampled. So every span is exactly one call's
// sampled ids in exactly the context they were sampled in, and nothing else is in the
// loss.
//
// Of several samples of the same context only those that came to something are learned:
// the one that a later prompt continues and the one that answered.
func Sequences(t *Trajectory) []Sequence {
	var rows []row
	for _, c := range t.Learned() {
		i := slices.IndexFunc(rows, func(r row) bool { return !r.ended && hasPrefix(c.Prompt, r.seq.IDs) })
		if i < 0 {
			rows = append(rows, row{})
			i = len(rows) - 1
		}
		rows[i].add(c)
	}
	sequences := make([]Sequence, len(rows))
	for i, r := range rows {
		sequences[i] = r.seq
	}
	return sequences
}

type row struct {
	seq   Sequence
	ended bool
}

// add extends the row by what is new in a call's prompt, outside the loss, and by the
// sampled ids, inside it.
func (r *row) add(c *Call) {
	r.seq.IDs = append(r.seq.IDs, c.Prompt[len(r.seq.IDs):]...)
	from := len(r.seq.IDs)
	r.seq.IDs = append(r.seq.IDs, c.Sampled...)
	r.seq.Sampled = append(r.seq.Sampled, Span{from, len(r.seq.IDs)})
	r.seq.LogProbs = append(r.seq.LogProbs, c.LogProbs...)
	r.ended = c.Stop == StopLength
}

// Learned returns the calls whose sampled ids are in the loss if the trajectory is
// accepted: all but the samples that were drawn beside others and dropped.
func (t *Trajectory) Learned() []*Call {
	calls, answer := t.Calls(), t.Answer()
	var used []*Call
	for i, c := range calls {
		alone := !slices.ContainsFunc(calls, func(o *Call) bool { return o != c && slices.Equal(o.Prompt, c.Prompt) })
		continued := slices.ContainsFunc(calls[i+1:], func(o *Call) bool {
			n := len(c.Prompt)
			return len(o.Prompt) > n && hasPrefix(o.Prompt, c.Prompt) && hasPrefix(o.Prompt[n:], c.Sampled)
		})
		if alone || continued || c == answer {
			used = append(used, c)
		}
	}
	return used
}

func hasPrefix(ids, prefix []int32) bool {
	return len(ids) >= len(prefix) && slices.Equal(ids[:len(prefix)], prefix)
}
