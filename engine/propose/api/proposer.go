package api

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

// Proposer lets a model propose. Name and Model are required; zero values of the rest mean
// the defaults.
type Proposer struct {
	Name    string // what candidates carry in Meta.Proposer
	Model   Model
	Address string // of the service, without secrets, for errors; "" = the official one
	Price   Price  // of its tokens; zero = unknown, so no money is counted
	// Budget is what all calls of the run may cost.
	Budget desk.Budget
	// Limit is the wall time of one call of Propose, 20 minutes by default; Turns how many
	// replies it may have, 60 by default; Patience how long one reply may take, half of
	// Limit by default: replies don't stream, so a slow one looks like none until it is
	// whole; MaxTokens how long it may be, 16,000 by default.
	Limit     time.Duration
	Turns     int
	Patience  time.Duration
	Setting   string // what Patience is called where it can be changed, for errors; may be empty
	MaxTokens int
	// Hide are texts that no transcript may hold, such as the key.
	Hide []string
	// Pause waits between attempts; nil = by the clock.
	Pause func(ctx context.Context, d time.Duration) error

	mu    sync.Mutex
	spent engine.ProposalCost
}

var _ engine.Proposer = (*Proposer)(nil)
var _ engine.Spender = (*Proposer)(nil)

// Why a model gave no candidates. One that wrote candidates before it failed is no error:
// they are used.
var (
	ErrService = errors.New("the service failed")
	ErrTime    = fmt.Errorf("time limit: %w", context.DeadlineExceeded)
	ErrLoop    = errors.New("came to no end")
	ErrNothing = errors.New("wrote no candidate")
)

// Error is a failed proposal: errors.Is finds one of the causes above or engine.ErrSpent.
type Error struct {
	Proposer string
	Cause    error
	Detail   error  // may be nil
	Folder   string // with the transcript; "" when nothing was asked
}

func (e *Error) Error() string {
	text := fmt.Sprintf("proposer %s: %v", e.Proposer, e.Cause)
	if e.Detail != nil {
		text += ": " + strings.Join(strings.Fields(strings.ReplaceAll(e.Detail.Error(), "\n", "; ")), " ")
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

// Spent implements engine.Spender.
func (p *Proposer) Spent() engine.ProposalCost {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spent
}

// maxTranscript bounds a transcript in bytes.
const maxTranscript = 16 << 20

// Propose implements engine.Proposer. It returns *Error when the model gave nothing, the
// context's error when the run is stopped, and faults of the run folder's disk as they
// are.
func (p *Proposer) Propose(ctx context.Context, b engine.Brief) ([]engine.Harness, error) {
	if b.Folder == "" {
		return nil, &Error{Proposer: p.Name, Cause: ErrNothing, Detail: errors.New("the run has no folder to work in")}
	}
	spent, err := desk.Spent(b.Folder)
	if err != nil {
		return nil, engine.Fail(engine.AtArchive, b.Folder, err)
	}
	if err := p.Budget.Check(spent); err != nil {
		return nil, &Error{Proposer: p.Name, Cause: err}
	}
	d, err := desk.Open(b)
	if err != nil {
		return nil, engine.Fail(engine.AtArchive, b.Folder, err)
	}
	said, talked := p.converse(ctx, b, d, spent)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var fault *engine.Failure
	if errors.As(talked, &fault) {
		return nil, talked
	}
	made, err := d.Collect(b, p.Name, desk.MaxSource)
	switch {
	case err != nil:
		return nil, engine.Fail(engine.AtArchive, d.Out, err)
	case len(made) > 0:
		return made, nil
	case talked != nil:
		return nil, talked
	}
	return nil, &Error{Proposer: p.Name, Cause: ErrNothing, Detail: errors.Join(d.Passed(), desk.Words(said, p.Hide...)), Folder: d.Folder}
}

// converse opens what a conversation needs and closes it again, and returns the model's last
// words. Its error is an *Error, or a *engine.Failure of the disk.
func (p *Proposer) converse(ctx context.Context, b engine.Brief, d *desk.Desk, before engine.ProposalCost) (said string, failed error) {
	disk := func(err error) error { return engine.Fail(engine.AtArchive, d.Folder, err) }
	if err := d.PutPrompt(b, desk.Paths{Out: "out", Brief: "brief.json"}); err != nil {
		return "", disk(err)
	}
	prompt, err := os.ReadFile(d.Prompt())
	if err != nil {
		return "", disk(err)
	}
	files, err := openView(d, b.Slots)
	if err != nil {
		return "", disk(err)
	}
	log, err := desk.NewLog(filepath.Join(d.Folder, "transcript.jsonl"), maxTranscript, p.Hide...)
	if err != nil {
		return "", disk(errors.Join(err, files.close()))
	}
	limit := p.limit()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := &talk{p: p, desk: d, files: files, log: log, before: before}
	ended := t.run(limited, b, string(prompt))
	if err := errors.Join(log.Close(), files.close()); err != nil {
		return "", disk(err)
	}
	var fault *engine.Failure
	switch {
	case ended == nil, errors.As(ended, &fault):
		return t.said, ended
	case limited.Err() != nil:
		detail := fmt.Errorf("%v", limit)
		var failed *ServiceError
		var slow *engine.StallError
		if errors.As(ended, &failed) && (errors.As(ended, &slow) || !errors.Is(failed, context.DeadlineExceeded)) {
			detail = errors.Join(detail, p.mask(fmt.Errorf("the service gave: %w", failed)))
		}
		return t.said, &Error{p.name(), ErrTime, detail, d.Folder}
	case errors.Is(ended, engine.ErrSpent), errors.Is(ended, ErrLoop):
		return t.said, &Error{p.name(), ended, nil, d.Folder}
	}
	return t.said, &Error{p.name(), ErrService, p.mask(ended), d.Folder}
}

// mask keeps keys out of an error's text, which goes into journals and logs.
func (p *Proposer) mask(err error) error {
	text := err.Error()
	for _, h := range p.Hide {
		if h != "" {
			text = strings.ReplaceAll(text, h, "(key)")
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// name is what errors call it.
func (p *Proposer) name() string {
	if p.Address == "" {
		return p.Name
	}
	return p.Name + " at " + p.Address
}

func (p *Proposer) limit() time.Duration {
	if p.Limit > 0 {
		return p.Limit
	}
	return 20 * time.Minute
}

func (p *Proposer) patience() time.Duration {
	if p.Patience > 0 {
		return p.Patience
	}
	return p.limit() / 2
}

func (p *Proposer) book(cost engine.ProposalCost) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent = p.spent.Add(cost)
}
