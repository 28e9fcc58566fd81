package searchqa

import "github.com/seed-7c27e6b8/whale/engine"

// dataSets are the names of the benchmarks that questions come from.
var dataSets = []string{"NQ", "Natural Questions", "TriviaQA", "PopQA", "HotpotQA", "2WikiMultihopQA", "2Wiki", "MuSiQue", "Bamboogle"}

var _ engine.Keeper = (*world)(nil)

// References tells the golden answers of a question.
func (w *world) References(task engine.Task) []string {
	if q := w.questions[task.ID]; q != nil {
		return q.golden
	}
	return nil
}
