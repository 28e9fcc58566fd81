package searchqa

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/bench/jsonl"
	"github.com/seed-7c27e6b8/whale/bench/searchqa/bm25"
)

// readCorpus reads the passages of a corpus in Search-R1 form, one JSON object a line
// with `id` and `contents`. Bad UTF-8 becomes U+FFFD and is counted; an id may come once.
func readCorpus(path string) (iter.Seq[bm25.Passage], note, error) {
	var passages []bm25.Passage
	var n note
	seen := map[string]bool{}
	err := jsonl.File(path, maxLine, func(row int, line []byte) {
		p, repaired, err := parsePassage(line)
		if err == nil && seen[p.ID] {
			err = ErrDuplicate
		}
		if err != nil {
			if len(n.Bad) < maxBadPassages {
				n.Bad = append(n.Bad, badPassage{Row: row, Why: err.Error()})
			} else {
				n.More++
			}
			return
		}
		seen[p.ID] = true
		n.Good++
		if repaired {
			n.Repaired++
		}
		passages = append(passages, p)
	})
	return slices.Values(passages), n, err
}

// parsePassage reads one line; repaired tells that bad UTF-8 in it became U+FFFD.
func parsePassage(line []byte) (p bm25.Passage, repaired bool, err error) {
	if line == nil {
		return p, false, jsonl.ErrLong
	}
	var row struct {
		ID       json.RawMessage `json:"id"`
		Contents string          `json:"contents"`
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return p, false, fmt.Errorf("%w: %s", jsonl.ErrJSON, clip(err.Error(), 120))
	}
	// A number is an id as well as a text is.
	id := string(row.ID)
	if strings.HasPrefix(id, `"`) {
		if err := json.Unmarshal(row.ID, &id); err != nil {
			return p, false, errors.Join(jsonl.ErrJSON, err)
		}
	}
	switch {
	case id == "" || id == "null":
		return p, false, ErrID
	case strings.TrimSpace(row.Contents) == "":
		return p, false, ErrContents
	}
	return bm25.Passage{ID: id, Text: row.Contents}, mended(line, row.Contents), nil
}

// mended tells whether decoding replaced something: bytes that are no UTF-8, or half a
// surrogate pair written as an escape.
func mended(line []byte, contents string) bool {
	if !utf8.Valid(line) {
		return true
	}
	const mark = "\uFFFD"
	return strings.Contains(contents, mark) && !bytes.Contains(line, []byte(mark)) &&
		!bytes.Contains(bytes.ToLower(line), []byte(`\ufffd`))
}
