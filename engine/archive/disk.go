package archive

import (
	"io/fs"
	"os"
	"path/filepath"
)

// disk is how the archive writes. Tests put faults into its functions.
type disk struct {
	write  func(f *os.File, b []byte) error
	rename func(from, to string) error
	remove func(path string) error // with all that is in it
	sync   func(f *os.File) error
}

func realDisk() disk {
	return disk{
		write:  func(f *os.File, b []byte) error { _, err := f.Write(b); return err },
		rename: os.Rename,
		remove: os.RemoveAll,
		sync:   (*os.File).Sync,
	}
}

// temporary marks names that are not published; Open removes them.
const temporary = ".tmp-"

// put publishes a file: whole or not at all.
func (d disk) put(path string, content []byte) error {
	temp := filepath.Join(filepath.Dir(path), temporary+filepath.Base(path))
	if err := d.create(temp, content); err != nil {
		os.Remove(temp) // what matters is err; Open removes what stays
		return err
	}
	if err := d.rename(temp, path); err != nil {
		return err
	}
	return d.syncPath(filepath.Dir(path))
}

// create writes and syncs a file under its own name.
func (d disk) create(path string, content []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close() // after a successful Sync nothing is left to fail
	if err := d.write(f, content); err != nil {
		return err
	}
	return d.sync(f)
}

// publish syncs a folder's files and renames it. The target must not exist.
func (d disk) publish(temp, path string) error {
	err := filepath.WalkDir(temp, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return d.syncPath(p) // works for files as well
	})
	if err != nil {
		return err
	}
	if err := d.rename(temp, path); err != nil {
		return err
	}
	return d.syncPath(filepath.Dir(path))
}

// syncPath syncs a file or folder by name.
func (d disk) syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return d.sync(f)
}

// log is a file that only grows, by whole lines.
type log struct {
	disk disk
	file *os.File
	size int64
}

// openLog opens a log and cuts it to so many bytes.
func openLog(d disk, path string, size int64) (*log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	l := &log{disk: d, file: f}
	if err := l.cut(size); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

// append adds a line and syncs it. When that fails the log is cut back to what it was.
func (l *log) append(line []byte) error {
	err := l.disk.write(l.file, line)
	if err == nil {
		err = l.disk.sync(l.file)
	}
	if err != nil {
		l.cut(l.size) // what matters is err; a torn line is cut at the next Open as well
		return err
	}
	l.size += int64(len(line))
	return nil
}

func (l *log) cut(size int64) error {
	if err := l.file.Truncate(size); err != nil {
		return err
	}
	if _, err := l.file.Seek(size, 0); err != nil {
		return err
	}
	l.size = size
	return l.disk.sync(l.file)
}
