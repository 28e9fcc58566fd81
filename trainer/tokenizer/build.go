package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
)

// sections are the parts of a document that Save writes back as they were.
type sections struct {
	normalizer, preTokenizer, postProcessor, decoder json.RawMessage
}

// part is any typed section of a document: the union of the fields of all
// types that are supported, each refused unless it belongs to its type's use.
type part struct {
	Type           string            `json:"type"`
	Pattern        map[string]string `json:"pattern"`
	Behavior       string            `json:"behavior"`
	Invert         bool              `json:"invert"`
	Individual     bool              `json:"individual_digits"`
	AddPrefixSpace bool              `json:"add_prefix_space"`
	TrimOffsets    bool              `json:"trim_offsets"`
	UseRegex       *bool             `json:"use_regex"`
	PreTokenizers  []json.RawMessage `json:"pretokenizers"`
	Normalizers    []json.RawMessage `json:"normalizers"`
	Decoders       []json.RawMessage `json:"decoders"`
	Processors     []json.RawMessage `json:"processors"`
	Single         json.RawMessage   `json:"single"`
	Pair           json.RawMessage   `json:"pair"`
	Tokens         json.RawMessage   `json:"special_tokens"`
}

// maxNesting bounds sequences of sequences; files in use have one level.
const maxNesting = 4

// flatten reads a section and opens its sequences.
func flatten(raw json.RawMessage) ([]part, error) { return flattenTo(raw, maxNesting) }

func flattenTo(raw json.RawMessage, levels int) ([]part, error) {
	if absent(raw) {
		return nil, nil
	}
	if levels == 0 {
		return nil, fmt.Errorf("sequences nested deeper than %d: %w", maxNesting, ErrUnsupported)
	}
	var p part
	if err := strict(raw, &p); err != nil {
		return nil, err
	}
	if p.Type != "Sequence" {
		return []part{p}, nil
	}
	var all []part
	for _, raw := range slices.Concat(p.PreTokenizers, p.Normalizers, p.Decoders, p.Processors) {
		parts, err := flattenTo(raw, levels-1)
		if err != nil {
			return nil, err
		}
		all = append(all, parts...)
	}
	return all, nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// build checks a document and makes the tokenizer.
func build(d document) (*Tokenizer, error) {
	if d.Version != "1.0" {
		return nil, fmt.Errorf("version %q: %w", d.Version, ErrUnsupported)
	}
	if !absent(d.Truncation) || !absent(d.Padding) {
		return nil, fmt.Errorf("truncation or padding: %w", ErrUnsupported)
	}
	t := &Tokenizer{sections: sections{d.Normalizer, d.PreTokenizer, d.PostProcessor, d.Decoder}}
	if err := t.buildVocab(d); err != nil {
		return nil, err
	}
	if err := t.buildModel(d.Model); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := t.buildNormalizer(d.Normalizer); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if err := t.buildSteps(d.PreTokenizer); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if err := checkTypes(d.PostProcessor, "ByteLevel", "TemplateProcessing"); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if err := checkTypes(d.Decoder, "ByteLevel"); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	if absent(d.Decoder) {
		return nil, fmt.Errorf("decoder: none, ByteLevel is needed: %w", ErrUnsupported)
	}
	return t, nil
}

// checkTypes refuses a section that holds another type. The two that are
// allowed for post_processor only change offsets, or add tokens around
// content, which Encode never does.
func checkTypes(raw json.RawMessage, allowed ...string) error {
	parts, err := flatten(raw)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if !slices.Contains(allowed, p.Type) {
			return fmt.Errorf("type %q: %w", p.Type, ErrUnsupported)
		}
	}
	return nil
}

func (t *Tokenizer) buildNormalizer(raw json.RawMessage) error {
	if err := checkTypes(raw, "NFC"); err != nil {
		return err
	}
	parts, err := flatten(raw)
	t.normalize = len(parts) > 0
	return err
}

// buildSteps makes the pre-tokenizer; ByteLevel must come last, because what
// follows it would see mapped bytes.
func (t *Tokenizer) buildSteps(raw json.RawMessage) error {
	parts, err := flatten(raw)
	if err != nil {
		return err
	}
	for i, p := range parts {
		if last := i == len(parts)-1; last != (p.Type == "ByteLevel") {
			return fmt.Errorf("type %q at place %d of %d, ByteLevel must be the last: %w", p.Type, i+1, len(parts), ErrUnsupported)
		}
		switch p.Type {
		case "Split":
			pattern, ok := p.Pattern["Regex"]
			if !ok || p.Behavior != "Isolated" || p.Invert {
				return fmt.Errorf("type Split with pattern %v, behavior %q, invert %v: %w", p.Pattern, p.Behavior, p.Invert, ErrUnsupported)
			}
			s, err := isolate(pattern)
			if err != nil {
				return err
			}
			t.steps = append(t.steps, s)
		case "Digits":
			if !p.Individual {
				return fmt.Errorf("type Digits without individual_digits: %w", ErrUnsupported)
			}
			t.steps = append(t.steps, digits)
		case "ByteLevel":
			if p.AddPrefixSpace {
				return fmt.Errorf("type ByteLevel with add_prefix_space: %w", ErrUnsupported)
			}
			if p.UseRegex != nil && !*p.UseRegex {
				continue
			}
			s, err := isolate(gpt2)
			if err != nil {
				return err
			}
			t.steps = append(t.steps, s)
		default:
			return fmt.Errorf("type %q: %w", p.Type, ErrUnsupported)
		}
	}
	if len(parts) == 0 {
		return fmt.Errorf("none, ByteLevel is needed: %w", ErrUnsupported)
	}
	return nil
}

