package builtin

import "fmt"

// Axes of engine.Meta.
const (
	onContext  = "context"
	onTools    = "tools"
	onParsing  = "parsing"
	onRecovery = "recovery"
	onStopping = "stopping"
)

// operator is one kind of edit.
type operator interface {
	// moves lists the ways to apply it to a source, in text order; none if it does not
	// apply. It is pure.
	moves(c *source, d *diagnosis) []move
}

// prompter is an operator that changes texts only.
type prompter interface{ promptsOnly() }

func (textOperator) promptsOnly()    {}
func (wordingOperator) promptsOnly() {}

// operators in the order in which their moves are listed.
func operators() []operator {
	return []operator{
		limitOperator{}, textOperator{}, nudgeOperator{}, repairOperator{}, hintOperator{},
		repeatOperator{}, recoverOperator{}, insistOperator{}, voteOperator{},
		wordingOperator{},
	}
}

// move is one edit of one source, not yet made.
type move struct {
	// name identifies the kind of edit and its place, without the value that it sets:
	// "turns maxTurns". Moves of one name exclude each other in a combination.
	name string
	// step tells moves of one name apart: "2 -> 6".
	step string
	axis string
	// cures are the symptoms that the edit could remove.
	cures symptom
	// share of the rollouts with these symptoms that it can be hoped to help, and trust
	// when no trace speaks for it; both in (0,1], by experience on the nano model
	// (spec/nano.md section 6).
	share, trust float64
	why          string // the hypothesis, one sentence
	edits        []edit
	rank         int    // of the operator; combinations apply low ranks first, numbers before code
	donor        string // id of a second parent, if any
}

// label is how a move is written into Meta.Edits.
func (m move) label() string { return m.name + ": " + m.step }

// evidence words how many failed rollouts speak for an edit, "" if none does.
func (d *diagnosis) evidence(s symptom, what string) string {
	if n := d.count(s); n > 0 {
		return fmt.Sprintf("%d of %d failed rollouts %s", n, len(d.failures), what)
	}
	return ""
}

// because joins evidence and consequence to a hypothesis.
func because(evidence, change string) string {
	if evidence == "" {
		return "no failed rollout speaks for it yet, to explore: " + change
	}
	return evidence + ": " + change
}

// movesOf lists all moves of all operators on a source.
func movesOf(c *source, d *diagnosis) []move {
	var all []move
	for rank, op := range operators() {
		if _, ok := op.(prompter); d.promptsOnly && !ok {
			continue
		}
		for _, m := range op.moves(c, d) {
			m.rank = rank
			all = append(all, m)
		}
	}
	return all
}
