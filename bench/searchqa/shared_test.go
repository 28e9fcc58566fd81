package searchqa

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench/jsonl"
	"github.com/seed-7c27e6b8/whale/bench/searchqa/bm25"
	"github.com/seed-7c27e6b8/whale/engine"
)

// indexes is a cache folder that the tests share: the real corpus is indexed once.
var indexes string

func TestMain(m *testing.M) {
	var err error
	if indexes, err = os.MkdirTemp("", "searchqa-*"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(indexes); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// shared is the folder of real questions and passages that lies beside some checkouts.
func shared(t testing.TB) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "data", "qa")
	if _, err := os.Stat(filepath.Join(dir, "corpus.jsonl.gz")); err != nil {
		t.Skipf("SKIPPED, no real questions here: %v", err)
	}
	return dir
}

// How often the ten best passages for a question hold one, or all, of those with its
// evidence: the figures of shared/data/README.md, which say "about", over train and test.
func TestEvidence(t *testing.T) {
	dir := shared(t)
	index, _, err := openCorpus(dir, indexes)
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	for _, c := range []struct {
		benchmark string
		one       [2]float64 // from, to
		all       float64    // 0 = no figure
	}{
		{"hotpotqa", [2]float64{0.98, 0.98}, 0.65},
		{"2wikimultihopqa", [2]float64{1, 1}, 0.4},
		{"musique", [2]float64{0.9, 0.95}, 0.2},
		{"nq", [2]float64{0.84, 0.84}, 0},
		{"triviaqa", [2]float64{0.97, 0.97}, 0},
		{"popqa", [2]float64{0.94, 0.94}, 0},
		{"bamboogle", [2]float64{0.5, 0.5}, 0},
	} {
		one, all, n := evidence(t, dir, index, c.benchmark)
		t.Logf("%s: one %.3f, all %.3f of %.0f", c.benchmark, one/n, all/n, n)
		if one/n < c.one[0]-0.02 || one/n > c.one[1]+0.02 {
			t.Errorf("%s: a passage is found for %.3f of %.0f questions, want %v", c.benchmark, one/n, n, c.one)
		}
		if c.all > 0 && (all/n < c.all-0.05 || all/n > c.all+0.05) {
			t.Errorf("%s: all passages are found for %.3f of %.0f questions, want %.2f", c.benchmark, all/n, n, c.all)
		}
	}
}

// evidence counts the questions of a benchmark and those for which ten passages hold one
// or all of the gold ones.
func evidence(t *testing.T, dir string, index *bm25.Index, benchmark string) (one, all, n float64) {
	t.Helper()
	for _, split := range []string{"_train", "_test"} {
		path := filepath.Join(dir, benchmark+split+".jsonl")
		if _, err := os.Stat(path); err != nil {
			continue
		}
		err := jsonl.File(path, maxLine, func(_ int, line []byte) {
			var row struct {
				Question string
				Metadata struct {
					Gold []string `json:"gold_ids"`
				}
			}
			if err := json.Unmarshal(line, &row); err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, hit := range index.Search(row.Question, 10) {
				found = append(found, index.Passage(hit.Passage).ID)
			}
			if len(row.Metadata.Gold) == 0 {
				return // about half of bamboogle: nothing in the corpus answers it
			}
			n++
			hits := 0
			for _, gold := range row.Metadata.Gold {
				if slices.Contains(found, gold) {
					hits++
				}
			}
			if hits > 0 {
				one++
			}
			if hits == len(row.Metadata.Gold) {
				all++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return one, all, n
}

// The real files: every row is good, the splits have their sizes and share nothing.
func TestRealFolder(t *testing.T) {
	d, reports, err := Open(shared(t), Options{Cache: indexes})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		t.Log(r)
		if len(r.Bad) > 0 || r.Repaired > 0 || r.Note != "" {
			t.Errorf("%v", r)
		}
	}
	if len(d.Test) != 7*36 || len(d.Select) != 64 || len(d.Train) != 170+90+300+1500-64 {
		t.Errorf("%d test, %d select, %d train", len(d.Test), len(d.Select), len(d.Train))
	}
	seen := map[string]bool{}
	for _, task := range slices.Concat(d.Test, d.Select, d.Train) {
		if key := letters(task.Input); seen[key] {
			t.Errorf("%q comes twice", task.Input)
		} else {
			seen[key] = true
		}
	}
	all, again, err := Open(shared(t), Options{Cache: indexes, Test: All})
	if err != nil || len(all.Test) != 1954 || again[len(again)-1].Good != 24787 {
		t.Errorf("%d test questions, %v, %v", len(all.Test), again, err)
	}
	for _, task := range all.Test {
		w := all.World.(*world)
		for _, golden := range w.questions[task.ID].golden {
			v := judged(t, all, task, "<answer>"+golden+"</answer>")
			if v.Kind != engine.Equal {
				t.Errorf("%q does not match itself: %+v", golden, v)
			}
		}
	}
}

func judged(t testing.TB, d *engine.Domain, task engine.Task, text string) engine.Verdict {
	t.Helper()
	v, err := d.World.Verify(task, &engine.Trajectory{Events: []engine.Event{{Call: &engine.Call{Handle: 1, Text: text}}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func BenchmarkBuild(b *testing.B) {
	path := filepath.Join(shared(b), "corpus.jsonl.gz")
	for b.Loop() {
		passages, n, err := readCorpus(path)
		if err != nil || n.Good == 0 {
			b.Fatal(err)
		}
		data, err := bm25.Build(bm25.Key{}, nil, passages)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(data))/1e6, "MB")
	}
}
