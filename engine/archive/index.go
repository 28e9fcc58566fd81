package archive

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// indexSuffix names the list beside a trajectory file: a line for each rollout, so that
// many can be searched without unpacking any.
const indexSuffix = ".tsv"

// indexHead is the first line of a list.
const indexHead = "index\ttask\tsample\tharness\toutcome\tverdict\treward\tturns\ttools\tsampled\tprompt\tphase\n"

// Rollout is one line of a list.
type Rollout struct {
	File    string             `json:"file"`  // of the unit; with Index it finds the trajectory
	Index   int                `json:"index"` // from 0
	Task    engine.TaskID      `json:"task"`
	Sample  int                `json:"sample"`
	Harness engine.HarnessID   `json:"harness"`
	Outcome engine.Outcome     `json:"outcome"`
	Verdict engine.VerdictKind `json:"verdict"`
	Reward  float64            `json:"reward"`
	Turns   int                `json:"turns"`   // calls of the model
	Tools   int                `json:"tools"`   // calls of tools
	Sampled int                `json:"sampled"` // tokens the model wrote
	Prompt  int                `json:"prompt"`  // prompt tokens, cached ones included
	Phase   string             `json:"phase"`
}

// encodeIndex lists rollouts. No times: two runs with the same seed have the same lists.
func encodeIndex(ts []*engine.Trajectory) []byte {
	out := bytes.NewBufferString(indexHead)
	for i, t := range ts {
		fmt.Fprintf(out, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", i, cell(string(t.Task)), t.Sample,
			cell(string(t.Harness)), cell(string(t.Outcome)), cell(string(t.Verdict.Kind)),
			strconv.FormatFloat(t.Verdict.Reward, 'g', -1, 64), len(t.Calls()), len(t.Tools()), t.Cost.Sampled, t.Cost.Prompt, cell(t.Phase))
	}
	return out.Bytes()
}

// cell keeps text inside its column.
func cell(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, s)
}

// parseIndex calls each with the lines of a list that keep wants; the Rollout is only
// valid during the call.
func parseIndex(file, text string, each func(*Rollout)) error {
	rest, ok := strings.CutPrefix(text, indexHead)
	if !ok {
		return errors.New("its columns are others")
	}
	r := Rollout{File: file}
	for n := 0; rest != ""; n++ {
		line, after, whole := strings.Cut(rest, "\n")
		if !whole {
			return fmt.Errorf("line %d is cut", n+2)
		}
		rest = after
		if err := r.parse(line); err != nil {
			return fmt.Errorf("line %d: %w", n+2, err)
		}
		if r.Index != n {
			return fmt.Errorf("line %d: is of rollout %d", n+2, r.Index)
		}
		each(&r)
	}
	return nil
}

// parse reads a line. The texts stay part of it.
func (r *Rollout) parse(line string) error {
	var err error
	next := func() string {
		column, after, _ := strings.Cut(line, "\t")
		line = after
		return column
	}
	number := func(to *int) {
		n, e := strconv.Atoi(next())
		if *to = n; e != nil && err == nil {
			err = e
		}
	}
	if strings.Count(line, "\t") != strings.Count(indexHead, "\t") {
		return fmt.Errorf("has %d columns", strings.Count(line, "\t")+1)
	}
	number(&r.Index)
	r.Task = engine.TaskID(next())
	number(&r.Sample)
	r.Harness = engine.HarnessID(next())
	r.Outcome = engine.Outcome(next())
	r.Verdict = engine.VerdictKind(next())
	reward, e := strconv.ParseFloat(next(), 64)
	if r.Reward = reward; e != nil {
		err = e
	}
	for _, to := range []*int{&r.Turns, &r.Tools, &r.Sampled, &r.Prompt} {
		number(to)
	}
	r.Phase = next()
	return err
}

// Rollouts lists the run's rollouts that keep wants, in the order they were made. keep
// must not hold on to its argument.
func (r *Reader) Rollouts(keep func(*Rollout) bool) ([]Rollout, error) {
	var found []Rollout
	for _, rec := range r.records {
		if rec.File == "" {
			continue
		}
		err := r.list(rec.File, func(x *Rollout) {
			if keep(x) {
				found = append(found, *x)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// List lists the rollouts of one unit's file, which never change once it is committed.
func (r *Reader) List(file string) ([]Rollout, error) {
	var all []Rollout
	err := r.list(file, func(x *Rollout) { all = append(all, *x) })
	return all, err
}

func (r *Reader) list(file string, each func(*Rollout)) error {
	text, err := os.ReadFile(r.path("trajectories", file+indexSuffix))
	if errors.Is(err, os.ErrNotExist) { // a run of a version that wrote no lists
		var ts []*engine.Trajectory
		if ts, err = r.Trajectories(file); err == nil {
			text = encodeIndex(ts)
		}
	}
	if err == nil {
		err = parseIndex(file, string(text), each)
	}
	return engine.Fail(engine.AtArchive, file+indexSuffix, err)
}
