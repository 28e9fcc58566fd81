package trainer

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-7c27e6b8/whale/trainer/chat"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

// Ensure that a folder whose parts do not belong together is refused, and says which part.
func TestOpenRefusesByName(t *testing.T) {
	change := func(file, old, to string) func(fstest.MapFS) {
		return func(files fstest.MapFS) {
			if !bytes.Contains(files[file].Data, []byte(old)) {
				t.Fatalf("no %s in %s", old, file)
			}
			files[file] = &fstest.MapFile{Data: bytes.Replace(files[file].Data, []byte(old), []byte(to), 1)}
		}
	}
	template := func(text string) func(fstest.MapFS) {
		return func(files fstest.MapFS) { files["chat_template.jinja"] = &fstest.MapFile{Data: []byte(text)} }
	}
	for name, test := range map[string]struct {
		change func(fstest.MapFS)
		o      Options
		kind   error
		says   string
	}{
		"a tokenizer with more":    {change(tokenizerFile, `{"content":"\u003c|im_end|\u003e"`, `{"content":"<a>","id":32,"special":true},{"content":"\u003c|im_end|\u003e"`), Options{}, checkpoint.ErrFormat, "33 ids, the model 32"},
		"eos is a letter":          {change(checkpoint.ConfigFile, `"eos_token_id": null`, `"eos_token_id": 3`), Options{}, checkpoint.ErrFormat, "eos_token_id 3 is no control token"},
		"no tokenizer":             {func(files fstest.MapFS) { delete(files, tokenizerFile) }, Options{}, nil, tokenizerFile},
		"an unknown step":          {change(tokenizerFile, `"pre_tokenizer":{"type":"ByteLevel"}`, `"pre_tokenizer":{"type":"Metaspace"}`), Options{}, tokenizer.ErrUnsupported, "Metaspace"},
		"a template that raises":   {template(`{{ raise_exception('not for you') }}`), Options{}, chat.ErrNoTemplate, "not for you"},
		"a template in another":    {template(`{% include 'x' %}`), Options{}, chat.ErrNoTemplate, "include"},
		"weights that are cut":     {func(files fstest.MapFS) { f := files[checkpoint.WeightsFile]; f.Data = f.Data[:len(f.Data)-4] }, Options{}, checkpoint.ErrFormat, "truncated"},
		"more context than it has": {func(fstest.MapFS) {}, Options{Context: 1 << 20}, checkpoint.ErrUnsupported, "a context of 1048576"},
	} {
		f := readFixture(t, "llama-tied")
		test.change(f.files)
		tr, err := Open(f.files, cpu(t, 1), test.o)
		if err == nil {
			tr.Close()
		}
		if err == nil || test.kind != nil && !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v, want %v naming %q", name, err, test.kind, test.says)
		}
	}
}

// Ensure that rows without an id are padding only as far as models pad.
func TestBelong(t *testing.T) {
	tokens := letters(t) // 259 ids
	eos, _ := tokens.ID("<|im_end|>")
	for rows, ok := range map[int]bool{258: false, 259: true, 264: true, 259 + 1024: true, 259 + 1025: false, 49152: false} {
		err := belong(tokens, checkpoint.Config{Vocab: rows, EOS: []int32{eos}})
		if ok != (err == nil) || err != nil && !errors.Is(err, checkpoint.ErrFormat) {
			t.Errorf("%d rows: %v", rows, err)
		}
	}
	if err := belong(tokens, checkpoint.Config{Vocab: 264, EOS: []int32{eos, 262}}); !errors.Is(err, checkpoint.ErrFormat) {
		t.Errorf("an eos without a token: %v", err)
	}
}
