// Package desk is where a proposer that is not part of this program works: the folder of
// one call in a run folder, with the brief as JSON and as text to read, a place for
// candidates, and transcripts of what went on.
//
//	proposals/cycle-NN-iteration-NN-try-N/
//	  brief.json   all that the engine tells (type Brief)
//	  prompt.md    the same as instructions for a model, with the domain's SKILL.md
//	  out/SLOT/    harness.go and meta.json (type Note), slots from 1
//
// The package knows files. It may not know what a good harness is, and nothing of
// processes or services. What a proposer left is read as foreign files: links are not
// followed, sizes are bounded, whatever can't be read is passed over.
package desk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Proposals is the folder under a run's that holds the desks.
const Proposals = "proposals"

// MaxSource bounds a candidate by default, in bytes.
const MaxSource = 256 << 10

// Desk is the folder of one call.
type Desk struct {
	Run    string // the run folder, absolute
	Folder string // of this call
	Out    string // where candidates are written to

	passed []string // over, by the last Collect
}

// Open makes the folder of a call with its brief and empty slots. A call that is repeated
// gets a new folder, so that no transcript is lost.
func Open(b engine.Brief) (*Desk, error) {
	root, err := filepath.Abs(b.Folder)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(root, Proposals), 0o755); err != nil {
		return nil, err
	}
	d := &Desk{Run: root}
	for try := 1; ; try++ {
		d.Folder = filepath.Join(root, Proposals, fmt.Sprintf("cycle-%02d-iteration-%02d-try-%d", b.Cycle, b.Iteration, try))
		err := os.Mkdir(d.Folder, 0o755)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	d.Out = filepath.Join(d.Folder, "out")
	for slot := 1; slot <= b.Slots; slot++ {
		if err := os.MkdirAll(filepath.Join(d.Out, fmt.Sprint(slot)), 0o755); err != nil {
			return nil, err
		}
	}
	if err := writeBrief(d.Brief(), b); err != nil {
		return nil, err
	}
	return d, d.PutPrompt(b, Paths{d.Out, d.Brief()})
}

// Paths are how the instructions call what a proposer writes to and reads first: as it can
// reach them from where it works.
type Paths struct{ Out, Brief string }

// PutPrompt words the instructions anew; Open has written them with absolute paths.
func (d *Desk) PutPrompt(b engine.Brief, at Paths) error {
	return os.WriteFile(d.Prompt(), []byte(prompt(b, at)), 0o644)
}

// Brief is the path of brief.json.
func (d *Desk) Brief() string { return filepath.Join(d.Folder, "brief.json") }

// Prompt is the path of prompt.md.
func (d *Desk) Prompt() string { return filepath.Join(d.Folder, "prompt.md") }

// Shown tells whether a path below a run folder, with slashes, is among what is laid out
// for proposers. The rest is the run's own: its journal and trajectories also have the
// rollouts on the test split.
func Shown(name string) bool {
	head, _, _ := strings.Cut(name, "/")
	switch head {
	case "harnesses", "cycles":
		return true
	}
	return name == "accepted.json" || name == "evolution.md"
}

// Copy copies what is laid out for proposers and the brief to a new folder, so that a
// program can work there and change nothing of the run.
func (d *Desk) Copy(to string) error {
	if err := d.copyShown(to); err != nil {
		return err
	}
	brief, err := os.ReadFile(d.Brief())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, filepath.Base(d.Brief())), brief, 0o644)
}

func (d *Desk) copyShown(to string) error {
	return filepath.WalkDir(d.Run, func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(d.Run, p)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case name == ".":
			return os.MkdirAll(target, 0o755)
		case !Shown(filepath.ToSlash(name)):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case entry.Type().IsRegular():
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return os.WriteFile(target, text, 0o644)
		}
		return nil
	})
}
