package main

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/seed-7c27e6b8/whale/engine"
)

// writeFile writes a file that has its name only when it is whole; one that was there
// before stays until then. A pipe or a device is written to as it is.
func writeFile(path string, write func(io.Writer) error) error {
	return engine.Fail(engine.AtArchive, path, fill(path, write))
}

func fill(path string, write func(io.Writer) error) (err error) {
	if there, err := os.Stat(path); err == nil && !there.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(buffered(f, write), f.Close())
	}
	temporary := path + ".tmp"
	f, err := os.Create(temporary)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temporary))
		}
	}()
	if err := errors.Join(buffered(f, write), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

func buffered(to io.Writer, write func(io.Writer) error) error {
	b := bufio.NewWriter(to)
	return errors.Join(write(b), b.Flush())
}
