package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const adapterJSON = `{"peft_type":"LORA","task_type":"CAUSAL_LM","r":4,"lora_alpha":8,"bias":"none","target_modules":["v_proj","q_proj"],` +
	`"lora_dropout":0.05,"use_dora":false,"alpha_pattern":{},"modules_to_save":null,"megatron_core":"megatron.core"}`

func TestParseAdapter(t *testing.T) {
	a, err := ParseAdapter([]byte(adapterJSON))
	if err != nil || a.Rank != 4 || a.Alpha != 8 || strings.Join(a.Targets, " ") != "q_proj v_proj" {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, v := range []struct {
		from, to string
		kind     error
		says     string
	}{
		{`"LORA"`, `"LOHA"`, ErrUnsupported, "LOHA"},
		{`"none"`, `"all"`, ErrUnsupported, "bias"},
		{`"use_dora":false`, `"use_dora":true`, ErrUnsupported, "use_dora true"},
		{`"use_dora":false`, `"use_rslora":true`, ErrUnsupported, "use_rslora"},
		{`"alpha_pattern":{}`, `"rank_pattern":{"q_proj":2}`, ErrUnsupported, "rank_pattern"},
		{`"modules_to_save":null`, `"modules_to_save":["lm_head"]`, ErrUnsupported, "modules_to_save"},
		{`"modules_to_save":null`, `"some_new_thing":1`, ErrUnsupported, "some_new_thing"},
		{`["v_proj","q_proj"]`, `".*proj"`, ErrFormat, "target_modules"},
		{`["v_proj","q_proj"]`, `[]`, ErrFormat, "0 target_modules"},
		{`"r":4`, `"r":0`, ErrFormat, "r is 0"},
		{`"r":4,`, ``, ErrFormat, "r is absent"},
		{`"lora_alpha":8`, `"lora_alpha":-1`, ErrFormat, "lora_alpha -1"},
	} {
		text := strings.Replace(adapterJSON, v.from, v.to, 1)
		if _, err := ParseAdapter([]byte(text)); !errors.Is(err, v.kind) || !strings.Contains(err.Error(), v.says) {
			t.Errorf("%s: %v, want %q", v.to, err, v.says)
		}
	}
}

// Ensure that what PEFT wrote is read, what we write is read back, and nothing else gets in.
func FuzzAdapter(f *testing.F) {
	f.Add([]byte(adapterJSON))
	for _, name := range []string{"lora-llama", "lora-qwen3"} {
		text, err := os.ReadFile(filepath.Join("..", "testdata", "models", name, AdapterConfigFile))
		if err != nil {
			f.Fatal(err)
		}
		if _, err := ParseAdapter(text); err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := ParseAdapter(text)
		if err != nil {
			return
		}
		one, err := a.JSON()
		if err != nil {
			t.Fatal(err)
		}
		b, err := ParseAdapter(one)
		if err != nil {
			t.Fatalf("%s: %v", one, err)
		}
		two, err := b.JSON()
		if err != nil || !bytes.Equal(one, two) {
			t.Fatalf("%s, then %s, %v", one, two, err)
		}
	})
}
