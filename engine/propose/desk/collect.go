package desk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Note is what a proposer may say about a candidate in meta.json. Everything is optional.
type Note struct {
	Hypothesis string             `json:"hypothesis"`
	Axis       string             `json:"axis"`
	Parents    []engine.HarnessID `json:"parents"`
}

// Bounds on what is read back besides sources.
const (
	maxNote   = 64 << 10 // bytes of meta.json
	maxText   = 2000     // bytes of a hypothesis
	maxListed = 1000     // files and folders looked at in one folder
)

// Collect reads the candidates that a proposer left in its out folder: first the slots in
// order, then what it put elsewhere under out, as far as slots are free. Links, files
// that are too large and sources that are known already are passed over. Only faults of
// the disk are errors.
func (d *Desk) Collect(b engine.Brief, proposer string, maxSource int64) ([]engine.Harness, error) {
	root, err := os.OpenRoot(d.Out)
	if errors.Is(err, os.ErrNotExist) { // a program may have removed it
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	known := map[engine.HarnessID]bool{}
	for _, e := range b.Entries {
		known[e.Harness.ID] = true
	}
	for _, r := range b.Rejected {
		known[r.Harness.ID] = true
	}
	d.passed = nil
	var made []engine.Harness
	for _, file := range sources(root, b.Slots) {
		if len(made) >= b.Slots {
			break
		}
		text, ok := readFile(root, file, maxSource)
		if !ok {
			d.pass(file, fmt.Sprintf("no plain file of UTF-8 with at most %d bytes", maxSource))
			continue
		}
		if strings.TrimSpace(text) == "" {
			d.pass(file, "empty")
			continue
		}
		h := engine.NewHarness(text, meta(readNote(root, path.Dir(file)), b, proposer))
		if known[h.ID] {
			d.pass(file, fmt.Sprintf("known already, as %s", h.ID))
			continue
		}
		known[h.ID] = true
		made = append(made, h)
	}
	return made, nil
}

func (d *Desk) pass(file, why string) {
	d.passed = append(d.passed, fmt.Sprintf("%.100q is %s", file, why))
}

// Passed says which files the last Collect passed over, and why; nil = none.
func (d *Desk) Passed() error {
	if len(d.passed) == 0 {
		return nil
	}
	return errors.New(strings.Join(d.passed[:min(3, len(d.passed))], ", "))
}

// sources lists the files that may be candidates, at most one a folder: harness.go, or
// the only Go file.
func sources(root *os.Root, slots int) []string {
	var folders []string
	for slot := 1; slot <= slots; slot++ {
		folders = append(folders, fmt.Sprint(slot))
	}
	for _, entry := range list(root, ".") {
		if entry.IsDir() && !slices.Contains(folders, entry.Name()) {
			folders = append(folders, entry.Name())
		}
	}
	var files []string
	for _, folder := range folders {
		if file := sourceIn(root, folder); file != "" {
			files = append(files, file)
		}
	}
	for _, entry := range list(root, ".") {
		if strings.HasSuffix(entry.Name(), ".go") {
			files = append(files, entry.Name())
		}
	}
	return files
}

func sourceIn(root *os.Root, folder string) string {
	var found []string
	for _, entry := range list(root, folder) {
		if entry.Name() == "harness.go" {
			return path.Join(folder, "harness.go")
		}
		if strings.HasSuffix(entry.Name(), ".go") && !strings.HasSuffix(entry.Name(), "_test.go") {
			found = append(found, path.Join(folder, entry.Name()))
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return ""
}

// list returns what is in a folder by name; nothing when it can't be read, since the
// program may have left anything there.
func list(root *os.Root, folder string) []fs.DirEntry {
	f, err := root.Open(folder)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, err := f.ReadDir(maxListed)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

// readFile reads a regular file of at most limit bytes of UTF-8.
func readFile(root *os.Root, name string, limit int64) (string, bool) {
	info, err := root.Lstat(filepath.FromSlash(name))
	if err != nil || !info.Mode().IsRegular() || info.Size() > limit {
		return "", false
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return "", false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil || int64(len(text)) > limit || !utf8.Valid(text) {
		return "", false
	}
	return string(text), true
}

// readNote reads meta.json; a missing or broken one is an empty note.
func readNote(root *os.Root, folder string) Note {
	text, ok := readFile(root, path.Join(folder, "meta.json"), maxNote)
	if !ok {
		return Note{}
	}
	return parseNote([]byte(text))
}

func parseNote(text []byte) Note {
	var n Note
	if err := json.Unmarshal(text, &n); err != nil {
		return Note{}
	}
	return n
}

// meta turns a note into what the archive keeps: bounded, one line, with parents that
// exist.
func meta(n Note, b engine.Brief, proposer string) engine.Meta {
	m := engine.Meta{
		Hypothesis: oneLine(n.Hypothesis), Axis: oneLine(n.Axis), Proposer: proposer,
		Cycle: b.Cycle, Iteration: b.Iteration,
	}
	for _, parent := range n.Parents {
		for _, e := range b.Entries {
			if e.Harness.ID == parent && !slices.Contains(m.Parents, parent) {
				m.Parents = append(m.Parents, parent)
			}
		}
	}
	if len(m.Parents) == 0 {
		m.Parents = []engine.HarnessID{b.Incumbent}
	}
	return m
}

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return text
}
