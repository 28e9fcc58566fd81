package engine

// Score is the mean reward over tasks with an interval, and what it rests on.
type Score struct {
	Mean float64 `json:"mean"` // in [0,1], mean over tasks of the mean over samples
	Lo   float64 `json:"lo"`   // 95 % interval, clustered by task
	Hi   float64 `json:"hi"`
	N    int     `json:"n"` // tasks
	K    int     `json:"k"` // samples a task
	// Coverage is the share of rollouts that were not lost to the host (1 - infra).
	Coverage float64 `json:"coverage"`
	Unparsed float64 `json:"unparsed"` // share of counted rollouts without a readable answer
	Invalid  float64 `json:"invalid"`  // share of counted rollouts that ended invalid
	// Tokens sampled per rollout, mean.
	Tokens float64            `json:"tokens"`
	ByTag  map[string]TagMean `json:"by_tag,omitempty"` // for tables only; print in sorted order
}

// TagMean is the mean reward of the tasks with one tag.
type TagMean struct {
	Mean float64 `json:"mean"`
	N    int     `json:"n"`
}
