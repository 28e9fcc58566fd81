// Package command lets any program propose harnesses: a coding agent in headless mode,
// a script, a person with an editor.
//
// The program runs in the archive's folder (or in a copy of what is laid out there for
// proposers) with a small environment: WHALE_SLOTS is how many candidates are wanted,
// WHALE_OUT the folder to write them to, WHALE_BRIEF a JSON file with the brief (type
// desk.Brief), WHALE_PROMPT the same as instructions in words, which also are its
// standard input. It writes <slot>/harness.go and, if it likes, <slot>/meta.json (type
// desk.Note), for slots 1 to WHALE_SLOTS. What it prints is kept beside the brief.
//
// The package knows processes and files. It may not know what a good harness is: what a
// program writes goes through the sandbox's checks like any other candidate.
//
// What is covered: time, size of output and candidates, the whole process group, links
// that point out of WHALE_OUT, changes of the archive by the program (reported after the
// fact), what known agents say they spent. What is not: a program that leaves its process
// group, fills the disk, or reads what its user may read. It is the user's own program,
// not a sandboxed guest.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

// Name is what candidates carry in Meta.Proposer where a Proposer has no other.
const Name = "command"

// Proposer runs a program. Argv is required; zero values of the rest mean the defaults.
type Proposer struct {
	// Argv is the program with its arguments. No shell reads it; {out}, {brief} and
	// {prompt} become the paths of WHALE_OUT, WHALE_BRIEF and WHALE_PROMPT.
	Argv []string
	// Name is what candidates carry in Meta.Proposer; "command" by default.
	Name string
	// Pass names further variables of the environment that the program gets, such as
	// the one that holds its key. Hide are texts that no transcript may hold.
	Pass, Hide []string
	// Set are further variables as NAME=value, which take the place of those of Pass.
	Set []string
	// Limit is the wall time of one call; 20 minutes by default.
	Limit time.Duration
	// Grace is how long the program may take to stop when asked; 5 seconds by default.
	Grace time.Duration
	// Copy makes the program work in a copy of what is laid out for proposers, so that it
	// can't change the run by accident nor read what is not meant for it.
	Copy bool
	// MaxSource bounds a candidate in bytes (256 KiB by default), MaxPrinted each of
	// stdout and stderr (4 MiB by default); more is dropped.
	MaxSource, MaxPrinted int64
	// Budget is what all calls of the run may cost, as far as Usage tells.
	Budget desk.Budget
	// Most words a limit on the dollars of one call as further arguments; nil = the program
	// has none.
	Most func(dollars float64) []string
	// Usage reads from a line that the program printed what it spent; nil = it does not say.
	Usage func(line []byte) (engine.ProposalCost, bool)
	// Words reads from such a line what the program says about its work, for errors; nil or
	// "" = nothing. Without any, the last line on stderr counts.
	Words func(line []byte) string

	mu    sync.Mutex
	spent engine.ProposalCost
}

var _ engine.Proposer = (*Proposer)(nil)
var _ engine.Spender = (*Proposer)(nil)

// Why a program gave no candidates. A program that fails but has written candidates is
// no error: they are used.
var (
	ErrStart   = errors.New("can't be started")
	ErrTime    = fmt.Errorf("time limit: %w", context.DeadlineExceeded)
	ErrExit    = errors.New("failed")
	ErrOutside = errors.New("wrote outside its slots")
	ErrNothing = errors.New("wrote no candidate")
)

