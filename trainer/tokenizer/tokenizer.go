package tokenizer

import (
	"errors"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

var (
	// ErrFormat marks a tokenizer.json that contradicts itself.
	ErrFormat = errors.New("malformed tokenizer")
	// ErrUnsupported marks a tokenizer.json that asks for what is not done here.
	ErrUnsupported = errors.New("unsupported tokenizer")
)

// AddedToken is a token that is matched on the raw text as a whole.
type AddedToken struct {
	ID      int32
	Content string
	Special bool // control token: has an id, is never recognised in content
}

// Tokenizer is immutable once made and safe for concurrent use.
type Tokenizer struct {
	text      []string // id -> bytes it stands for; an added token stands for its content
	spelled   []string // id -> spelling in the model's vocab, "" for ids that are only added
	added     []AddedToken
	ids       map[string]int32 // content -> id, added tokens only
	special   map[int32]bool
	marks     marks
	normalize bool // NFC
	steps     []step
	model     bpe
	sections  sections // as read, so that Save writes them back
}

// Size returns the number of ids; ids are 0 to Size-1 without gaps.
func (t *Tokenizer) Size() int { return len(t.text) }

// ID returns the id of an added token, special or not, by its content.
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// Special reports whether id is a control token.
func (t *Tokenizer) Special(id int32) bool { return t.special[id] }

// Added returns the added tokens in id order.
func (t *Tokenizer) Added() []AddedToken { return append([]AddedToken(nil), t.added...) }

// Encode returns the ids of content (see the package doc: special tokens are
// plain text here). Bytes that are no UTF-8 are encoded one by one, so without
// a normalizer, and with a token for every byte, Bytes gives back exactly text.
func (t *Tokenizer) Encode(text string) []int32 {
	var ids []int32
	for text != "" {
		begin, end, id := t.marks.find(text)
		if begin > 0 {
			ids = t.encodePiece(ids, text[:begin])
		}
		if begin < len(text) {
			ids = append(ids, id)
		}
		text = text[end:]
	}
	return ids
}

// encodePiece appends the ids of a piece without added tokens.
func (t *Tokenizer) encodePiece(ids []int32, piece string) []int32 {
	if t.normalize {
		piece = norm.NFC.String(piece)
	}
	for piece != "" {
		n := validPrefix(piece)
		if n == 0 {
			ids = t.model.encode(ids, piece[:1])
			piece = piece[1:]
			continue
		}
		for _, word := range split(t.steps, piece[:n]) {
			ids = t.model.encode(ids, word)
		}
		piece = piece[n:]
	}
	return ids
}

// validPrefix returns the length of the longest prefix of s that is UTF-8.
func validPrefix(s string) int {
	for i := 0; i < len(s); {
		_, size := utf8.DecodeRuneInString(s[i:])
		if size == 1 && s[i] >= utf8.RuneSelf {
			return i
		}
		i += size
	}
	return len(s)
}
