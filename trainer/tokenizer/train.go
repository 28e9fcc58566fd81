package tokenizer

import (
	"encoding/json"
	"fmt"
	"iter"
	"sort"
)

// TrainSpec says what vocabulary Train makes.
type TrainSpec struct {
	Merges  int          // merged tokens to learn beyond the 256 bytes
	Pattern string       // regular expression that isolates pre-tokens; no merge crosses them
	Added   []AddedToken // follow the merged tokens, in this order; their ID field is ignored
}

// Train learns a byte-level BPE vocabulary: ids 0-255 are the bytes, then the
// merged tokens by rank, then the added ones. The most frequent pair is merged
// first; on equal counts the one with the lower left id, then right id. The
// result depends on the texts and how often each occurs, not on their order.
// A corpus with fewer than spec.Merges pairs is an error.
func Train(corpus iter.Seq[string], spec TrainSpec) (*Tokenizer, error) {
	d, err := blank(spec)
	if err != nil {
		return nil, err
	}
	t, err := build(d)
	if err != nil {
		return nil, err
	}
	words := t.count(corpus)
	tokens := make([]string, 256)
	known := map[string]int32{} // token -> id; two pairs may make the same token
	learned := map[[2]int32]bool{}
	for b := range tokens {
		tokens[b] = string(byteRunes[b])
		known[tokens[b]] = int32(b)
	}
	for len(tokens) < 256+spec.Merges {
		best, ok := mostFrequent(words)
		if !ok {
			return nil, fmt.Errorf("train: the corpus has pairs for %d merges, %d are wanted: %w", len(tokens)-256, spec.Merges, ErrFormat)
		}
		token := tokens[best[0]] + tokens[best[1]]
		id, again := known[token]
		if !again {
			id = int32(len(tokens))
			tokens = append(tokens, token)
			known[token] = id
		}
		if !learned[best] {
			d.Model.Merges = append(d.Model.Merges, mergeEntry{tokens[best[0]], tokens[best[1]]})
			learned[best] = true
		}
		for i := range words {
			words[i].merge(best, id)
		}
	}
	d.Model.Vocab = known
	for i := range d.Added {
		d.Added[i].ID = int32(len(tokens) + i)
	}
	return build(d)
}

// blank is the document before any merge.
func blank(spec TrainSpec) (document, error) {
	type byteLevel struct {
		Type           string `json:"type"`
		AddPrefixSpace bool   `json:"add_prefix_space"`
		TrimOffsets    bool   `json:"trim_offsets"`
		UseRegex       bool   `json:"use_regex"`
	}
	type splitter struct {
		Type     string            `json:"type"`
		Pattern  map[string]string `json:"pattern"`
		Behavior string            `json:"behavior"`
		Invert   bool              `json:"invert"`
	}
	bytesOnly := byteLevel{Type: "ByteLevel"}
	decoder, err := json.Marshal(bytesOnly)
	if err != nil {
		return document{}, err
	}
	pre, err := json.Marshal(map[string]any{"type": "Sequence", "pretokenizers": []any{
		splitter{Type: "Split", Pattern: map[string]string{"Regex": spec.Pattern}, Behavior: "Isolated"}, bytesOnly,
	}})
	if err != nil {
		return document{}, err
	}
	d := document{Version: "1.0", PreTokenizer: pre, Decoder: decoder}
	d.Model = modelEntry{Type: "BPE", Vocab: map[string]int32{}}
	for b, r := range byteRunes {
		d.Model.Vocab[string(r)] = int32(b)
	}
	for i, a := range spec.Added {
		d.Added = append(d.Added, addedEntry{ID: int32(256 + i), Content: a.Content, Special: a.Special})
	}
	return d, nil
}

// word is a pre-token of the corpus as it is merged so far, and how often it occurs.
type word struct {
	ids   []int32
	times int
}

// count cuts the corpus into words. Added tokens, special ones too, are no
// part of any word.
func (t *Tokenizer) count(corpus iter.Seq[string]) []word {
	all := make([]AddedToken, len(t.added))
	for i, a := range t.added {
		all[i] = AddedToken{ID: a.ID, Content: a.Content}
	}
	marks := newMarks(all)
	times := map[string]int{}
	for text := range corpus {
		for text != "" {
			begin, end, _ := marks.find(text)
			for piece := text[:begin]; piece != ""; {
				n := max(1, validPrefix(piece))
				for _, w := range split(t.steps, piece[:n]) {
					times[w]++
				}
				piece = piece[n:]
			}
			text = text[end:]
		}
	}
	texts := make([]string, 0, len(times))
	for w := range times {
		texts = append(texts, w)
	}
	sort.Strings(texts)
	words := make([]word, len(texts))
	for i, w := range texts {
		words[i] = word{make([]int32, len(w)), times[w]}
		for j := range len(w) {
			words[i].ids[j] = int32(w[j])
		}
	}
	return words
}

// mostFrequent returns the pair to merge next; false when no word has two tokens.
func mostFrequent(words []word) (best [2]int32, ok bool) {
	counts := map[[2]int32]int{}
	for _, w := range words {
		for i := 1; i < len(w.ids); i++ {
			counts[[2]int32{w.ids[i-1], w.ids[i]}] += w.times
		}
	}
	most := 0
	for p, n := range counts {
		lower := p[0] < best[0] || p[0] == best[0] && p[1] < best[1]
		if n > most || n == most && lower {
			best, most = p, n
		}
	}
	return best, most > 0
}

// merge replaces every occurrence of p, leftmost first, by id.
func (w *word) merge(p [2]int32, id int32) {
	kept := w.ids[:0]
	for i := 0; i < len(w.ids); i++ {
		if i+1 < len(w.ids) && w.ids[i] == p[0] && w.ids[i+1] == p[1] {
			kept = append(kept, id)
			i++
			continue
		}
		kept = append(kept, w.ids[i])
	}
	w.ids = kept
}
