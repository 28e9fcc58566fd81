package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/ledger"
)

// Archive is a run folder that this process works on. It is an engine.Store.
type Archive struct {
	*Reader
	disk    disk
	lock    *os.File
	journal *log
	ledger  *log
}

var _ engine.Store = (*Archive)(nil)

var folders = []string{"harnesses", "trajectories", "weights", "cycles"}

// Open takes a run folder for this process, making it when it does not exist. It refuses
// a folder that another process works on (ErrInUse), that another version wrote
// (ErrFormat), or that holds something else (ErrNoRun).
func Open(dir string) (*Archive, error) {
	a, err := open(dir, realDisk())
	if err != nil {
		return nil, engine.Fail(engine.AtArchive, dir, err)
	}
	return a, nil
}

func open(dir string, d disk) (_ *Archive, err error) {
	if err := refuseForeign(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	a := &Archive{disk: d}
	if a.lock, err = lock(filepath.Join(dir, "lock")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.Reader, err = read(dir); err != nil {
		return nil, err
	}
	if err := a.refuseLost(); err != nil {
		return nil, err
	}
	for _, f := range folders {
		if err := os.MkdirAll(a.path(f), 0o755); err != nil {
			return nil, err
		}
	}
	if a.ledger, err = openLog(d, a.path("ledger.jsonl"), last(a.costs)); err != nil {
		return nil, err
	}
	a.journal, err = openLog(d, a.path("journal.jsonl"), last(a.ends))
	return a, err
}

// refuseForeign protects a folder with other things in it.
func refuseForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ours := append([]string{"lock", "journal.jsonl", "ledger.jsonl"}, folders...)
	for _, e := range entries {
		if e.Name() == "run.yaml" {
			return nil
		}
	}
	for _, e := range entries { // a kill before run.yaml leaves only these
		if !slices.Contains(ours, e.Name()) && !strings.HasPrefix(e.Name(), temporary) {
			return fmt.Errorf("%w: it has no run.yaml, but %s", ErrNoRun, e.Name())
		}
	}
	return nil
}

// refuseLost protects rollouts whose journal is gone: they are written after its first
// record, and a run that begins removes what no record points to.
func (a *Archive) refuseLost() error {
	if len(a.records) > 0 {
		return nil
	}
	entries, err := os.ReadDir(a.path("trajectories"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), temporary) {
			return fmt.Errorf("%w: journal.jsonl has no record, but there are rollouts, such as trajectories/%s", ErrNoRun, e.Name())
		}
	}
	return err
}

func last(ends []int64) int64 {
	if len(ends) == 0 {
		return 0
	}
	return ends[len(ends)-1]
}

// Close gives the folder back.
func (a *Archive) Close() error {
	var errs []error
	for _, l := range []*log{a.journal, a.ledger} {
		if l != nil {
			errs = append(errs, l.file.Close())
		}
	}
	return errors.Join(append(errs, a.lock.Close())...)
}

// Begin writes run.yaml or, when there is one, refuses a different run (ErrOther). A
// budget that has grown is written down.
func (a *Archive) Begin(m engine.Manifest) error {
	if a.manifest == nil {
		return a.putManifest(m)
	}
	if err := sameRun(*a.manifest, m); err != nil {
		return a.hint(err)
	}
	grown := *a.manifest
	grown.Config = grown.Config.WithBudget(m.Config)
	if grown == *a.manifest {
		return nil
	}
	return a.putManifest(grown)
}

func (a *Archive) putManifest(m engine.Manifest) error {
	text, err := yaml.Marshal(runFile{Format, m})
	if err != nil {
		return err
	}
	if back, err := parseManifest(text); err != nil {
		return err
	} else if err := sameRun(*back, m); err != nil {
		return fmt.Errorf("run.yaml does not read back: %w", err) // a mistake of ours
	}
	if err := a.disk.put(a.path("run.yaml"), text); err != nil {
		return err
	}
	a.manifest = &m
	return nil
}

// hint says of a difference that it is in a setting that run.yaml does not have.
func (a *Archive) hint(err error) error {
	var d *engine.Difference
	if errors.As(err, &d) && slices.Contains(a.absent, d.Setting) {
		return fmt.Errorf("%w; run.yaml has no line `%s:`, which stands for its default", err, d.Setting)
	}
	return err
}

