//go:build unix

package bm25

import (
	"errors"
	"os"
	"syscall"
)

// mapFile maps a whole file read-only and returns what gives it back.
func mapFile(path string) (data []byte, unmap func() error, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	// The mapping outlives the file descriptor.
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() < int64(headerSize) || int64(int(info.Size())) != info.Size() {
		return nil, nil, ErrFormat
	}
	data, err = syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, &os.PathError{Op: "mmap", Path: path, Err: err}
	}
	return data, func() error { return syscall.Munmap(data) }, nil
}
