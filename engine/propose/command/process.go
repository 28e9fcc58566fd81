package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/seed-7c27e6b8/whale/engine"
)

// run executes the program to its end or the limit. Whatever happens, no process of its
// group is left. The error is an *Error or nil.
func (p Proposer) run(ctx context.Context, b engine.Brief, d desk) error {
	stdout, err := newTranscript(filepath.Join(d.folder, "stdout.txt"), p.MaxPrinted)
	if err != nil {
		return p.failure(ErrStart, err, d)
	}
	stderr, err := newTranscript(filepath.Join(d.folder, "stderr.txt"), p.MaxPrinted)
	if err != nil {
		return p.failure(ErrStart, errors.Join(err, stdout.close()), d)
	}
	limited, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	cmd := exec.CommandContext(limited, p.Argv[0], p.Argv[1:]...)
	cmd.Dir, cmd.Env = d.work, p.environment(b, d)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.WaitDelay = p.Grace
	if err := cmd.Start(); err != nil {
		return p.failure(ErrStart, errors.Join(err, stdout.close(), stderr.close()), d)
	}
	waited := cmd.Wait()
	// The leader is gone; children that it left behind still are its group.
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		waited = errors.Join(waited, err)
	}
	closed := errors.Join(stdout.close(), stderr.close())
	switch {
	case limited.Err() != nil:
		return p.failure(ErrTime, closed, d)
	case errors.Is(waited, exec.ErrWaitDelay):
		// It ended well; a child held its output open and is gone now.
		waited = nil
	}
	if err := errors.Join(waited, closed); err != nil {
		return p.failure(ErrExit, err, d)
	}
	return nil
}

// transcript keeps the first bytes that a program prints and drops the rest, so that a
// program that prints without end neither stops nor fills the disk.
type transcript struct {
	mu   sync.Mutex
	file *os.File
	left int64
	err  error
}

var _ io.Writer = (*transcript)(nil)

func newTranscript(path string, limit int64) (*transcript, error) {
	file, err := os.Create(path)
	return &transcript{file: file, left: limit}, err
}

// Write implements io.Writer; it always takes everything.
func (t *transcript) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := text
	if int64(len(kept)) > t.left {
		kept = kept[:t.left]
	}
	if len(kept) > 0 && t.err == nil && t.file != nil {
		_, t.err = t.file.Write(kept)
		t.left -= int64(len(kept))
		if t.left == 0 {
			_, err := t.file.WriteString("\n(more was printed and dropped)\n")
			t.err = errors.Join(t.err, err)
		}
	}
	return len(text), nil
}

// close ends the file and reports what went wrong while writing it. Writes that come
// later, from a process that is being killed, are dropped.
func (t *transcript) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := errors.Join(t.err, t.file.Close())
	t.file = nil
	return err
}
