package searchqa

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// maxLine bounds one line of a file, unpacked.
const maxLine = 4 << 20

// Errors of a line.
var (
	ErrLong = fmt.Errorf("line longer than %d bytes", maxLine)
	ErrJSON = errors.New("broken JSON")
	ErrUTF8 = errors.New("bad UTF-8")
)

// packings are the endings that a file's name may have behind its own.
var packings = []string{"", ".gz", ".zst"}

// unpack reads a file's bytes unpacked by the ending of its name: .gz, .zst or plain.
func unpack(name string, file io.Reader) (io.ReadCloser, error) {
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

// eachLine calls use with every line of a file that is not blank, and its number from 1.
// A line over maxLine comes as nil. The bytes are valid during the call only.
func eachLine(path string, use func(row int, line []byte)) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	unpacked, err := unpack(path, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unpacked.Close()) }()
	return lines(unpacked, use)
}

// lines splits what a reader gives.
func lines(from io.Reader, use func(row int, line []byte)) error {
	reader := bufio.NewReaderSize(from, 1<<16)
	var line []byte
	for row := 1; ; row++ {
		line = line[:0]
		long := false
		var err error
		for {
			var part []byte
			part, err = reader.ReadSlice('\n')
			if len(line)+len(part) > maxLine {
				long = true
			} else {
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
