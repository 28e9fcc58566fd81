// Package export writes the rollouts of a run as rows that data tools read: JSON lines, or
// parquet for pandas, DuckDB and the like.
//
// A row is one sequence as the weight phase packs it: a rollout whose context only grows
// is one row, one that rewrites its history is several. It knows the engine's nouns and
// no archive; whoever calls it hands rollouts over file by file, so that a large run never
// stands in memory as a whole.
//
// Not covered: reference answers, which no trajectory has; samples that a harness drew
// beside others and dropped, which are not trained on either and stay in the archive.
package export

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Row is one sequence of a rollout. IDs, Mask and LogProbs are equally long.
type Row struct {
	File     string    `json:"file" parquet:"file,dict"`       // the unit's file in the archive; with Index it finds the rollout
	Index    int64     `json:"index" parquet:"index"`          // from 0
	Sequence int32     `json:"sequence" parquet:"sequence"`    // from 0 in its rollout
	Phase    string    `json:"phase" parquet:"phase,dict"`     // train/STEP, select/..., measure/...
	Task     string    `json:"task" parquet:"task,dict"`       // task id
	Sample   int32     `json:"sample" parquet:"sample"`        // from 0
	Seed     uint64    `json:"seed" parquet:"seed"`            // of the rollout's randomness
	Weights  string    `json:"weights" parquet:"weights,dict"` // id of the weights that sampled
	Harness  string    `json:"harness" parquet:"harness,dict"` // id of the harness
	Outcome  string    `json:"outcome" parquet:"outcome,dict"` // scored, invalid or infra
	Verdict  string    `json:"verdict" parquet:"verdict,dict"` // equal, different, unparsed; empty = not judged
	Reward   float64   `json:"reward" parquet:"reward"`        // in [0,1]; says nothing when the outcome is infra
	Answer   string    `json:"answer" parquet:"answer"`        // as the verifier read it
	Turns    int32     `json:"turns" parquet:"turns"`          // calls of the model in the rollout
	Tools    int32     `json:"tools" parquet:"tools"`          // calls of tools in the rollout
	IDs      []int32   `json:"ids" parquet:"ids,list"`
	Mask     []bool    `json:"mask" parquet:"mask,list"`         // true = the model sampled it: the loss is on these
	LogProbs []float32 `json:"logprobs" parquet:"logprobs,list"` // of sampled ids when they were drawn; 0 elsewhere
}

// Rows are the sequences of one rollout. One without any call has no row.
func Rows(file string, index int, t *engine.Trajectory) []Row {
	head := Row{File: file, Index: int64(index), Turns: int32(len(t.Calls())), Tools: int32(len(t.Tools())), Phase: t.Phase, Task: string(t.Task), Sample: int32(t.Sample), Seed: t.Seed,
		Weights: string(t.Weights), Harness: string(t.Harness), Outcome: string(t.Outcome), Verdict: string(t.Verdict.Kind),
		Reward: t.Verdict.Reward, Answer: t.Verdict.Answer}
	var rows []Row
	for i, s := range engine.Sequences(t) {
		r := head
		r.Sequence, r.IDs = int32(i), s.IDs
		r.Mask, r.LogProbs = make([]bool, len(s.IDs)), make([]float32, len(s.IDs))
		next := 0
		for _, span := range s.Sampled {
			for at := span.From; at < span.To; at++ {
				r.Mask[at] = true
				if next < len(s.LogProbs) { // an endpoint may not have told them
					r.LogProbs[at] = s.LogProbs[next]
				}
				next++
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// Writer takes rows; Close finishes the file, without closing what is below.
type Writer interface {
	Write(rows []Row) error
	Close() error
}

// JSONL writes a row a line.
type JSONL struct {
	out     *bufio.Writer
	encoder *json.Encoder
}

// NewJSONL writes to w.
func NewJSONL(w io.Writer) *JSONL {
	out := bufio.NewWriterSize(w, 1<<16)
	return &JSONL{out, json.NewEncoder(out)}
}

// Write appends rows.
func (j *JSONL) Write(rows []Row) error {
	for i := range rows {
		if err := j.encoder.Encode(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// Close writes what is buffered.
func (j *JSONL) Close() error { return j.out.Flush() }
