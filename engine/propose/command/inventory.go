package command

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// inventory is what files a folder has, by path below it.
type inventory map[string]fingerprint

// fingerprint changes when a file is written.
type fingerprint struct {
	mode fs.FileMode
	size int64
	time int64 // of the last change, in nanoseconds
}

// takeInventory lists the files of an archive except the desks of programs. Contents are
// not read: it must stay cheap over many files.
func takeInventory(root string) (inventory, error) {
	files := inventory{}
	err := filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone while it was looked at
		case err != nil:
			return err
		case p == filepath.Join(root, proposals):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		files[name] = fingerprint{info.Mode(), info.Size(), info.ModTime().UnixNano()}
		return err
	})
	return files, err
}

// changes lists what was added, changed or removed, sorted. Growth of a .jsonl file is
// none: the run itself appends to its journals at any time.
func (before inventory) changes(after inventory) []string {
	var list []string
	for name, now := range after {
		old, ok := before[name]
		switch {
		case !ok:
			list = append(list, name+" is new")
		case filepath.Ext(name) == ".jsonl" && now.size > old.size && now.mode == old.mode:
		case old != now:
			list = append(list, name+" changed")
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			list = append(list, name+" is gone")
		}
	}
	slices.Sort(list)
	return list
}

// copyArchive copies the regular files of an archive except the desks.
func copyArchive(from, to string) error {
	return filepath.WalkDir(from, func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case name == proposals:
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case entry.Type().IsRegular():
			return copyFile(p, target)
		}
		return nil
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
