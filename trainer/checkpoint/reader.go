package checkpoint

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
)

// readerAt returns random access to file: its own when it offers that, else
// its bytes in memory, bounded by size. More or fewer bytes than size is ErrFormat.
func readerAt(file fs.File, size int64) (io.ReaderAt, error) {
	if r, ok := file.(io.ReaderAt); ok {
		return r, nil
	}
	b, err := io.ReadAll(io.LimitReader(file, size+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != size {
		return nil, fmt.Errorf("file claims %d bytes and holds %d or more: %w", size, len(b), ErrFormat)
	}
	return bytes.NewReader(b), nil
}
