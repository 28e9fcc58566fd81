// Package jsonl reads task files, plain or packed: their bytes, and lines of one JSON value
// each. What a line means is for the package that asks.
package jsonl

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

// Errors of a line.
var (
	ErrLong = errors.New("line too long")
	ErrText = errors.New("not UTF-8")
	ErrJSON = errors.New("broken JSON")
)

// Packings are the endings that a file's name may have behind its own.
var Packings = []string{"", ".gz", ".zst"}

// Unpack reads a file's bytes unpacked by the ending of its name: .gz, .zst or plain.
func Unpack(name string, file io.Reader) (io.ReadCloser, error) {
	switch {
	case strings.HasSuffix(name, ".gz"):
		return gzip.NewReader(file)
	case strings.HasSuffix(name, ".zst"):
		decoder, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		return decoder.IOReadCloser(), nil
	}
	return io.NopCloser(file), nil
}

// Open opens a file to read it unpacked. Closing what it returns closes the file too.
func Open(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	unpacked, err := Unpack(path, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return packed{unpacked, file}, nil
}

// packed reads unpacked bytes of a file.
type packed struct {
	io.ReadCloser
	file *os.File
}

// Close ends unpacking and closes the file.
func (p packed) Close() error { return errors.Join(p.ReadCloser.Close(), p.file.Close()) }

// File calls use with every line of a file that is not blank, and its number from 1,
// without white space around. A line of more than most bytes comes as nil. The bytes are
// valid during the call only.
func File(path string, most int, use func(row int, line []byte)) (err error) {
	file, err := Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return Lines(file, most, use)
}

// Row reads a line as File gives it into a value. Its error is ErrLong for a line that came
// as nil, ErrText or ErrJSON.
func Row(line []byte, into any) error {
	switch {
	case line == nil:
		return ErrLong
	case !utf8.Valid(line):
		return ErrText
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("%w: %.120v", ErrJSON, err)
	}
	return nil
}

// Lines is File for what a reader gives. A byte order mark in front is dropped.
func Lines(from io.Reader, most int, use func(row int, line []byte)) error {
	reader := bufio.NewReaderSize(from, 1<<16)
	var line []byte
	for row := 1; ; row++ {
		line = line[:0]
		long := false
		var err error
		for {
			var part []byte
			part, err = reader.ReadSlice('\n')
			if len(line)+len(part) > most {
				long = true
			} else if !long {
				line = append(line, part...)
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if row == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		switch trimmed := bytes.TrimSpace(line); {
		case long:
			use(row, nil)
		case len(trimmed) > 0:
			use(row, trimmed)
		}
		if err != nil {
			return nil
		}
	}
}