func sameRun(there, here engine.Manifest) error {
	if err := there.Config.Same(here.Config); err != nil {
		return fmt.Errorf("%w: %w", ErrOther, err)
	}
	for _, p := range []struct{ name, there, here string }{
		{"start weights", string(there.Weights), string(here.Weights)},
		{"seed harness", string(there.Harness), string(here.Harness)},
		{"train tasks", there.Train, here.Train},
		{"select tasks", there.Select, here.Select},
		{"test tasks", there.Test, here.Test},
	} {
		if p.there == "" && p.here != "" {
			return fmt.Errorf("%w: run.yaml does not say which %s it began with, now %s", ErrOther, p.name, p.here)
		}
		if p.there != p.here {
			return fmt.Errorf("%w: %s were %s, now %s", ErrOther, p.name, p.there, p.here)
		}
	}
	return nil
}

// PutSummary publishes summary.json.
func (a *Archive) PutSummary(s *engine.Summary) error {
	return a.putJSON(a.path("summary.json"), s)
}

func (a *Archive) putJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return a.disk.put(path, append(text, '\n'))
}

// Commit appends the record's cost to the ledger, then the record to the journal.
func (a *Archive) Commit(r engine.Record) error {
	if r.Seq != len(a.records) {
		return fmt.Errorf("record %d after %d", r.Seq, len(a.records))
	}
	line := ledger.NewLine(r)
	cost, err := line.Encode()
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := a.ledger.append(cost); err != nil {
		return err
	}
	if err := a.journal.append(append(text, '\n')); err != nil {
		return errors.Join(err, a.ledger.cut(last(a.costs)))
	}
	a.records, a.lines = append(a.records, r), append(a.lines, line)
	a.ends, a.costs = append(a.ends, a.journal.size), append(a.costs, a.ledger.size)
	return nil
}

// Rewind cuts the journal to n records and removes what only others point to.
func (a *Archive) Rewind(n int) error {
	a.records, a.lines, a.ends, a.costs = a.records[:n], a.lines[:n], a.ends[:n], a.costs[:n]
	if err := a.journal.cut(last(a.ends)); err != nil {
		return err
	}
	if err := a.ledger.cut(last(a.costs)); err != nil {
		return err
	}
	return a.sweep()
}

// PutTrajectories publishes a unit's rollouts and their list.
func (a *Archive) PutTrajectories(file string, ts []*engine.Trajectory) error {
	content, err := encodeTrajectories(ts)
	if err != nil {
		return err
	}
	if err := a.disk.put(a.path("trajectories", file+trajectorySuffix), content); err != nil {
		return err
	}
	return a.disk.put(a.path("trajectories", file+indexSuffix), encodeIndex(ts))
}

// PutHarness publishes a harness. One that is there already keeps its meta data: they
// say where it came from first.
func (a *Archive) PutHarness(h engine.Harness) error {
	path := a.path("harnesses", string(h.ID))
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	temp, err := a.fresh("harnesses", string(h.ID))
	if err != nil {
		return err
	}
	meta, err := json.MarshalIndent(h.Meta, "", "  ")
	if err != nil {
		return err
	}
	if err := a.disk.create(filepath.Join(temp, "harness.go"), []byte(h.Source)); err != nil {
		return err
	}
	if err := a.disk.create(filepath.Join(temp, "meta.json"), append(meta, '\n')); err != nil {
		return err
	}
	return a.disk.publish(temp, path)
}

// fresh makes an empty folder beside the one it will be published as.
func (a *Archive) fresh(parent, name string) (string, error) {
	temp := a.path(parent, temporary+name)
	if err := a.disk.remove(temp); err != nil {
		return "", err
	}
	return temp, os.Mkdir(temp, 0o755)
}

// SaveWeights publishes what save writes. The folder is named by the weights' id; if
// that is taken (the same weights with another optimizer state) by the id and a number.
func (a *Archive) SaveWeights(save func(dir string) (engine.WeightsID, error)) (string, engine.WeightsID, error) {
	temp, err := a.fresh("weights", "saving")
	if err != nil {
		return "", "", err
	}
	id, err := save(temp)
	if err != nil {
		return "", "", errors.Join(err, os.RemoveAll(temp))
	}
	if id == "" || strings.ContainsAny(string(id), "/.") {
		return "", "", fmt.Errorf("the learner calls its weights %q", id)
	}
	name := string(id)
	for n := 2; ; n++ {
		if _, err := os.Stat(a.WeightsDir(name)); errors.Is(err, os.ErrNotExist) {
			break
		} else if err != nil {
			return "", "", err
		}
		name = fmt.Sprintf("%s-%d", id, n)
	}
	return name, id, a.disk.publish(temp, a.WeightsDir(name))
}

// Prune removes all weights but these.
func (a *Archive) Prune(keep []string) error {
	return a.disk.removeExcept(a.path("weights"), keep)
}

// removeExcept empties a folder but for these names.
func (d disk) removeExcept(dir string, keep []string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(keep, e.Name()) {
			if err := d.remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
