package command

import (
	"bytes"
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
// process of its group is left. The error is an *Error or nil.
func (c call) run(ctx context.Context, folder string) error {
	stdout, err := c.transcript("stdout.txt")
	if err != nil {
		return c.failure(ErrStart, err)
	}
	stderr, err := c.transcript("stderr.txt")
	if err != nil {
		return c.failure(ErrStart, errors.Join(err, stdout.Close()))
	}
	begin := time.Now()
	used := &usageReader{read: c.p.Usage}
	timed, waited := c.execute(ctx, folder, io.MultiWriter(stdout, used), stderr)
	closed := errors.Join(stdout.Close(), stderr.Close())
	if used.sum != (engine.ProposalCost{}) {
		used.sum.Seconds = time.Since(begin).Seconds()
	}
	closed = errors.Join(closed, c.book(used.sum))
	var start *Error
	switch {
	case errors.As(waited, &start):
		return c.failure(ErrStart, errors.Join(start.Detail, closed))
	case timed:
		return c.failure(ErrTime, closed)
	case errors.Is(waited, exec.ErrWaitDelay):
		// It ended well; a child held its output open and is gone now.
		waited = nil
	}
	if err := errors.Join(waited, closed); err != nil {
		return c.failure(ErrExit, err)
	}
	return nil
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

// longestLine is what a line may have to be read for usage; longer ones are passed over.
const longestLine = 1 << 20

// usageReader adds up what a program says it spent, line by line.
type usageReader struct {
	read func(line []byte) (engine.ProposalCost, bool)
	line []byte
	long bool // the line so far is too long
	sum  engine.ProposalCost
}

// Write implements io.Writer; it always takes everything.
func (u *usageReader) Write(text []byte) (int, error) {
	n := len(text)
	for u.read != nil && len(text) > 0 {
		part, rest, whole := bytes.Cut(text, []byte("\n"))
		text = rest
		if u.long = u.long || len(u.line)+len(part) > longestLine; !u.long {
			u.line = append(u.line, part...)
		}
		if !whole {
			break
		}
		if !u.long {
			u.add()
		}
		u.line, u.long = u.line[:0], false
	}
	return n, nil
}

func (u *usageReader) add() {
	if cost, ok := u.read(u.line); ok {
		u.sum = u.sum.Add(cost)
	}
}
