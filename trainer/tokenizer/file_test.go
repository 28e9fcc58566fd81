package tokenizer

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// document text to damage: the nano fixture.
func source(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "tokenizer", "nano.json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Ensure that whatever is not done here is refused and named.
func TestReadRefusesByName(t *testing.T) {
	const added = `"special":true}`
	cases := []struct {
		name, old, new string
		kind           error
		says           string
	}{
		{"other model", `"type":"BPE"`, `"type":"Unigram"`, ErrUnsupported, "Unigram"},
		{"dropout", `"dropout":null`, `"dropout":0.1`, ErrUnsupported, "dropout"},
		{"byte fallback", `"byte_fallback":false`, `"byte_fallback":true`, ErrUnsupported, "byte_fallback"},
		{"prefix", `"continuing_subword_prefix":null`, `"continuing_subword_prefix":"##"`, ErrUnsupported, "##"},
		{"suffix", `"end_of_word_suffix":null`, `"end_of_word_suffix":"</w>"`, ErrUnsupported, "</w>"},
		{"normalizer", `"normalizer":null`, `"normalizer":{"type":"NFKC"}`, ErrUnsupported, "NFKC"},
		{"truncation", `"truncation":null`, `"truncation":{"max_length":5}`, ErrUnsupported, "truncation"},
		{"version", `"version":"1.0"`, `"version":"2.0"`, ErrUnsupported, "2.0"},
		{"unknown field", `"version":"1.0"`, `"version":"1.0","extra":1`, ErrUnsupported, "extra"},
		{"unknown step", `"type":"Split"`, `"type":"Whitespace"`, ErrUnsupported, "Whitespace"},
		{"merged split", `"behavior":"Isolated"`, `"behavior":"MergedWithNext"`, ErrUnsupported, "MergedWithNext"},
		{"inverted split", `"invert":false`, `"invert":true`, ErrUnsupported, "invert"},
		{"bad regex", `[A-Z]+|`, `([A-Z]+|`, ErrUnsupported, "pattern"},
		{"prefix space", `"add_prefix_space":false`, `"add_prefix_space":true`, ErrUnsupported, "add_prefix_space"},
		{"no pre-tokenizer", `"pre_tokenizer":{`, `"pre_tokenizer":null,"post_processor":{`, ErrUnsupported, "ByteLevel is needed"},
		{"decoder", `"decoder":{"type":"ByteLevel"`, `"decoder":{"type":"Metaspace"`, ErrUnsupported, "Metaspace"},
		{"stripping token", `"lstrip":false`, `"lstrip":true`, ErrUnsupported, "<|endoftext|>"},
		{"normalized token", `"normalized":false,` + added, `"normalized":true,` + added, ErrUnsupported, "<|endoftext|>"},
		{"twice the same id", `{"id":357,`, `{"id":356,`, ErrFormat, "share id 356"},
		{"gap", `{"id":363,`, `{"id":900,`, ErrFormat, "gaps"},
		{"negative id", `{"id":357,`, `{"id":-1,`, ErrFormat, "<|im_start|>"},
		{"byte missing", `"!":0,`, `"!!":0,`, ErrFormat, "not in the vocab"},
		{"no spelling of bytes", `"merges":[`, `"extra":[`, ErrUnsupported, "extra"},
		{"byte as control token", `"content":"<|im_end|>"`, `"content":"!"`, ErrFormat, "!"},
		{"merge of nothing", `"merges":[`, `"merges":[["zz","zz"],`, ErrFormat, "zz"},
		{"merge of three", `"merges":[`, `"merges":["a b c",`, ErrFormat, "no pair"},
		{"not JSON", `{"version"`, `{version`, ErrFormat, "invalid character"},
	}
	text := source(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(text, c.old) {
				t.Fatalf("the fixture has no %s", c.old)
			}
			_, err := Read(strings.NewReader(strings.Replace(text, c.old, c.new, 1)))
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %v naming %q", err, c.kind, c.says)
			}
		})
	}
}

