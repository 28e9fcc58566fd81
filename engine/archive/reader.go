package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/ledger"
)

// Errors when opening a folder.
var (
	ErrFormat = errors.New("run folder has another format")
	ErrNoRun  = errors.New("not a run folder")
	ErrInUse  = errors.New("another process works on this run")
	ErrOther  = errors.New("run folder belongs to another run")
	// ErrSettings: run.yaml is there, but a line of it is not as a run writes it.
	ErrSettings = errors.New("the run's settings can't be read")
)

// Reader reads a run folder, also while a run is writing it: it sees what was committed
// when it was opened.
type Reader struct {
	dir      string
	manifest *engine.Manifest // nil = no run yet
	absent   []string         // settings that run.yaml does not have: they are what they are by default
	records  []engine.Record
	lines    []ledger.Line
	ends     []int64 // ends[i] = bytes of the journal up to and with record i
	costs    []int64 // the same of the ledger
}

// Read opens a folder for reading.
func Read(dir string) (*Reader, error) {
	r, err := read(dir)
	if err == nil && r.manifest == nil {
		err = ErrNoRun
	}
	if err != nil {
		return nil, engine.Fail(engine.AtArchive, dir, err)
	}
	return r, nil
}

// read loads what is there; an absent run is no error.
func read(dir string) (*Reader, error) {
	r := &Reader{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, "run.yaml"))
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if r.manifest, err = parseManifest(text); err != nil {
		return nil, err
	}
	r.absent = absent(text)
	return r, r.readJournal()
}

// readJournal reads journal and ledger up to the last whole line of the journal. The
// ledger's line is written first, so it may be one ahead.
func (r *Reader) readJournal() error {
	text, err := readIfThere(filepath.Join(r.dir, "journal.jsonl"))
	if err != nil {
		return err
	}
	if r.records, r.ends, err = parseJournal(text); err != nil {
		return err
	}
	text, err = readIfThere(filepath.Join(r.dir, "ledger.jsonl"))
	if err != nil {
		return err
	}
	lines, _, err := ledger.Parse(text)
	if err != nil {
		return err
	}
	if len(lines) < len(r.records) {
		return fmt.Errorf("ledger has %d lines for %d records of the journal", len(lines), len(r.records))
	}
	r.lines = lines[:len(r.records)]
	end := int64(0)
	for i := range r.lines {
		end += int64(bytes.IndexByte(text[end:], '\n')) + 1
		r.costs = append(r.costs, end)
		r.records[i].Spending = r.lines[i].Spending
	}
	return nil
}

// parseJournal reads records. A last line without a line feed was cut by a kill and is
// left out. Any other damage is an error with its line.
func parseJournal(text []byte) (records []engine.Record, ends []int64, err error) {
	for from := 0; ; {
		n := bytes.IndexByte(text[from:], '\n')
		if n < 0 {
			return records, ends, nil
		}
		var rec engine.Record
		if err := json.Unmarshal(text[from:from+n], &rec); err != nil {
			return nil, nil, fmt.Errorf("journal line %d: %w", len(records)+1, err)
		}
		if err := complete(rec, len(records)); err != nil {
			return nil, nil, fmt.Errorf("journal line %d: %w", len(records)+1, err)
		}
		from += n + 1
		records, ends = append(records, rec), append(ends, int64(from))
	}
}

// complete refuses records that can't be replayed.
func complete(r engine.Record, seq int) error {
	ok := map[engine.RecordKind]bool{
		engine.StartRecord:   seq == 0,
		engine.StepRecord:    seq > 0 && r.Step != nil,
		engine.SearchRecord:  seq > 0 && r.Search != nil,
		engine.MeasureRecord: seq > 0 && r.Measure != nil,
	}
	if r.Seq != seq || !ok[r.Kind] {
		return fmt.Errorf("record %d of kind %q does not belong here", r.Seq, r.Kind)
	}
	return nil
}

func readIfThere(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// Manifest says what the run is.
func (r *Reader) Manifest() engine.Manifest { return *r.manifest }

// Records returns the journal, with what each unit cost.
func (r *Reader) Records() []engine.Record { return r.records }

// Ledger returns what each record cost.
func (r *Reader) Ledger() []ledger.Line { return r.lines }

// Summary reads summary.json; os.ErrNotExist when the run has not finished.
func (r *Reader) Summary() (*engine.Summary, error) {
	text, err := os.ReadFile(r.path("summary.json"))
	if err != nil {
		return nil, err
	}
	var s engine.Summary
	return &s, json.Unmarshal(text, &s)
}

// Harness reads a harness with its source, which must still hash to its id.
func (r *Reader) Harness(id engine.HarnessID) (engine.Harness, error) {
	source, err := os.ReadFile(r.path("harnesses", string(id), "harness.go"))
	if err != nil {
		return engine.Harness{}, err
	}
	text, err := os.ReadFile(r.path("harnesses", string(id), "meta.json"))
	if err != nil {
		return engine.Harness{}, err
	}
	var meta engine.Meta
	if err := json.Unmarshal(text, &meta); err != nil {
		return engine.Harness{}, fmt.Errorf("meta.json: %w", err)
	}
	h := engine.NewHarness(string(source), meta)
	if h.ID != id {
		return engine.Harness{}, fmt.Errorf("harness.go was changed: it now is %s", h.ID)
	}
	return h, nil
}

// Trajectories reads a unit's rollouts.
func (r *Reader) Trajectories(file string) ([]*engine.Trajectory, error) {
	f, err := os.Open(r.path("trajectories", file+trajectorySuffix))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadTrajectories(f)
}

// WeightsDir is the path of a published folder of weights.
func (r *Reader) WeightsDir(folder string) string { return r.path("weights", folder) }

// Folder is the run folder.
func (r *Reader) Folder() string { return r.dir }

func (r *Reader) path(parts ...string) string {
	return filepath.Join(append([]string{r.dir}, parts...)...)
}
