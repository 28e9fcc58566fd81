package checkpoint

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
)

// Files of an adapter folder, in the layout of the PEFT library.
const (
	AdapterConfigFile = "adapter_config.json"
	AdapterFile       = "adapter_model.safetensors"
)

// AdapterPrefix stands before the name of a module in AdapterFile.
const AdapterPrefix = "base_model.model."

// AdapterSuffix stands behind it: factor is "A" [rank, in] or "B" [out, rank].
func AdapterSuffix(factor string) string { return ".lora_" + factor + ".weight" }

// AdapterName is the name of one factor beside a module of layer i, for instance
// AdapterName(3, "self_attn.q_proj", "A").
func AdapterName(i int, module, factor string) string {
	return fmt.Sprintf("%smodel.layers.%d.%s%s", AdapterPrefix, i, module, AdapterSuffix(factor))
}

// Adapter is what adapter_config.json says: low-rank factors whose product, times
// Alpha/Rank, is added to the weights of the modules whose names end in a target.
type Adapter struct {
	Rank    int
	Alpha   float64
	Targets []string
	Base    string // the model that the adapter belongs to, as a folder or a name; may be empty
}

// ReadAdapter reads adapter_config.json of a folder.
func ReadAdapter(fsys fs.FS) (Adapter, error) {
	text, err := fs.ReadFile(fsys, AdapterConfigFile)
	if err == nil {
		var a Adapter
		if a, err = ParseAdapter(text); err == nil {
			return a, nil
		}
	}
	return Adapter{}, fmt.Errorf("%s: %w", AdapterConfigFile, err)
}

// harmless are fields that change nothing in the arithmetic of a plain LoRA, whatever they
// hold: what was recorded about the making, and settings of variants that are off. Dropout
// belongs to training elsewhere; here there is none.
var harmless = []string{"auto_mapping", "base_model_name_or_path", "revision", "task_type", "inference_mode", "peft_version",
	"lora_dropout", "init_lora_weights", "megatron_core", "qalora_group_size", "r", "lora_alpha", "target_modules", "peft_type", "bias",
	"runtime_config"}

// ParseAdapter reads an adapter_config.json. A field that it does not know may only be
// null, false or empty: everything else is refused by name with ErrUnsupported.
func ParseAdapter(text []byte) (Adapter, error) {
	f, err := readFields(text)
	if err != nil {
		return Adapter{}, err
	}
	if kind := f.text("peft_type", ""); kind != "LORA" {
		f.fail(ErrUnsupported, "peft_type %q", kind)
	}
	if bias := f.text("bias", "none"); bias != "none" {
		f.fail(ErrUnsupported, "bias %q", bias)
	}
	a := Adapter{Rank: f.size("r", 0), Base: f.text("base_model_name_or_path", "")}
	a.Alpha = f.real("lora_alpha", float64(a.Rank))
	if !f.get("target_modules", &a.Targets) {
		f.fail(ErrFormat, "target_modules is absent")
	}
	for _, name := range sortedKeys(f.raw) {
		switch string(f.raw[name]) {
		case "null", "false", `""`, "{}", "[]":
			continue
		}
		if !slices.Contains(harmless, name) {
			f.fail(ErrUnsupported, "%s %s", name, short(f.raw[name]))
		}
	}
	if f.err == nil && (len(a.Targets) == 0 || !positive(a.Alpha) || math.IsNaN(a.Alpha)) {
		f.fail(ErrFormat, "lora_alpha %v for %d target_modules", a.Alpha, len(a.Targets))
	}
	slices.Sort(a.Targets)
	return a, f.err
}

// JSON renders the adapter as an adapter_config.json that ParseAdapter and PEFT read.
func (a Adapter) JSON() ([]byte, error) {
	out := struct {
		Type     string   `json:"peft_type"`
		Task     string   `json:"task_type"`
		Base     *string  `json:"base_model_name_or_path"`
		Rank     int      `json:"r"`
		Alpha    float64  `json:"lora_alpha"`
		Dropout  float64  `json:"lora_dropout"`
		Bias     string   `json:"bias"`
		Targets  []string `json:"target_modules"`
		FanInOut bool     `json:"fan_in_fan_out"`
		Frozen   bool     `json:"inference_mode"`
		Init     bool     `json:"init_lora_weights"`
		RSLoRA   bool     `json:"use_rslora"`
		DoRA     bool     `json:"use_dora"`
	}{Type: "LORA", Task: "CAUSAL_LM", Rank: a.Rank, Alpha: a.Alpha, Bias: "none", Targets: slices.Sorted(slices.Values(a.Targets)),
		Frozen: true, Init: true}
	if a.Base != "" {
		out.Base = &a.Base
	}
	b, err := json.MarshalIndent(out, "", "  ")
	return append(b, '\n'), err
}

// WriteAdapter writes a to path, whole or not at all.
func WriteAdapter(path string, a Adapter) error {
	text, err := a.JSON()
	if err != nil {
		return err
	}
	return publish(path, func(w io.Writer) error { _, err := w.Write(text); return err })
}
