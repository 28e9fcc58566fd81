package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// acceptedFile is accepted.json: the harness that is in use, for proposers to start from.
type acceptedFile struct {
	Harness   engine.HarnessID `json:"harness"`
	Cycle     int              `json:"cycle"` // when the latest iteration was
	Iteration int              `json:"iteration"`
	Source    string           `json:"source"` // path in the run folder
}

// history are the iterations of committed records as notes.
func history(records []engine.Record) []engine.IterationNote {
	var notes []engine.IterationNote
	for _, r := range records {
		if r.Search != nil {
			notes = append(notes, engine.IterationNote{Cycle: r.Cycle, Index: r.Index, Incumbent: r.Harness, Search: *r.Search})
		}
	}
	return notes
}

// putOverview writes what tells the whole search so far: accepted.json and evolution.md.
// Both are functions of the iterations, so a resumed run has the same.
func (a *Archive) putOverview(notes []engine.IterationNote) error {
	if len(notes) == 0 {
		for _, name := range []string{"accepted.json", "evolution.md"} {
			if err := os.Remove(a.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	last := notes[len(notes)-1]
	accepted, err := json.MarshalIndent(acceptedFile{last.Incumbent, last.Cycle, last.Index, "harnesses/" + string(last.Incumbent) + "/harness.go"}, "", "  ")
	if err != nil {
		return err
	}
	if err := a.putIfNew(a.path("evolution.md"), evolution(notes)); err != nil {
		return err
	}
	return a.putIfNew(a.path("accepted.json"), append(accepted, '\n'))
}

// putIfNew is put, unless the file already says so.
func (a *Archive) putIfNew(path string, content []byte) error {
	there, err := os.ReadFile(path)
	if err == nil && bytes.Equal(there, content) {
		return nil
	}
	return a.disk.put(path, content)
}

// evolution is the summary of a search as a table: a row for each harness that was
// evaluated or refused, oldest first.
func evolution(notes []engine.IterationNote) []byte {
	var out bytes.Buffer
	out.WriteString("# Search so far\n\nMeans are over the select tasks; gain and p are of the paired comparison with the incumbent of that time.\n" +
		"Sources are in harnesses/ID, rollouts of an iteration in cycles/NN/iteration-II.\n\n" +
		"| iteration | harness | what | mean | gain | p | parents | axis | hypothesis |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	row := func(n engine.IterationNote, h engine.Harness, what, mean, gain, p string) {
		var parents []string
		for _, id := range h.Meta.Parents {
			parents = append(parents, string(id))
		}
		fmt.Fprintf(&out, "| %d.%d | %s | %s | %s | %s | %s | %s | %s | %s |\n", n.Cycle, n.Index, h.ID, markdown(what), mean, gain, p,
			strings.Join(parents, " "), markdown(h.Meta.Axis), markdown(h.Meta.Hypothesis))
	}
	for _, n := range notes {
		if n.Search.Failed != "" {
			fmt.Fprintf(&out, "| %d.%d | | proposer failed: %s | | | | | | |\n", n.Cycle, n.Index, markdown(n.Search.Failed))
		}
		for i, e := range n.Search.Evaluated {
			what, gain, p := "evaluated", "", ""
			if i < len(n.Search.Compared) {
				gain, p = fmt.Sprintf("%+.3f", n.Search.Compared[i].Gain), fmt.Sprintf("%.3f", n.Search.Compared[i].P)
			}
			switch {
			case n.Index == 1:
				what = "incumbent"
			case e.Accepted:
				what = "accepted"
			}
			row(n, e.Harness, what, fmt.Sprintf("%.3f [%.3f, %.3f]", e.Score.Mean, e.Score.Lo, e.Score.Hi), gain, p)
		}
		for _, r := range n.Search.Rejected {
			row(n, r.Harness, "refused, "+r.Err.Rule+": "+r.Err.Reason, "", "", "")
		}
	}
	return out.Bytes()
}

// markdown keeps foreign text inside a table's cell.
func markdown(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}
