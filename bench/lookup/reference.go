package lookup

import "github.com/seed-7c27e6b8/whale/engine"

var _ engine.Keeper = (*liveWorld)(nil)

// References tells the fact that a question asks for.
func (w *liveWorld) References(task engine.Task) []string { return []string{w.answers[task.ID]} }
