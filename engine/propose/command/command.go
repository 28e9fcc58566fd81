// Package command lets any program propose harnesses: a coding agent in headless mode,
// a script, a person with an editor.
//
// The program runs in the archive's folder (or in a copy of it) with a small
// environment: WHALE_SLOTS is how many candidates are wanted, WHALE_OUT the folder to
// write them to, WHALE_BRIEF a JSON file with the brief (type Brief). It writes
// <slot>/harness.go and, if it likes, <slot>/meta.json (type Note), for slots 1 to
// WHALE_SLOTS. What it prints is kept beside the brief.
//
// The package knows processes and files. It may not know what a good harness is: what a
// program writes goes through the sandbox's checks like any other candidate.
//
// What is covered: time, size of output and candidates, the whole process group, links
// that point out of WHALE_OUT, changes of the archive by the program (reported after the
// fact). What is not: a program that leaves its process group, fills the disk, or reads
// what its user may read. It is the user's own program, not a sandboxed guest.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Name is what candidates carry in Meta.Proposer.
const Name = "command"

// Proposer runs a program. Argv is required; zero values of the rest mean the defaults.
type Proposer struct {
	// Argv is the program with its arguments. No shell reads it.
	Argv []string
	// Pass names further variables of the environment that the program gets, such as
	// the one that holds its key.
	Pass []string
	// Limit is the wall time of one call; 20 minutes by default.
	Limit time.Duration
	// Grace is how long the program may take to stop when asked; 5 seconds by default.
	Grace time.Duration
	// Copy makes the program work in a copy of the archive, so that it can't change the
	// original by accident. It costs the time and space of copying it.
	Copy bool
	// MaxSource bounds a candidate in bytes (256 KiB by default), MaxPrinted each of
	// stdout and stderr (4 MiB by default); more is dropped.
	MaxSource, MaxPrinted int64
}

var _ engine.Proposer = Proposer{}

// Why a program gave no candidates. A program that fails but has written candidates is
// no error: they are used.
var (
	ErrStart   = errors.New("can't be started")
	ErrTime    = fmt.Errorf("time limit: %w", context.DeadlineExceeded)
	ErrExit    = errors.New("failed")
	ErrOutside = errors.New("wrote outside its slots")
	ErrNothing = errors.New("wrote no candidate")
)

// Error is a program's failure: errors.Is finds one of the causes above and what the
// system said.
type Error struct {
	Program string // Argv[0]
	Cause   error  // one of the Err variables
	Detail  error  // what the system said; may be nil
	// Folder holds the brief, what the program printed and what it wrote; "" when it
	// never ran.
	Folder string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("proposer %s: %v", e.Program, e.Cause)
	if e.Detail != nil {
		text += ": " + strings.ReplaceAll(e.Detail.Error(), "\n", "; ")
	}
	if e.Folder != "" {
		text += " (see " + e.Folder + ")"
	}
	return text
}

// Unwrap gives errors.Is the cause and the detail.
func (e *Error) Unwrap() []error {
	if e.Detail == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Detail}
}

// desk is the folder of one call, under the archive's.
type desk struct {
	folder string // brief.json, stdout.txt, stderr.txt
	out    string // WHALE_OUT
	work   string // working folder of the program
}

// Propose implements engine.Proposer. It returns *Error when the program gave nothing,
// the context's error when the run is stopped, and faults of the archive's disk as they
// are. The candidates of a program that changed the archive are not used.
func (p Proposer) Propose(ctx context.Context, b engine.Brief) ([]engine.Harness, error) {
	p = p.withDefaults()
	if len(p.Argv) == 0 {
		return nil, &Error{Program: "(none)", Cause: ErrStart, Detail: errors.New("no program given")}
	}
	if b.Folder == "" {
		return nil, &Error{Program: p.Argv[0], Cause: ErrStart, Detail: errors.New("the run has no folder")}
	}
	d, err := p.open(b)
	if err != nil {
		return nil, engine.Fail(engine.AtArchive, b.Folder, err)
	}
	before, err := takeInventory(b.Folder)
	if err != nil {
		return nil, engine.Fail(engine.AtArchive, b.Folder, err)
	}
	ran := p.run(ctx, b, d)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.Copy {
		if err := os.RemoveAll(d.work); err != nil {
			return nil, engine.Fail(engine.AtArchive, d.work, err)
		}
	}
	after, err := takeInventory(b.Folder)
	if err != nil {
		return nil, engine.Fail(engine.AtArchive, b.Folder, err)
	}
	if changed := before.changes(after); len(changed) > 0 {
		return nil, p.failure(ErrOutside, errors.New(strings.Join(changed[:min(3, len(changed))], ", ")), d)
	}
	made, err := collect(d.out, b, p.MaxSource)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // it may have removed the folder
		return nil, engine.Fail(engine.AtArchive, d.out, err)
	}
	if len(made) > 0 {
		return made, nil
	}
	if ran != nil {
		return nil, ran
	}
	return nil, p.failure(ErrNothing, nil, d)
}

func (p Proposer) withDefaults() Proposer {
	if p.Limit <= 0 {
		p.Limit = 20 * time.Minute
	}
	if p.Grace <= 0 {
		p.Grace = 5 * time.Second
	}
	if p.MaxSource <= 0 {
		p.MaxSource = 256 << 10
	}
	if p.MaxPrinted <= 0 {
		p.MaxPrinted = 4 << 20
	}
	return p
}

func (p Proposer) failure(cause, detail error, d desk) *Error {
	return &Error{Program: p.Argv[0], Cause: cause, Detail: detail, Folder: d.folder}
}

// proposals is the folder under the archive that holds the desks.
const proposals = "proposals"

// open makes the folder of this call with its brief. A call that is repeated gets a new
// folder, so that no transcript is lost.
func (p Proposer) open(b engine.Brief) (desk, error) {
	root, err := filepath.Abs(b.Folder)
	if err != nil {
		return desk{}, err
	}
	if err := os.MkdirAll(filepath.Join(root, proposals), 0o755); err != nil {
		return desk{}, err
	}
	d := desk{work: root}
	for try := 1; ; try++ {
		d.folder = filepath.Join(root, proposals, fmt.Sprintf("cycle-%02d-iteration-%02d-try-%d", b.Cycle, b.Iteration, try))
		err := os.Mkdir(d.folder, 0o755)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrExist) {
			return desk{}, err
		}
	}
	d.out = filepath.Join(d.folder, "out")
	for slot := 1; slot <= b.Slots; slot++ {
		if err := os.MkdirAll(filepath.Join(d.out, fmt.Sprint(slot)), 0o755); err != nil {
			return desk{}, err
		}
	}
	if p.Copy {
		d.work = filepath.Join(d.folder, "work")
		if err := copyArchive(root, d.work); err != nil {
			return desk{}, err
		}
	}
	return d, writeBrief(d.brief(), b)
}

func (d desk) brief() string { return filepath.Join(d.folder, "brief.json") }

// passed are the variables that every program gets: what it needs to find its tools and
// its own settings, no keys.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"}

// environment is what the program sees, in a fixed order.
func (p Proposer) environment(b engine.Brief, d desk) []string {
	var env []string
	names := append(slices.Clone(passed), p.Pass...)
	for i, name := range names {
		if value, ok := os.LookupEnv(name); ok && !slices.Contains(names[:i], name) {
			env = append(env, name+"="+value)
		}
	}
	return append(env, fmt.Sprintf("WHALE_SLOTS=%d", b.Slots), "WHALE_OUT="+d.out, "WHALE_BRIEF="+d.brief())
}
