package export

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/seed-7c27e6b8/whale/engine"
)

func call(handle int, prompt, sampled []int32) engine.Event {
	c := &engine.Call{Handle: handle, Prompt: prompt, Sampled: sampled, Stop: engine.StopEnd}
	for i := range sampled {
		c.LogProbs = append(c.LogProbs, -float32(handle)-float32(i)/10)
	}
	return engine.Event{Call: c}
}

// grown is a rollout of two turns whose context only grows; rewritten is one that begins anew.
func grown() *engine.Trajectory {
	return &engine.Trajectory{Task: "t1", Harness: "h1", Weights: "w1", Phase: "train/3", Sample: 2, Seed: 1<<63 + 7,
		Outcome: engine.Scored, Verdict: engine.Verdict{Kind: engine.Equal, Reward: 1, Answer: "naïve, \"quoted\"\n"},
		Events: []engine.Event{call(1, []int32{10, 11}, []int32{20, 21}),
			{Tool: &engine.ToolUse{Name: "search"}},
			call(2, []int32{10, 11, 20, 21, 30}, []int32{22})}}
}

func rewritten() *engine.Trajectory {
	t := grown()
	t.Outcome, t.Verdict = engine.Invalid, engine.Verdict{}
	t.Events[2] = call(2, []int32{10, 31}, []int32{22})
	return t
}

func TestRows(t *testing.T) {
	rows := Rows("step-3", 5, grown())
	want := []Row{{File: "step-3", Index: 5, Phase: "train/3", Task: "t1", Sample: 2, Seed: 1<<63 + 7, Weights: "w1", Harness: "h1",
		Outcome: "scored", Verdict: "equal", Reward: 1, Answer: "naïve, \"quoted\"\n", Turns: 2, Tools: 1,
		IDs:      []int32{10, 11, 20, 21, 30, 22},
		Mask:     []bool{false, false, true, true, false, true},
		LogProbs: []float32{0, 0, -1, -1.1, 0, -2}}}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("got  %+v\nwant %+v", rows, want)
	}
	two := Rows("step-3", 6, rewritten())
	if len(two) != 2 || two[1].Sequence != 1 || !reflect.DeepEqual(two[1].IDs, []int32{10, 31, 22}) {
		t.Errorf("got %+v", two)
	}
	if got := Rows("step-3", 7, &engine.Trajectory{Outcome: engine.Infra}); got != nil {
		t.Errorf("a rollout without calls has %+v", got)
	}
	silent := grown()
	silent.Events[0].Call.LogProbs, silent.Events[2].Call.LogProbs = nil, nil
	if got := Rows("step-3", 8, silent); len(got) != 1 || len(got[0].LogProbs) != 6 {
		t.Errorf("without log-probs: %+v", got)
	}
}

// many are more rows than one group holds, of all lengths.
func many() []Row {
	random := rand.New(rand.NewPCG(1, 2))
	var rows []Row
	for i := range rowsPerGroup + 100 {
		r := Rows("step-3", i, grown())[0]
		n := random.IntN(9)
		r.IDs, r.Mask, r.LogProbs = make([]int32, n), make([]bool, n), make([]float32, n)
		for j := range n {
			r.IDs[j], r.Mask[j], r.LogProbs[j] = random.Int32(), random.IntN(2) == 0, -random.Float32()
		}
		rows = append(rows, r)
	}
	return rows
}

func TestParquetComesBack(t *testing.T) {
	rows := many()
	var b bytes.Buffer
	w := NewParquet(&b)
	for from := 0; from < len(rows); from += 300 {
		if err := w.Write(rows[from:min(from+300, len(rows))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[Row](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, rows)
}

func TestJSONLComesBack(t *testing.T) {
	rows := many()[:50]
	var b bytes.Buffer
	w := NewJSONL(&b)
	if err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var got []Row
	for decoder := json.NewDecoder(&b); decoder.More(); {
		var r Row
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	same(t, got, rows)
}

func same(t *testing.T, got, want []Row) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		a, b := got[i], want[i]
		if len(a.IDs) == 0 && len(b.IDs) == 0 { // no elements is no list to a reader
			a.IDs, a.Mask, a.LogProbs, b.IDs, b.Mask, b.LogProbs = nil, nil, nil, nil, nil, nil
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("row %d: got %+v, want %+v", i, a, b)
		}
	}
}
