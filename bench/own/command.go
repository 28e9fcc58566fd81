package own

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Faults of a command. They never quote what it printed, which may hold the reference.
var (
	ErrStart   = errors.New("the command does not start")
	ErrEnded   = errors.New("the command ended without a verdict")
	ErrTime    = errors.New("no verdict in time")
	ErrVerdict = errors.New("not a verdict")
)

// maxVerdict bounds the line that a command answers with.
const maxVerdict = 64 << 10

// command is a Verifier outside: one line of JSON in, one line of JSON out.
type command struct {
	argv  []string
	dir   string
	limit time.Duration
	each  bool
	log   io.Writer
	slots chan *process // as many as processes may run; nil = one that is not started
}

func newCommand(s Settings, dir string, log io.Writer) *command {
	c := &command{argv: s.Verifier, dir: dir, each: s.Each, log: log,
		limit: time.Duration(s.Seconds * float64(time.Second)), slots: make(chan *process, s.Processes)}
	if log != nil {
		c.log = &lockedWriter{to: log}
	}
	for range s.Processes {
		c.slots <- nil
	}
	return c
}

// Verify waits for a process and asks it.
func (c *command) Verify(q Case) (engine.Verdict, error) {
	line, err := json.Marshal(q)
	if err != nil {
		return engine.Verdict{}, err
	}
	p := <-c.slots
	defer func() { c.slots <- p }()
	if p != nil && !p.quiet() {
		p.end(leave) // it left, or said more than it was asked: the next line would not be this case's
		p = nil
	}
	if p == nil {
		if p, err = c.start(); err != nil {
			p = nil
			return engine.Verdict{}, fmt.Errorf("%w: %s: %w", ErrStart, c.argv[0], err)
		}
	}
	v, err := p.ask(append(line, '\n'), c.limit, c.each)
	if err != nil || c.each {
		grace := leave
		if err == nil {
			grace = c.limit // its exit status is still part of the verdict
		}
		status := p.end(grace)
		p = nil
		if errors.Is(err, ErrEnded) || err == nil && status != nil {
			err = fmt.Errorf("%w: %s: %v", ErrEnded, c.argv[0], status)
		}
	}
	if err != nil {
		return engine.Verdict{}, err
	}
	return v, nil
}

// Close ends the processes, waiting for verdicts that are being made.
func (c *command) Close() error {
	for range cap(c.slots) {
		if p := <-c.slots; p != nil {
			p.end(leave) // how it ends does not matter any more
		}
		c.slots <- nil
	}
	return nil
}

// process is a running command; it serves one verdict at a time.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	pipe syscall.Conn // what out reads from
	out  *bufio.Reader
}

// quiet says whether the process is there and has nothing more to say.
func (p *process) quiet() bool {
	if p.out.Buffered() > 0 {
		return false
	}
	raw, err := p.pipe.SyscallConn()
	if err != nil {
		return false
	}
	var got error
	err = raw.Read(func(fd uintptr) bool {
		_, got = syscall.Read(int(fd), make([]byte, 1)) // the pipe does not block
		return true
	})
	return err == nil && errors.Is(got, syscall.EAGAIN)
}

func (c *command) start() (*process, error) {
	argv := c.argv
	if strings.ContainsRune(argv[0], filepath.Separator) && !filepath.IsAbs(argv[0]) {
		path, err := filepath.Abs(filepath.Join(c.dir, argv[0]))
		if err != nil {
			return nil, err
		}
		argv = append([]string{path}, argv[1:]...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stderr = c.dir, c.log
	cmd.WaitDelay = time.Second // children may hold standard error
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	pipe, ok := out.(syscall.Conn)
	if !ok {
		panic("BUG: a pipe without a descriptor")
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd: cmd, in: in, pipe: pipe, out: bufio.NewReaderSize(out, maxVerdict)}, nil
}

// ask sends a case and reads its verdict. After an error the process is of no use.
func (p *process) ask(line []byte, limit time.Duration, last bool) (engine.Verdict, error) {
	late := time.AfterFunc(limit, p.kill) // its pipes close, so reading ends
	sent := make(chan error, 1)
	go func() { // it may answer before it has read everything
		_, err := p.in.Write(line)
		if last {
			err = errors.Join(err, p.in.Close())
		}
		sent <- err
	}()
	answer, err := p.out.ReadSlice('\n')
	if last && errors.Is(err, io.EOF) && len(answer) > 0 {
		err = nil
	}
	var v engine.Verdict
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		err = fmt.Errorf("%w: longer than %d bytes", ErrVerdict, maxVerdict)
	case err != nil:
		err = ErrEnded
	default:
		v, err = parseVerdict(answer)
	}
	if err != nil {
		p.kill() // so that sending ends
	}
	if e := <-sent; e != nil && err == nil && !last {
		err = ErrEnded
	}
	if !late.Stop() {
		err = fmt.Errorf("%w: %v", ErrTime, limit)
	}
	return v, err
}

// kill ends the process and whatever it has started.
func (p *process) kill() {
	// ESRCH: it is gone already.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
}

// leave is how long a process may take to end when nobody needs it any more.
const leave = time.Second

// end closes the input, gives the process some time to leave by itself and returns how it
// ended.
func (p *process) end(grace time.Duration) error {
	p.in.Close() // a process that is gone has nothing to be told
	late := time.AfterFunc(grace, p.kill)
	defer late.Stop()
	_, drained := io.Copy(io.Discard, p.out)
	err := p.cmd.Wait()
	p.kill() // children that it left behind
	if errors.Is(err, exec.ErrWaitDelay) || errors.Is(drained, os.ErrClosed) && err == nil {
		return nil
	}
	return err
}

// parseVerdict reads {"kind":"equal"|"different"|"unparsed","reward":0..1,"answer":text}.
// Without a reward equal is 1 and the others are 0.
func parseVerdict(line []byte) (engine.Verdict, error) {
	var said struct {
		Kind   engine.VerdictKind `json:"kind"`
		Reward *float64           `json:"reward"`
		Answer string             `json:"answer"`
	}
	if json.Unmarshal(bytes.TrimSpace(line), &said) != nil {
		return engine.Verdict{}, fmt.Errorf("%w: broken JSON, or more than a line of it", ErrVerdict)
	}
	v := engine.Verdict{Kind: said.Kind, Answer: said.Answer}
	switch v.Kind {
	case engine.Equal:
		v.Reward = 1
	case engine.Different, engine.Unparsed:
	default:
		return engine.Verdict{}, fmt.Errorf("%w: kind is not equal, different or unparsed", ErrVerdict)
	}
	if said.Reward != nil {
		v.Reward = *said.Reward
	}
	if !(v.Reward >= 0 && v.Reward <= 1) || v.Reward > 0 && v.Kind == engine.Unparsed {
		return engine.Verdict{}, fmt.Errorf("%w: reward %v, from 0 to 1, and 0 for unparsed", ErrVerdict, v.Reward)
	}
	return v, nil
}

// lockedWriter lets several processes share a log.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}
