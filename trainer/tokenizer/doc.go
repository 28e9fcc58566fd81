// Package tokenizer turns text into token ids and back: byte-level BPE, as
// tokenizer.json files of Llama and Qwen models describe it (spec/models.md
// section 5), and trains small vocabularies of the same kind (spec/nano.md
// section 1).
//
// The text that Encode takes is content: somebody's prompt, a tool's result, a
// model's reply. Special added tokens such as <|im_start|> are never
// recognised in it, so content cannot forge a turn; package chat takes their
// ids from ID. Added tokens that are not special, such as <tool_response>, are
// markup and are recognised.
//
// The package may not know chat formats, models or devices. A tokenizer.json
// that asks for anything else than the list below is refused by name with
// ErrUnsupported, because a tokenizer that is nearly right is wrong:
// normalizer none or NFC; pre-tokenizers Split(regex, isolated),
// Digits(individual), ByteLevel and sequences of them; model BPE; added tokens
// matched on the raw text.
//
// Not covered: WordPiece, Unigram, byte fallback, BPE dropout, templates that
// add BOS or EOS (package chat does that), hostile regular expressions in
// tokenizer.json (they may take exponential time). Character classes and NFC
// are those of Unicode 15, and NFC breaks runs of more than 30 combining marks:
// letters of later versions and such runs may be cut differently from the
// reference library.
package tokenizer
