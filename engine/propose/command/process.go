package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

// run executes the program in a folder to its end or the limit. Whatever happens, no
// process of its group is left. failed is an *Error or nil, words what the program said
// last of itself, which failed has too.
func (c call) run(ctx context.Context, folder string) (words, failed error) {
	stdout, err := c.transcript("stdout.txt")
	if err != nil {
		return nil, c.failure(ErrStart, err)
	}
	stderr, err := c.transcript("stderr.txt")
	if err != nil {
		return nil, c.failure(ErrStart, errors.Join(err, stdout.Close()))
	}
	begin := time.Now()
	events, muttered := &eventReader{p: c.p}, &lastLine{}
	timed, waited := c.execute(ctx, folder, io.MultiWriter(stdout, &lines{each: events.read}), io.MultiWriter(stderr, &lines{each: muttered.read}))
	closed := errors.Join(stdout.Close(), stderr.Close())
	if events.spent != (engine.ProposalCost{}) {
		events.spent.Seconds = time.Since(begin).Seconds()
	}
	closed = errors.Join(closed, c.book(events.spent))
	words = desk.Words(cmp.Or(events.words, muttered.text), c.p.Hide...)
	var start *Error
	switch {
	case errors.As(waited, &start):
		return words, c.failure(ErrStart, errors.Join(start.Detail, closed))
	case timed:
		return words, c.failure(ErrTime, errors.Join(closed, words))
	case errors.Is(waited, exec.ErrWaitDelay):
		// It ended well; a child held its output open and is gone now.
		waited = nil
	}
	if err := errors.Join(waited, closed); err != nil {
		return words, c.failure(ErrExit, errors.Join(err, words))
	}
	return words, nil
}

func (c call) transcript(name string) (*desk.Log, error) {
	return desk.NewLog(filepath.Join(c.desk.Folder, name), c.limits.printed, c.p.Hide...)
}

// execute starts the program and waits for it; timed says that the limit ended it. A
// program that can't be started is an *Error.
func (c call) execute(ctx context.Context, folder string, stdout, stderr io.Writer) (timed bool, err error) {
	limited, cancel := context.WithTimeout(ctx, c.limits.wall)
	defer cancel()
	prompt, err := os.Open(c.desk.Prompt())
	if err != nil {
		return false, &Error{Cause: ErrStart, Detail: err}
	}
	defer prompt.Close()
	argv := c.argv()
	cmd := exec.CommandContext(limited, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = folder, c.environment(), prompt
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.WaitDelay = c.limits.grace
	if err := cmd.Start(); err != nil {
		return false, &Error{Cause: ErrStart, Detail: err}
	}
	err = cmd.Wait()
	// The leader is gone; children that it left behind still are its group.
	if killed := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); killed != nil && !errors.Is(killed, syscall.ESRCH) {
		err = errors.Join(err, killed)
	}
	return limited.Err() != nil, err
}

// longestLine is what a line may have to be read; longer ones are passed over.
const longestLine = 1 << 20

// lines cuts what a program prints into lines.
type lines struct {
	each func(line []byte)
	line []byte
	long bool // the line so far is too long
}

// Write implements io.Writer; it always takes everything.
func (l *lines) Write(text []byte) (int, error) {
	n := len(text)
	for len(text) > 0 {
		part, rest, whole := bytes.Cut(text, []byte("\n"))
		text = rest
		if l.long = l.long || len(l.line)+len(part) > longestLine; !l.long {
			l.line = append(l.line, part...)
		}
		if !whole {
			break
		}
		if !l.long {
			l.each(l.line)
		}
		l.line, l.long = l.line[:0], false
	}
	return n, nil
}

// eventReader adds up what a program says it spent, and keeps its last words.
type eventReader struct {
	p     *Proposer
	spent engine.ProposalCost
	words string
}

func (r *eventReader) read(line []byte) {
	if r.p.Usage != nil {
		if cost, ok := r.p.Usage(line); ok {
			r.spent = r.spent.Add(cost)
		}
	}
	if r.p.Words != nil {
		r.words = cmp.Or(r.p.Words(line), r.words)
	}
}

// lastLine keeps the last line that is not empty.
type lastLine struct{ text string }

func (l *lastLine) read(line []byte) {
	if line = bytes.TrimSpace(line); len(line) > 0 {
		l.text = string(line)
	}
}
