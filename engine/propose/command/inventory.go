package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

// inventory is what files a folder has, by path below it.
type inventory map[string]fingerprint

// fingerprint changes when a file is written.
type fingerprint struct {
	mode fs.FileMode
	size int64
	time int64 // of the last change, in nanoseconds
}

// runRoot is the run folder that a folder to work in belongs to: itself, or the one above
// where a search without archive has a folder of its own.
func runRoot(folder string) string {
	if _, err := os.Stat(filepath.Join(folder, "..", "run.yaml")); err == nil {
		return filepath.Join(folder, "..")
	}
	return folder
}

// takeInventory lists the files of an archive except the desks of programs, which are in
// folder. Contents are not read: it must stay cheap over many files.
func takeInventory(root, folder string) (inventory, error) {
	files := inventory{}
	err := filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone while it was looked at
		case err != nil:
			return err
		case p == filepath.Join(folder, desk.Proposals):
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