// buildVocab numbers vocab and added tokens; together they must fill 0 to n-1.
func (t *Tokenizer) buildVocab(d document) error {
	size := 0
	seen := map[int32]string{}
	claim := func(id int32, token string) error {
		if id < 0 || token == "" {
			return fmt.Errorf("token %q has id %d: %w", token, id, ErrFormat)
		}
		if other, ok := seen[id]; ok && other != token {
			return fmt.Errorf("tokens %q and %q share id %d: %w", min(other, token), max(other, token), id, ErrFormat)
		}
		seen[id] = token
		size = max(size, int(id)+1)
		return nil
	}
	for token, id := range d.Model.Vocab {
		if err := claim(id, token); err != nil {
			return err
		}
	}
	for _, a := range d.Added {
		if a.SingleWord || a.LStrip || a.RStrip || a.Normalized {
			return fmt.Errorf("added token %q: single_word, lstrip, rstrip or normalized: %w", a.Content, ErrUnsupported)
		}
		if id, ok := d.Model.Vocab[a.Content]; ok && id != a.ID {
			return fmt.Errorf("added token %q has id %d and %d in vocab: %w", a.Content, a.ID, id, ErrFormat)
		}
		if err := claim(a.ID, a.Content); err != nil {
			return err
		}
	}
	if len(seen) != size {
		return fmt.Errorf("%d tokens for ids up to %d: there are gaps: %w", len(seen), size-1, ErrFormat)
	}
	t.text, t.spelled = make([]string, size), make([]string, size)
	t.ids, t.special = map[string]int32{}, map[int32]bool{}
	for _, a := range d.Added {
		if _, ok := t.ids[a.Content]; ok {
			return fmt.Errorf("added token %q appears twice: %w", a.Content, ErrFormat)
		}
		t.ids[a.Content] = a.ID
		t.text[a.ID] = a.Content
		t.added = append(t.added, AddedToken{a.ID, a.Content, a.Special})
		if a.Special {
			t.special[a.ID] = true
		}
	}
	slices.SortFunc(t.added, func(a, b AddedToken) int { return int(a.ID - b.ID) })
	t.marks = newMarks(t.added)
	return t.spellVocab(d.Model.Vocab)
}

// spellVocab fills the tables id -> spelling and id -> bytes.
func (t *Tokenizer) spellVocab(vocab map[string]int32) error {
	for token, id := range vocab {
		t.spelled[id] = token
	}
	for id, token := range t.spelled {
		if token == "" || t.text[id] != "" {
			continue
		}
		raw, err := unspell(token)
		if err != nil {
			return err
		}
		t.text[id] = raw
	}
	return nil
}

// buildModel makes the merge tables. A byte without a token is an error when
// the model names an unk_token, which would stand for it.
func (t *Tokenizer) buildModel(m modelEntry) error {
	switch {
	case m.Type != "BPE":
		return fmt.Errorf("type %q: %w", m.Type, ErrUnsupported)
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("dropout %v: %w", *m.Dropout, ErrUnsupported)
	case m.Prefix != nil && *m.Prefix != "":
		return fmt.Errorf("continuing_subword_prefix %q: %w", *m.Prefix, ErrUnsupported)
	case m.Suffix != nil && *m.Suffix != "":
		return fmt.Errorf("end_of_word_suffix %q: %w", *m.Suffix, ErrUnsupported)
	case m.ByteFallback:
		return fmt.Errorf("byte_fallback: %w", ErrUnsupported)
	}
	t.model = bpe{merges: make(map[uint64]merge, len(m.Merges)), cache: newCache()}
	for b, r := range byteRunes {
		id, ok := m.Vocab[string(r)]
		if !ok && m.Unknown != nil {
			return fmt.Errorf("no token for byte %d (%q), so unk_token %q has work: %w", b, r, *m.Unknown, ErrUnsupported)
		}
		if !ok {
			t.model.single[b], t.model.gaps = noToken, true
			continue
		}
		if err := t.checkReachable(id); err != nil {
			return err
		}
		t.model.single[b] = id
	}
	for rank, p := range m.Merges {
		left, okLeft := m.Vocab[p[0]]
		right, okRight := m.Vocab[p[1]]
		id, ok := m.Vocab[p[0]+p[1]]
		if !okLeft || !okRight || !ok {
			return fmt.Errorf("merge %d of %q and %q: a part or the result is not in the vocab: %w", rank, p[0], p[1], ErrFormat)
		}
		if err := t.checkReachable(id); err != nil {
			return fmt.Errorf("merge %d: %w", rank, err)
		}
		if _, ok := t.model.merges[pair(left, right)]; ok {
			return fmt.Errorf("merge %d of %q and %q appears twice: %w", rank, p[0], p[1], ErrFormat)
		}
		t.model.merges[pair(left, right)] = merge{int32(rank), id}
		t.model.order = append(t.model.order, [2]int32{left, right})
	}
	if m.IgnoreMerges {
		t.model.whole = make(map[string]int32, len(m.Vocab))
		for id, token := range t.spelled {
			if token != "" && t.checkReachable(int32(id)) == nil {
				t.model.whole[t.text[id]] = int32(id)
			}
		}
	}
	return nil
}

// checkReachable refuses a token that BPE would produce from content but that
// is a control token, or an added token with other bytes than its spelling.
func (t *Tokenizer) checkReachable(id int32) error {
	if t.special[id] {
		return fmt.Errorf("content can become the control token %q: %w", t.text[id], ErrUnsupported)
	}
	if raw, err := unspell(t.spelled[id]); err != nil || raw != t.text[id] {
		return fmt.Errorf("added token %q is also the spelling of other bytes: %w", t.text[id], ErrUnsupported)
	}
	return nil
}
