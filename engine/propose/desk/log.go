package desk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// Log keeps the first bytes that are written to it and drops the rest, so that a
// program that prints without end neither stops nor fills the disk. What it is told to
// hide never reaches the file.
type Log struct {
	mu   sync.Mutex
	file *os.File
	left int64
	hide [][]byte
	held []byte // the end of what was written, which may be the beginning of what is hidden
	err  error
}

var _ io.Writer = (*Log)(nil)

// hidden stands for a key in a transcript.
const hidden = "(key)"

// NewLog makes a file that keeps limit bytes. Texts of hide, such as keys, are
// replaced; those shorter than 8 bytes are taken for no secret.
func NewLog(path string, limit int64, hide ...string) (*Log, error) {
	file, err := os.Create(path)
	t := &Log{file: file, left: limit}
	for _, h := range hide {
		if len(h) >= 8 {
			t.hide = append(t.hide, []byte(h))
		}
	}
	return t, err
}

// Write implements io.Writer; it always takes everything.
func (t *Log) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.hide) == 0 {
		t.keep(text)
		return len(text), nil
	}
	t.held = append(t.held, text...)
	for _, h := range t.hide {
		t.held = bytes.ReplaceAll(t.held, h, []byte(hidden))
	}
	back := 0
	for _, h := range t.hide {
		for n := min(len(h)-1, len(t.held)); n > back; n-- {
			if bytes.HasSuffix(t.held, h[:n]) {
				back = n
			}
		}
	}
	t.keep(t.held[:len(t.held)-back])
	t.held = append([]byte(nil), t.held[len(t.held)-back:]...)
	return len(text), nil
}

func (t *Log) keep(text []byte) {
	if int64(len(text)) > t.left {
		text = text[:t.left]
	}
	if len(text) == 0 || t.err != nil || t.file == nil {
		return
	}
	_, t.err = t.file.Write(text)
	t.left -= int64(len(text))
	if t.left == 0 {
		_, err := t.file.WriteString("\n(more was printed and dropped)\n")
		t.err = errors.Join(t.err, err)
	}
}

// Close ends the file and reports what went wrong while writing it. Writes that come
// later, from a process that is being killed, are dropped.
func (t *Log) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(t.held)
	t.held = nil
	err := errors.Join(t.err, t.file.Close())
	t.file = nil
	return err
}

// longestWords of a proposer are quoted in an error, in bytes.
const longestWords = 300

// Words quotes what a proposer said last as a line of an error, without what is hidden; nil =
// it said nothing.
func Words(said string, hide ...string) error {
	for _, h := range hide {
		if h != "" {
			said = strings.ReplaceAll(said, h, hidden)
		}
	}
	if said = strings.Join(strings.Fields(said), " "); said == "" {
		return nil
	}
	if len(said) > longestWords {
		said = strings.ToValidUTF8(said[:longestWords], "") + "..."
	}
	return fmt.Errorf("it said last: %q", said)
}
