package searchqa

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/bench/jsonl"
	"github.com/seed-7c27e6b8/whale/bench/searchqa/bm25"
	"github.com/seed-7c27e6b8/whale/engine"
)

// readFolder reads the question files of a folder in the order of their names.
func readFolder(dir string, parquet RowFile) (train, test []*question, reports []Report, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, nil, engine.Fail(engine.AtTask, Name, err)
	}
	teach, examine := newReader(), newReader()
	var files []*Report
	defer func() {
		for _, r := range files {
			reports = append(reports, *r)
		}
	}()
	for _, entry := range entries {
		stem, form := split(entry.Name())
		into := teach
		switch {
		case form == "" || entry.IsDir():
			continue
		case stem == "test" || strings.HasSuffix(stem, "_test"):
			into = examine
		case stem != "train" && !strings.HasSuffix(stem, "_train"):
			continue
		}
		report := &Report{File: entry.Name()}
		files = append(files, report)
		if err := into.read(filepath.Join(dir, entry.Name()), form, stem, report, parquet); err != nil {
			return nil, nil, nil, engine.Fail(engine.AtTask, entry.Name(), err)
		}
	}
	teach.apart(examine)
	return teach.questions, examine.questions, nil, nil
}

// split takes a file's name apart: what stands before its form, and the form, jsonl or
// parquet; "" for other files.
func split(name string) (stem, form string) {
	for _, packing := range jsonl.Packings {
		if stem, ok := strings.CutSuffix(name, ".jsonl"+packing); ok {
			return stem, "jsonl"
		}
	}
	if stem, ok := strings.CutSuffix(name, ".parquet"); ok {
		return stem, "parquet"
	}
	return name, ""
}

func (rd *reader) read(path, form, stem string, report *Report, parquet RowFile) error {
	if form == "jsonl" {
		return jsonl.File(path, maxLine, func(row int, line []byte) {
			var r Row
			err := jsonl.Row(line, &r)
			rd.take(r, err, row, stem, report)
		})
	}
	if parquet == nil {
		return ErrParquet
	}
	return parquet(path, func(row int, r Row, err error) { rd.take(r, err, row, stem, report) })
}

// maxLine bounds one line of a file, unpacked, in bytes.
const maxLine = 4 << 20

// maxBadPassages is how many bad passages a report lists.
const maxBadPassages = 20

// Errors of a row of a corpus, beside those of lines.
var (
	ErrContents = errors.New("no contents")
	// ErrPassage is a bad row of an indexed corpus; the reason is in its text.
	ErrPassage = errors.New("bad passage")
)

// openCorpus opens the index of the corpus in a folder and builds it when the cache has
// none of these bytes. The report is the one made when it was built.
func openCorpus(dir, cache string) (*bm25.Index, Report, error) {
	path, err := find(dir, "corpus.jsonl")
	if err != nil {
		return nil, Report{}, engine.Fail(engine.AtTask, Name, err)
	}
	name := filepath.Base(path)
	key, err := hash(path)
	if err != nil {
		return nil, Report{}, engine.Fail(engine.AtTask, name, err)
	}
	if cache == "" {
		if cache, err = os.UserCacheDir(); err != nil {
			cache = os.TempDir()
		}
		cache = filepath.Join(cache, "whale")
	}
	stored := filepath.Join(cache, fmt.Sprintf("bm25-%x.idx", key[:8]))
	index, err := bm25.Open(stored, key)
	var report Report
	if err != nil {
		again := !errors.Is(err, os.ErrNotExist) // the cache holds something else there
		why := err
		if index, err = buildCorpus(path, key, stored); err != nil {
			return nil, report, engine.Fail(engine.AtTask, name, err)
		}
		report = readNote(index, name)
		if again {
			report.Note = strings.TrimSpace(report.Note + fmt.Sprintf(" the stored index was made anew: %v", why))
		}
	} else {
		report = readNote(index, name)
	}
	if !index.Mapped() {
		report.Note = strings.TrimSpace(report.Note + " the index is in memory only: it could not be stored in " + cache)
	}
	if index.Len() == 0 {
		return nil, report, engine.Fail(engine.AtTask, name, ErrCorpus)
	}
	return index, report, nil
}

// find returns the path of a file or its packed form.
func find(dir, name string) (string, error) {
	for _, packing := range jsonl.Packings {
		path := filepath.Join(dir, name+packing)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("%w: no %s (.gz, .zst) in the folder, and no retrieval server is named", ErrCorpus, name)
}

// indexVersion changes when the same corpus would be read into other passages.
const indexVersion = "searchqa corpus 1\n"

// hash is the content of a file as a key.
func hash(path string) (key bm25.Key, err error) {
	file, err := os.Open(path)
	if err != nil {
		return key, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum := sha256.New()
	sum.Write([]byte(indexVersion))
	if _, err := io.Copy(sum, file); err != nil {
		return key, err
	}
	return bm25.Key(sum.Sum(nil)), nil
}

// note is the report of a corpus as it is kept beside the index.
type note struct {
	Good, Repaired, More int
	Bad                  []badPassage
}

type badPassage struct {
	Row int
	Why string
}

// readNote makes the report of a corpus from what is kept with its index.
func readNote(index *bm25.Index, name string) Report {
	var n note
	if err := json.Unmarshal(index.Note(), &n); err != nil {
		return Report{File: name, Good: index.Len(), Note: fmt.Sprintf("the report kept with the index can't be read: %v", err)}
	}
	report := Report{File: name, Good: n.Good, Repaired: n.Repaired, More: n.More}
	for _, bad := range n.Bad {
		report.Bad = append(report.Bad, &bench.RowError{File: name, Row: bad.Row, Err: fmt.Errorf("%w: %s", ErrPassage, bad.Why)})
	}
	return report
}

// buildCorpus reads a corpus and makes its index, stored and mapped if the cache can be
// written, in memory otherwise.
func buildCorpus(path string, key bm25.Key, stored string) (*bm25.Index, error) {
	passages, n, err := readCorpus(path)
	if err != nil {
		return nil, err
	}
	kept, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	data, err := bm25.Build(key, kept, passages)
	if err != nil {
		return nil, err
	}
	if err := bm25.Store(stored, data); err != nil {
		return bm25.Parse(data) // reported by the caller: it is not mapped
	}
	return bm25.Open(stored, key)
}
