package report

import "github.com/seed-7c27e6b8/whale/engine"

// Run is everything that the table and the page show. Read fills it from an archive.
type Run struct {
	Name    string // for messages
	Folder  string // where the run lies
	Command string // what reproduces it; may be empty
	Config  engine.Config
	Summary engine.Summary
	// Records are the journal, in order, with their spending from the ledger.
	Records []engine.Record
	// Harnesses are the sources that the records name; a missing one is shown without.
	Harnesses []engine.Harness
	// Transcripts are rollouts worth reading; the page shows the first dozen.
	Transcripts []Transcript
	// Others are runs to compare with in the figure; may be empty.
	Others []Other
	// Decode gives the text of ids, control tokens included. A single id may decode to
	// a part of a character. Nil: the page shows calls without their token ids.
	Decode func(ids []int32) string
	// Live is the bar of the page of a run that goes on; nil = the page stands by itself.
	Live *Bar
}

// Bar is the top of a live page: where one is, and where the run is.
type Bar struct {
	At   string  // the page: run, rollouts, or empty for others
	Now  string  // the run's state in a line
	Done float64 // share of the unit at work that is done, in [0,1]
}

// Transcript is one rollout to show.
type Transcript struct {
	Moment  string // when it was sampled, in words
	Task    engine.Task
	Trained bool // its sampled tokens entered the loss
	Rollout *engine.Trajectory
}

// Other is another run's curve.
type Other struct {
	Name  string // what sets it apart: its condition, mostly
	Curve []engine.CurvePoint
}

// CurveOf is a run's accuracy at its start and after every phase.
func CurveOf(records []engine.Record) []engine.CurvePoint {
	state := engine.Fold(records)
	return state.Curve()
}

// heads are the three points that a run is judged by, with tags; nil = not measured.
type heads struct{ start, best, final *engine.Score }

func headsOf(curve []engine.CurvePoint) heads {
	var h heads
	for i, p := range curve {
		if i == 0 {
			h.start = p.Test
		}
		if p.Best {
			h.best = p.Test
		}
		h.final = p.Test
	}
	return h
}

func (h heads) all() []*engine.Score { return []*engine.Score{h.start, h.best, h.final} }

// k is the number of samples a task, the largest of the three.
func (h heads) k() int {
	k := 0
	for _, s := range h.all() {
		if s != nil {
			k = max(k, s.K)
		}
	}
	return k
}
