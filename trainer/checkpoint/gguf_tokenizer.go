package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint/gguf"
)

// ggufPre says which pipeline a tokenizer.ggml.pre stands for (spec/models.md
// 5.1 and 5.3; Llama 3's published pattern).
type ggufPre struct {
	normalizer   string // type, "" for none
	digits       bool   // isolate digits, then ByteLevel with its own pattern
	pattern      string // else split by this, then ByteLevel without pattern
	ignoreMerges bool
}

const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	patternTail  = ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

var ggufPres = map[string]ggufPre{
	"smollm":    {digits: true},
	"qwen2":     {normalizer: "NFC", pattern: contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|` + patternTail},
	"llama-bpe": {pattern: contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` + patternTail, ignoreMerges: true},
}

// Types of a token in tokenizer.ggml.token_type.
const (
	ggufNormal  = 1
	ggufControl = 3 // added token, special
	ggufUser    = 4 // added token, not special
	ggufUnused  = 5 // a row without a token
)

// ggufAdded, ggufPart and ggufTokenizer are the parts of a tokenizer.json that
// a GGUF file can ask for, with every field that the usual libraries insist on.
type (
	ggufAdded struct {
		ID         int32  `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	}
	ggufPart struct {
		Type       string            `json:"type"`
		Parts      []ggufPart        `json:"pretokenizers,omitempty"`
		Pattern    map[string]string `json:"pattern,omitempty"`
		Behavior   string            `json:"behavior,omitempty"`
		Invert     *bool             `json:"invert,omitempty"`
		Individual bool              `json:"individual_digits,omitempty"`
		Prefix     *bool             `json:"add_prefix_space,omitempty"`
		Trim       *bool             `json:"trim_offsets,omitempty"`
		UseRegex   *bool             `json:"use_regex,omitempty"`
	}
	ggufTokenizer struct {
		Version       string      `json:"version"`
		Truncation    *ggufPart   `json:"truncation"`
		Padding       *ggufPart   `json:"padding"`
		Added         []ggufAdded `json:"added_tokens"`
		Normalizer    *ggufPart   `json:"normalizer"`
		PreTokenizer  ggufPart    `json:"pre_tokenizer"`
		PostProcessor *ggufPart   `json:"post_processor"`
		Decoder       ggufPart    `json:"decoder"`
		Model         struct {
			Type         string           `json:"type"`
			IgnoreMerges bool             `json:"ignore_merges"`
			Vocab        map[string]int32 `json:"vocab"`
			Merges       []string         `json:"merges"`
		} `json:"model"`
	}
)

// addTokenizer makes tokenizer.json and tokenizer_config.json of the metadata.
func (g *ggufFolder) addTokenizer(file *gguf.File) error {
	pre, err := ggufPipeline(file)
	if err != nil {
		return err
	}
	tokens, ok, err := file.Texts("tokenizer.ggml.tokens")
	if err != nil || !ok {
		return fmt.Errorf("tokenizer.ggml.tokens: %w", orMissing(err))
	}
	merges, ok, err := file.Texts("tokenizer.ggml.merges")
	if err != nil || !ok {
		return fmt.Errorf("tokenizer.ggml.merges: %w", orMissing(err))
	}
	t := ggufTokenizer{Version: "1.0", PreTokenizer: pre.part(), Decoder: byteLevel(true)}
	if pre.normalizer != "" {
		t.Normalizer = &ggufPart{Type: pre.normalizer}
	}
	t.Model.Type, t.Model.IgnoreMerges, t.Model.Merges = "BPE", pre.ignoreMerges, merges
	if err := t.number(file, tokens); err != nil {
		return err
	}
	if g.files[TokenizerFile], err = plainJSON(t); err != nil {
		return err
	}
	return g.addTokenizerConfig(file, tokens)
}

func orMissing(err error) error {
	if err == nil {
		return ErrMissing
	}
	return err
}

// ggufPipeline looks up the pipeline by its name.
func ggufPipeline(file *gguf.File) (ggufPre, error) {
	model, _, err := file.Text("tokenizer.ggml.model")
	if err != nil {
		return ggufPre{}, err
	}
	if model != "gpt2" {
		return ggufPre{}, fmt.Errorf("tokenizer.ggml.model %q is not gpt2: %w", model, ErrUnsupported)
	}
	name, _, err := file.Text("tokenizer.ggml.pre")
	if err != nil {
		return ggufPre{}, err
	}
	pre, ok := ggufPres[name]
	if !ok {
		return ggufPre{}, fmt.Errorf("tokenizer.ggml.pre %q is none of %v: %w", name, sortedKeys(ggufPres), ErrUnsupported)
	}
	if space, _, err := file.Bool("tokenizer.ggml.add_space_prefix"); err != nil || space {
		return ggufPre{}, fmt.Errorf("tokenizer.ggml.add_space_prefix is set: %w", ErrUnsupported)
	}
	return pre, nil
}

func (p ggufPre) part() ggufPart {
	first := ggufPart{Type: "Split", Pattern: map[string]string{"Regex": p.pattern}, Behavior: "Isolated", Invert: new(bool)}
	if p.digits {
		first = ggufPart{Type: "Digits", Individual: true}
	}
	return ggufPart{Type: "Sequence", Parts: []ggufPart{first, byteLevel(p.digits)}}
}

// byteLevel maps bytes to letters, after a split by its own pattern or without.
func byteLevel(ownPattern bool) ggufPart {
	return ggufPart{Type: "ByteLevel", Prefix: new(bool), Trim: new(bool), UseRegex: &ownPattern}
}

// number gives every token its id. Rows without a token at the end are padding
// and get none; between tokens they become control tokens, which no text can
// spell. An added token below the last of the vocabulary is in that too: readers
// that count on would give it another id.
func (t *ggufTokenizer) number(file *gguf.File, tokens []string) error {
	const key = "tokenizer.ggml.token_type"
	types, ok, err := file.Ints(key)
	if err != nil || !ok {
		return fmt.Errorf("%s: %w", key, orMissing(err))
	}
	if len(types) != len(tokens) {
		return fmt.Errorf("%d of %s for %d tokens: %w", len(types), key, len(tokens), ErrFormat)
	}
	for len(tokens) > 0 && types[len(tokens)-1] == ggufUnused {
		tokens = tokens[:len(tokens)-1]
	}
	t.Model.Vocab = make(map[string]int32, len(tokens))
	seen := make(map[string]int, len(tokens))
	for i, token := range tokens {
		if j, ok := seen[token]; ok {
			return fmt.Errorf("tokens %d and %d are both %q: %w", j, i, token, ErrFormat)
		}
		seen[token] = i
		switch types[i] {
		case ggufNormal:
			t.Model.Vocab[token] = int32(i)
		case ggufControl, ggufUser, ggufUnused:
			t.Added = append(t.Added, ggufAdded{ID: int32(i), Content: token, Special: types[i] != ggufUser})
		default:
			return fmt.Errorf("token %d %q has type %d: %w", i, token, types[i], ErrUnsupported)
		}
	}
	last := slices.Max(append(slices.Collect(maps.Values(t.Model.Vocab)), -1))
	for _, a := range t.Added {
		if a.ID < last {
			t.Model.Vocab[a.Content] = a.ID
		}
	}
	return nil
}

// addTokenizerConfig makes what the chat format needs beside the tokenizer.
func (g *ggufFolder) addTokenizerConfig(file *gguf.File, tokens []string) (err error) {
	var out struct {
		Class    string `json:"tokenizer_class"`
		CleanUp  bool   `json:"clean_up_tokenization_spaces"`
		BOS      string `json:"bos_token,omitempty"`
		EOS      string `json:"eos_token,omitempty"`
		Template string `json:"chat_template,omitempty"`
	}
	out.Class = "PreTrainedTokenizerFast" // the pipeline is that of tokenizer.json, whatever the family
	token := func(key string) string {
		id, ok, failed := file.Uint(key)
		switch {
		case err != nil || !ok && failed == nil:
		case failed != nil:
			err = failed
		case id >= uint64(len(tokens)):
			err = fmt.Errorf("%s is %d of %d tokens: %w", key, id, len(tokens), ErrFormat)
		default:
			return tokens[id]
		}
		return ""
	}
	out.BOS, out.EOS = token("tokenizer.ggml.bos_token_id"), token("tokenizer.ggml.eos_token_id")
	if err != nil {
		return err
	}
	if out.Template, _, err = file.Text("tokenizer.chat_template"); err != nil {
		return err
	}
	g.files[TokenizerConfigFile], err = plainJSON(out)
	return err
}

// plainJSON renders v without escaping what is only special to HTML.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}
