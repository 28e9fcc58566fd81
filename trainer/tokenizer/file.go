package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// document is a tokenizer.json. Parts that come in several types stay raw
// until their type is known.
type document struct {
	Version       string          `json:"version"`
	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	Added         []addedEntry    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         modelEntry      `json:"model"`
}

type addedEntry struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

type modelEntry struct {
	Type         string           `json:"type"`
	Dropout      *float64         `json:"dropout"`
	Unknown      *string          `json:"unk_token"`
	Prefix       *string          `json:"continuing_subword_prefix"`
	Suffix       *string          `json:"end_of_word_suffix"`
	FuseUnknown  bool             `json:"fuse_unk"`
	ByteFallback bool             `json:"byte_fallback"`
	IgnoreMerges bool             `json:"ignore_merges"`
	Vocab        map[string]int32 `json:"vocab"`
	Merges       []mergeEntry     `json:"merges"`
}

// mergeEntry is a pair, read from "a b" or ["a","b"], written as the latter.
type mergeEntry [2]string

// UnmarshalJSON reads both spellings of a merge.
func (m *mergeEntry) UnmarshalJSON(b []byte) error {
	var parts []string
	if len(b) > 0 && b[0] == '[' {
		if err := json.Unmarshal(b, &parts); err != nil {
			return err
		}
	} else {
		var line string
		if err := json.Unmarshal(b, &line); err != nil {
			return err
		}
		parts = strings.Split(line, " ")
	}
	if len(parts) != 2 {
		return fmt.Errorf("merge %s is no pair: %w", b, ErrFormat)
	}
	m[0], m[1] = parts[0], parts[1]
	return nil
}

// maxFile bounds a tokenizer.json; the largest known ones have 35 MB.
const maxFile = 256 << 20

// Load reads the tokenizer.json at path.
func Load(path string) (*Tokenizer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Read reads a tokenizer.json. The error is ErrFormat or ErrUnsupported and
// names the part, or is that of r.
func Read(r io.Reader) (*Tokenizer, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("more than %d bytes: %w", maxFile, ErrFormat)
	}
	var d document
	if err := strict(text, &d); err != nil {
		return nil, err
	}
	return build(d)
}

// strict decodes one JSON value and refuses fields that v does not have.
func strict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && len(bytes.TrimSpace(text[d.InputOffset():])) > 0 {
		err = errors.New("text after the object")
	}
	switch {
	case err == nil || errors.Is(err, ErrFormat):
		return err
	case strings.Contains(err.Error(), "unknown field"):
		return fmt.Errorf("%w: %w", err, ErrUnsupported)
	}
	return fmt.Errorf("%w: %w", err, ErrFormat)
}

// Save writes t to path as a tokenizer.json, whole or not at all: write,
// fsync, rename.
func (t *Tokenizer) Save(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := t.Write(f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Write writes t as a tokenizer.json. The same tokenizer gives the same bytes.
func (t *Tokenizer) Write(w io.Writer) error {
	d := document{
		Version: "1.0", Normalizer: t.sections.normalizer, PreTokenizer: t.sections.preTokenizer,
		PostProcessor: t.sections.postProcessor, Decoder: t.sections.decoder,
		Model: modelEntry{Type: "BPE", IgnoreMerges: t.model.whole != nil, Vocab: map[string]int32{}},
	}
	for _, a := range t.added {
		d.Added = append(d.Added, addedEntry{ID: a.ID, Content: a.Content, Special: a.Special})
	}
	for id, token := range t.spelled {
		if token != "" {
			d.Model.Vocab[token] = int32(id)
		}
	}
	for _, p := range t.model.order {
		d.Model.Merges = append(d.Model.Merges, mergeEntry{t.spelled[p[0]], t.spelled[p[1]]})
	}
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return err
	}
	return b.Flush()
}
