package engine

// Store keeps a run. Package archive keeps it in a folder. What a method wrote is on
// disk when it returns; what no committed record points to does not exist.
type Store interface {
	Front
	Journal
	Library
	Shelf
	Vault
	Desk
}

// Front is where a run is opened and closed.
type Front interface {
	// Begin writes down what is run or, when the store already has a run, refuses a
	// different one.
	Begin(m Manifest) error
	// PutSummary publishes the result.
	PutSummary(s *Summary) error
}

// Journal is the list of finished units.
type Journal interface {
	// Records returns what is committed, in order.
	Records() []Record
	// Commit makes a unit final. All it points to has been put before.
	Commit(r Record) error
	// Rewind forgets all but the first n records and whatever only the others point to.
	Rewind(n int) error
}

// Library keeps the sources of harnesses by their id.
type Library interface {
	PutHarness(h Harness) error
	Harness(id HarnessID) (Harness, error)
}

// Shelf keeps trajectories, a file for each unit.
type Shelf interface {
	PutTrajectories(file string, ts []*Trajectory) error
	Trajectories(file string) ([]*Trajectory, error)
}

// Vault keeps weights with their optimizer state.
type Vault interface {
	// SaveWeights lets save write into a fresh folder, publishes it and returns its name.
	SaveWeights(save func(dir string) (WeightsID, error)) (folder string, id WeightsID, err error)
	// WeightsDir is the path of a published folder.
	WeightsDir(folder string) string
	// Prune removes all folders but these.
	Prune(keep []string) error
}

// Desk is the proposer's workplace: plain files about the search so far.
type Desk interface {
	// Folder is the path that a proposer may read.
	Folder() string
	// PutIteration lays out one iteration of the search.
	PutIteration(n IterationNote) error
}

// IterationNote is what a proposer may know about an iteration. The trajectories are on
// select tasks; reference answers are not in them.
type IterationNote struct {
	Cycle     int
	Index     int
	Incumbent HarnessID // after the iteration
	Search    Search
	Rollouts  []*Trajectory
}

// Manifest says what a run is: the settings and, by hash, all that the settings only
// name.
type Manifest struct {
	Config  Config    `json:"config"`
	Weights WeightsID `json:"weights"` // at the start
	Harness HarnessID `json:"harness"` // h0
	// Splits are hashes of the task ids, so that a run can't go on with other tasks.
	Train  string `json:"train"`
	Select string `json:"select"`
	Test   string `json:"test"`
}