// Error is a program's failure: errors.Is finds one of the causes above or
// engine.ErrSpent, and what the system said.
type Error struct {
	Program string // Argv[0]
	Cause   error
	Detail  error // what the system said; may be nil
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

// Find says whether the program is there, and makes a relative path to it absolute: it will be
// started in another folder.
func (p *Proposer) Find() error {
	path, err := exec.LookPath(p.Argv[0])
	if err == nil && strings.ContainsRune(p.Argv[0], filepath.Separator) {
		p.Argv[0], err = filepath.Abs(path)
	}
	return err
}

// Spent implements engine.Spender.
func (p *Proposer) Spent() engine.ProposalCost {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spent
}

// Propose implements engine.Proposer. It returns *Error when the program gave nothing,
// the context's error when the run is stopped, and faults of the archive's disk as they
// are. The candidates of a program that changed the archive are not used.
func (p *Proposer) Propose(ctx context.Context, b engine.Brief) ([]engine.Harness, error) {
	c := call{p: p, b: b, limits: p.defaults()}
	if len(p.Argv) == 0 {
		return nil, &Error{Program: "(none)", Cause: ErrStart, Detail: errors.New("no program given")}
	}
	if b.Folder == "" {
		return nil, c.failure(ErrStart, errors.New("the run has no folder"))
	}
	spent, err := desk.Spent(b.Folder)
	if err != nil {
		return nil, engine.Fail(engine.AtArchive, b.Folder, err)
	}
	if err := p.Budget.Check(spent); err != nil {
		return nil, c.failure(err, nil)
	}
	c.left = p.Budget.Dollars - spent.Dollars
	if c.desk, err = desk.Open(b); err != nil {
		return nil, engine.Fail(engine.AtArchive, b.Folder, err)
	}
	return c.propose(ctx)
}

// call is one run of the program.
type call struct {
	p      *Proposer
	b      engine.Brief
	desk   *desk.Desk
	limits limits
	left   float64 // dollars, where the budget has some
}

func (c call) propose(ctx context.Context) ([]engine.Harness, error) {
	root := runRoot(c.b.Folder)
	before, err := takeInventory(root, c.b.Folder)
	if err != nil {
		return nil, engine.Fail(engine.AtArchive, root, err)
	}
	words, ran, err := c.work(ctx)
	if err != nil {
		return nil, err
	}
	after, err := takeInventory(root, c.b.Folder)
	if err != nil {
		return nil, engine.Fail(engine.AtArchive, root, err)
	}
	if changed := before.changes(after); len(changed) > 0 {
		return nil, c.failure(ErrOutside, errors.New(strings.Join(changed[:min(3, len(changed))], ", ")))
	}
	made, err := c.desk.Collect(c.b, c.name(), c.limits.source)
	switch {
	case err != nil:
		return nil, engine.Fail(engine.AtArchive, c.desk.Out, err)
	case len(made) > 0:
		return made, nil
	case ran != nil:
		return nil, ran
	}
	return nil, c.failure(ErrNothing, errors.Join(c.desk.Passed(), words))
}

// work lets the program work, where it may: words are its last ones and ran its own
// failure, err that of the run.
func (c call) work(ctx context.Context) (words, ran, err error) {
	folder := c.desk.Run
	if c.p.Copy {
		folder = filepath.Join(c.desk.Folder, "work")
		err := errors.Join(c.desk.Copy(folder), c.desk.PutPrompt(c.b, desk.Paths{Out: c.desk.Out, Brief: "brief.json"}))
		if err != nil {
			return nil, nil, engine.Fail(engine.AtArchive, folder, err)
		}
	}
	words, ran = c.run(ctx, folder)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if c.p.Copy {
		if err := os.RemoveAll(folder); err != nil {
			return nil, nil, engine.Fail(engine.AtArchive, folder, err)
		}
	}
	return words, ran, nil
}

// limits are a Proposer's with the defaults.
type limits struct {
	wall, grace     time.Duration
	source, printed int64
}

func (p *Proposer) defaults() limits {
	l := limits{p.Limit, p.Grace, p.MaxSource, p.MaxPrinted}
	if l.wall <= 0 {
		l.wall = 20 * time.Minute
	}
	if l.grace <= 0 {
		l.grace = 5 * time.Second
	}
	if l.source <= 0 {
		l.source = desk.MaxSource
	}
	if l.printed <= 0 {
		l.printed = 4 << 20
	}
	return l
}

func (c call) name() string {
	if c.p.Name != "" {
		return c.p.Name
	}
	return Name
}

func (c call) failure(cause, detail error) *Error {
	e := &Error{Program: c.p.Argv[0], Cause: cause, Detail: detail}
	if c.desk != nil {
		e.Folder = c.desk.Folder
	}
	return e
}

// passed are the variables that every program gets: what it needs to find its tools and
// its own settings, no keys.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"}

// environment is what the program sees, in a fixed order.
func (c call) environment() []string {
	var env []string
	names := append(slices.Clone(passed), c.p.Pass...)
	for i, name := range names {
		if value, ok := os.LookupEnv(name); ok && !slices.Contains(names[:i], name) {
			env = append(env, name+"="+value)
		}
	}
	env = append(env, c.p.Set...) // of two values of a name the later one counts
	return append(env, fmt.Sprintf("WHALE_SLOTS=%d", c.b.Slots), "WHALE_OUT="+c.desk.Out,
		"WHALE_BRIEF="+c.desk.Brief(), "WHALE_PROMPT="+c.desk.Prompt())
}

// argv are the program's arguments with the paths of this call.
func (c call) argv() []string {
	paths := strings.NewReplacer("{out}", c.desk.Out, "{brief}", c.desk.Brief(), "{prompt}", c.desk.Prompt())
	out := make([]string, len(c.p.Argv))
	for i, a := range c.p.Argv {
		out[i] = paths.Replace(a)
	}
	if c.p.Most != nil && c.p.Budget.Dollars > 0 {
		out = append(out, c.p.Most(max(c.left, .01))...)
	}
	return out
}

// book adds what the program says it spent.
func (c call) book(cost engine.ProposalCost) error {
	if cost == (engine.ProposalCost{}) {
		return nil
	}
	c.p.mu.Lock()
	c.p.spent = c.p.spent.Add(cost)
	c.p.mu.Unlock()
	return c.desk.PutUsage(cost)
}
