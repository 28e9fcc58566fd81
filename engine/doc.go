// Package engine improves an agent, which is a pair of model weights and a harness, by
// alternating: train the weights under the harness, then search a better harness under
// the weights.
//
// The nouns, one file each: a Task has an Input and, kept elsewhere by the World, a
// reference answer. A Harness is source code; a Sandbox makes it a Program. A Program
// works on a task through a Session (Host), where each Call to the Policy and each use
// of a tool is written down. What comes of it is a Trajectory with an Outcome and a
// Verdict. A Learner turns accepted trajectories, as Sequences, into new weights. A
// Proposer turns a Brief about the archive into candidate harnesses, which a Score and
// a Comparison judge. A Store keeps all of it.
//
//	Domain.Task ─→ Pool.rollout ─→ Sandbox: Program ⇄ Session ─→ Policy.Generate
//	                    │                              └──────→ Environment.Tool
//	                    └─→ Trajectory ─→ World.Verify ─→ Verdict
//
//	weight phase    Trajectory ─ Accept ─ Sequences ─→ Learner.Update ─→ new weights
//	harness phase   Brief ─→ Proposer ─→ candidates ─ Rollouts on the select split
//	                    ─ Score, Compare ─→ accepted harness
//	run             alternate: one step or iteration at a time, each a Record in the
//	                    Journal ─ Fold ─→ State ─→ what comes next
//
// To read it: whale.go (the alternation), trajectory.go (the record), rsft.go,
// metaharness.go and iteration.go (the two phases), session.go and rollout.go (how a
// rollout comes about), accept.go (what is learned from), score.go and compare.go (what
// is believed), plan.go and state.go (what comes next), run.go (how a unit is committed),
// advantage.go, gradient.go and hillclimb.go (other ways for the phases).
//
// Rules that hold everywhere:
//   - The trained ids are the sampled ids in the context they were sampled in.
//   - A bad rollout is data; only faults of the host stop a run, and the error names the
//     boundary that was crossed.
//   - A result depends on settings, seed, model and tasks, never on time, order or the
//     number of workers.
//   - A unit is committed as a whole; going on after a kill is nothing but asking what
//     comes after the last committed one.
//   - Train teaches, select chooses, test is opened after the run.
//
// The package imports the standard library only. It may not know what a domain asks,
// how a model computes, how a sandbox confines or how an archive is laid out. It does
// not cover: several runs at once on one learner, and tasks that need more than text and
// tools.
package engine
