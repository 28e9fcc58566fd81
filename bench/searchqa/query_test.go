package searchqa

import (
	"slices"
	"testing"
	"time"
)

// Queries are the test questions themselves, the longest that a search gets.
func BenchmarkQuery(b *testing.B) {
	d, _, err := Open(shared(b), Options{Cache: indexes, Test: All})
	if err != nil {
		b.Fatal(err)
	}
	index := d.World.(*world).searcher.(local).index
	var took []time.Duration
	i := 0
	for b.Loop() {
		begin := time.Now()
		index.Search(d.Test[i%len(d.Test)].Input, 10)
		took = append(took, time.Since(begin))
		i++
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
}

func BenchmarkOpenStored(b *testing.B) {
	dir, cache := shared(b), indexes
	for b.Loop() {
		index, _, err := openCorpus(dir, cache)
		if err != nil {
			b.Fatal(err)
		}
		if err := index.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// One verdict, over the real questions: the right answer, a wrong one, a long reply.
func BenchmarkVerdict(b *testing.B) {
	d, _, err := Open(shared(b), Options{Cache: indexes, Test: All})
	if err != nil {
		b.Fatal(err)
	}
	w := d.World.(*world)
	i := 0
	for b.Loop() {
		task := d.Test[i%len(d.Test)]
		golden := w.questions[task.ID].golden
		judged(b, d, task, "I searched for it and the passage names it. <answer>"+golden[i%len(golden)]+"</answer>")
		i++
	}
	b.ReportMetric(1/b.Elapsed().Seconds()*float64(b.N), "verdicts/s")
}
