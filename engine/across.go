package engine

import "math"

// Across is the mean over runs that differ in their seed only, with Student's 95 %
// interval over the runs, cut to [0,1]: it holds both what a seed changes in training and
// the noise of testing. One run says nothing about the spread: its interval is its own.
func Across(runs []Interval) Interval {
	if len(runs) == 1 {
		return runs[0]
	}
	var out Interval
	var means []float64
	for _, r := range runs {
		if r.N > 0 {
			means = append(means, r.Mean)
			out.N += r.N
		}
	}
	out.Mean, out.Hi = mean(means), 1
	if len(means) > 1 {
		half := student(len(means)-1) * math.Sqrt(variance(means)/float64(len(means)))
		out.Lo, out.Hi = max(0, out.Mean-half), min(1, out.Mean+half)
	}
	return out
}