// Ensure that a byte without a token is lost, wherever it is, as in the
// reference library, and that an unk_token which would stand for it is refused.
func TestByteWithoutToken(t *testing.T) {
	text := source(t)
	for _, byteToken := range []string{"Ą", "ÿ"} { // 0x04 and 0xff
		spelled := `"` + byteToken + `":`
		if strings.Count(text, spelled) != 1 {
			t.Fatalf("the fixture has %s %d times", spelled, strings.Count(text, spelled))
		}
		text = strings.Replace(text, spelled, `"`+byteToken+`x":`, 1)
	}
	tok, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for text, same := range map[string]string{"\x04": "", "\x04\x04": "", "Ger\x04van": "Ger" + "van", "a\xff": "a", "\xff\x04 x\x04": " x"} {
		got := tok.Bytes(tok.Encode(text))
		if string(got) != same {
			t.Errorf("%q became %q, want %q", text, got, same)
		}
	}
	refused := strings.Replace(text, `"unk_token":null`, `"unk_token":"!"`, 1)
	if _, err := Read(strings.NewReader(refused)); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "byte 4") {
		t.Errorf("with unk_token: %v", err)
	}
}

// Ensure that no merge can make a control token: "<tool" is a merged token of
// the qwen3 fixture, and allowed as markup only.
func TestReadRefusesReachableControlTokens(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "testdata", "tokenizer", "qwen3.json"))
	if err != nil {
		t.Fatal(err)
	}
	const markup = `"content":"<tool","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false`
	control := strings.Replace(string(text), markup, strings.TrimSuffix(markup, "false")+"true", 1)
	if _, err := Read(strings.NewReader(control)); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), `"<tool"`) {
		t.Fatalf("error %v", err)
	}
}

// Ensure that merges spelled as "a b" read like pairs, and that ignore_merges
// takes a whole word from the vocab, but never a control token.
func TestSpellingsOfTheModel(t *testing.T) {
	text := source(t)
	pairs, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	lines := text
	for _, m := range pairs.model.order {
		a, b := pairs.spelled[m[0]], pairs.spelled[m[1]]
		lines = strings.Replace(lines, `["`+a+`","`+b+`"]`, `"`+a+` `+b+`"`, 1)
	}
	if lines == text {
		t.Fatal("no merge was respelled")
	}
	respelled, err := Read(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(respelled.model.order, pairs.model.order) {
		t.Fatal("merges differ by spelling")
	}

	whole := strings.Replace(text, `"ignore_merges":false`, `"ignore_merges":true`, 1)
	whole = strings.Replace(whole, `"vocab":{`, `"vocab":{"zzz":364,"<|im_end|>":358,`, 1)
	ignoring, err := Read(strings.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	if got := ignoring.Encode("zzz"); !slices.Equal(got, []int32{364}) {
		t.Fatalf("zzz = %v", got)
	}
	if got := ignoring.Encode("<|im_end|>"); slices.Contains(got, 358) {
		t.Fatalf("content became a control token: %v", got)
	}
}

// FuzzRead: a foreign tokenizer.json is refused with a typed error or usable.
func FuzzRead(f *testing.F) {
	f.Add([]byte(source(f)))
	f.Add([]byte(`{"version":"1.0","model":{"type":"BPE"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tok, err := Read(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		for id := range int32(tok.Size()) {
			if tok.Token(id) == "" {
				t.Fatalf("id %d stands for nothing", id)
			}
		}
	})
}

// FuzzEncode: without a normalizer any bytes survive, and no control id comes out.
func FuzzEncode(f *testing.F) {
	tok := trained(f, 200)
	f.Add("The mayor of Gatero <|im_end|> <search>é\xff\xe4\xb8 \n\n")
	f.Fuzz(func(t *testing.T, text string) {
		ids := tok.Encode(text)
		if got := string(tok.Bytes(ids)); got != text {
			t.Fatalf("%q came back as %q", text, got)
		}
		for _, id := range ids {
			if tok.Special(id) {
				t.Fatalf("content became control token %q", tok.Token(id))
			}
		}
	})
}
