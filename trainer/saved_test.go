package trainer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// Ensure that a model which nothing was trained of is saved as it was read: every tensor byte
// for byte, also those that it does not use, and every field of the config. A head beside
// tied embeddings is left out; the library that wrote it does without.
func TestUntouchedIsSavedByteForByte(t *testing.T) {
	f := readFixture(t, "llama-tied")
	source, err := checkpoint.Open(f.files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { source.Close() })
	var items []checkpoint.Item
	for _, name := range source.Names() {
		tensor, _ := source.Tensor(name)
		values, err := source.Float32(name)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, checkpoint.Values(name, checkpoint.BF16, tensor.Shape, values))
	}
	odd := checkpoint.Tensor{Name: "model.layers.0.self_attn.rotary_emb.inv_freq", DType: "F64", Shape: []int{2}}
	items = append(items, checkpoint.Bytes(odd, []byte("sixteen bytes!!!")))
	var text bytes.Buffer
	if err := checkpoint.Encode(&text, append(items, checkpoint.Values(checkpoint.HeadName, checkpoint.BF16, []int{1}, []float32{1}))); err != nil {
		t.Fatal(err)
	}
	config := map[string]any{}
	if err := json.Unmarshal(f.Config, &config); err != nil {
		t.Fatal(err)
	}
	config["dtype"], config["bos_token_id"], config["transformers.js_config"] = "bfloat16", 5, map[string]any{"name": "someone"}
	encoded, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := Open(fstest.MapFS{checkpoint.ConfigFile: {Data: encoded}, checkpoint.WeightsFile: {Data: text.Bytes()}, tokenizerFile: f.files[tokenizerFile]},
		cpu(t, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	dir := filepath.Join(t.TempDir(), "saved")
	if err := tr.SaveModel(dir, checkpoint.BF16); err != nil {
		t.Fatal(err)
	}
	saved, err := checkpoint.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { saved.Close() })
	if _, ok := saved.Tensor(checkpoint.HeadName); ok || len(saved.Names()) != len(items) {
		t.Errorf("saved %v", saved.Names())
	}
	before, err := checkpoint.Open(fstest.MapFS{checkpoint.WeightsFile: {Data: text.Bytes()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { before.Close() })
	for _, item := range items {
		want, err := before.Raw(item.Name)
		got, err2 := saved.Raw(item.Name)
		if err != nil || err2 != nil || !bytes.Equal(want, got) {
			t.Errorf("%s changed (%v, %v)", item.Name, err, err2)
		}
	}
	written, err := os.ReadFile(filepath.Join(dir, checkpoint.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(written, &back); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(config)
	b, _ := json.Marshal(back)
	if !bytes.Equal(a, b) {
		t.Errorf("config is %s, was %s", b, a)
	}
}
