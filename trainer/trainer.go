package trainer

import (
	"bytes"
	"fmt"
	"io/fs"
	"sync"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/chat"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

// Options are the settings of a Trainer. A zero field takes its default.
type Options struct {
	Adam        AdamW   // DefaultAdamW
	Temperature float64 // the log-likelihood is that of softmax(logits / temperature); 1
	Context     int     // longest sequence; the model's own without it, more is refused
	MicroTokens int     // input ids of one micro-batch, which bounds the activations; see microTokens
	StepTokens  int     // rows of one generation step, 512: bounds its latency and buffers
	CacheTokens int     // room for keys and values; see cacheTokens
	// Precision of the matrix products, in generation and training alike. Weights, gradients,
	// moments and all else stay float32. BF16 and BF16x3 are refused where the device lacks them.
	Precision cuda.Precision
	// Int8 has generation multiply weights and rows that are rounded to 8 bits, 64 of them at a
	// scale: half the bytes of bf16. Log-probabilities of sampled ids are then those of the
	// rounded model; the learner, which never rounds so, scores them anew and reports the drift.
	Int8 bool
	// Recompute keeps only the input of each layer in training and computes the rest again in
	// the backward: a third more arithmetic, a fraction of the memory, the same bits.
	Recompute bool
	// LoRA trains adapters beside frozen weights; a Rank of 0 trains the weights.
	LoRA LoRA
	// Memory is the most bytes on the device, 0 = no limit. Within it MicroTokens, Recompute
	// and CacheTokens are chosen so that a row of Context ids can be trained; Trainer.Memory
	// says how. A limit that is too small is ErrMemory.
	Memory int64
	// Frozen says that nothing will be trained: no room for gradients, moments and
	// activations is planned, and a step is refused.
	Frozen bool
	// Reference plans room for the reference weights of a policy gradient.
	Reference bool
	// NoPrefixSharing makes every prompt start from nothing. Results are the same bits.
	NoPrefixSharing bool
}

func (o *Options) defaults(m *Model) {
	if o.Adam == (AdamW{}) {
		o.Adam = DefaultAdamW()
	}
	if o.Temperature == 0 {
		o.Temperature = 1
	}
	if o.MicroTokens <= 0 {
		o.MicroTokens = microTokens(m)
	}
	if o.StepTokens <= 0 {
		o.StepTokens = 512
	}
	if o.CacheTokens <= 0 {
		o.CacheTokens = cacheTokens(m) + 2*pageTokens
	}
}

// Trainer is one model on one device with everything that is done with it. Generation and
// updates take turns at the device; it may be used from many goroutines.
type Trainer struct {
	tokens *tokenizer.Tokenizer
	chat   chat.Format
	files  []file            // what is copied through when the model is saved
	config []byte            // config.json of the source, nil when there was none
	extras []checkpoint.Item // tensors of the source that the model does not use, byte for byte

	memory      Memory
	frozen      bool
	adam        AdamW
	temperature float32
	microTokens int

	mu    sync.Mutex // holds the device and everything below
	model *Model
	opt   *optimizer // nil until the first step
	tape  *tape      // nil until the first step
	// reference is what a policy gradient holds near; nil until it is asked for.
	reference *Model
	count     Counters

	policy  *Policy
	learner *Learner
}

// file is one file of the model's folder that is neither weights nor config.
type file struct {
	name string
	data []byte
}

// carried are the files that Save copies through unchanged.
var carried = []string{tokenizerFile, "tokenizer_config.json", "special_tokens_map.json",
	"chat_template.jinja", checkpoint.GenerationFile}

const tokenizerFile = "tokenizer.json"

// OpenDir opens the model at path, see Open: a folder in Hugging Face layout, a GGUF file,
// or a folder with one GGUF file.
func OpenDir(path string, dev *cuda.Device, o Options) (*Trainer, error) {
	files, err := checkpoint.Folder(path)
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, "model", err)
	}
	t, err := Open(files, dev, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Open loads a model folder in Hugging Face layout: config.json, model.safetensors (or
// shards), tokenizer.json. The device stays the caller's, who closes it after the Trainer.
func Open(fsys fs.FS, dev *cuda.Device, o Options) (*Trainer, error) {
	c, err := checkpoint.Open(fsys)
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, "model", err)
	}
	defer c.Close()
	config, err := c.Config()
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, "model", err)
	}
	var files []file
	for _, name := range carried {
		if data, err := c.ReadFile(name); err == nil {
			files = append(files, file{name, data})
		} else if name == tokenizerFile {
			return nil, engine.Fail(engine.AtPolicy, "model", err)
		}
	}
	tokens, err := tokenizer.Read(bytes.NewReader(files[0].data))
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, tokenizerFile, err)
	}
	if err := belong(tokens, config); err != nil {
		return nil, engine.Fail(engine.AtPolicy, tokenizerFile, err)
	}
	format, err := chat.Open(fsys, tokens, config.EOS, chat.ThinkingAsTemplate)
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, "chat template", err)
	}
	t, err := build(config, tokens, format, files, dev, o)
	if err != nil {
		return nil, err
	}
	if err := t.model.load(c); err != nil {
		t.Close()
		return nil, engine.Fail(engine.AtPolicy, "model", err)
	}
	if t.config, err = c.ReadFile(checkpoint.ConfigFile); err == nil {
		err = t.keepExtras(c)
	}
	if err != nil {
		t.Close()
		return nil, engine.Fail(engine.AtPolicy, "model", err)
	}
	return t, nil
}

// belong refuses a tokenizer of another model, as far as it shows: ids that the model does
// not have, a share of rows without an id that no padding explains, or an end of reply that
// is no control token.
func belong(tokens *tokenizer.Tokenizer, config checkpoint.Config) error {
	if pad := config.Vocab - tokens.Size(); pad < 0 || pad > max(1024, config.Vocab/16) {
		return fmt.Errorf("it has %d ids, the model %d: of another model: %w", tokens.Size(), config.Vocab, checkpoint.ErrFormat)
	}
	for _, id := range config.EOS {
		if int(id) >= tokens.Size() || !tokens.Special(id) {
			return fmt.Errorf("the model's eos_token_id %d is no control token in it: of another model: %w", id, checkpoint.ErrFormat)
		}
	}
	return nil
}

// keepExtras remembers the tensors that the model does not use. A head beside tied
// embeddings is left out: it would be a stale copy after the first update.
func (t *Trainer) keepExtras(c *checkpoint.Checkpoint) error {
	used := map[string]bool{checkpoint.HeadName: true}
	for _, tensor := range t.model.layout.tensors {
		used[tensor.Name] = true
	}
	for _, name := range c.Names() {
		if used[name] {
			continue
		}
		raw, err := c.Raw(name)
		if err != nil {
			return err
		}
		tensor, _ := c.Tensor(name)
		t.extras = append(t.extras, checkpoint.Bytes(tensor, raw))
	}
	return nil
}

// OpenAdapter opens the model at base, see OpenDir, with the adapter in a folder of PEFT's
// layout, which is trained further. Options.LoRA is that of the folder.
func OpenAdapter(base, adapter fs.FS, dev *cuda.Device, o Options) (*Trainer, error) {
	has, err := checkpoint.ReadAdapter(adapter)
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, "adapter", err)
	}
	o.LoRA = LoRA{Rank: has.Rank, Alpha: has.Alpha, Targets: has.Targets, Base: has.Base}
	t, err := Open(base, dev, o)
	if err != nil {
		return nil, err
	}
	if err := t.model.adapters.load(t.model, adapter); err != nil {
		t.Close()
		return nil, engine.Fail(engine.AtPolicy, "adapter", err)
	}
	return t, nil
}

// New makes a model whose weights are all zero; fill them with InitMimetic or InitNormal.
func New(config checkpoint.Config, tokens *tokenizer.Tokenizer, dev *cuda.Device, o Options) (*Trainer, error) {
	var text bytes.Buffer
	if err := tokens.Write(&text); err != nil {
		return nil, engine.Fail(engine.AtPolicy, tokenizerFile, err)
	}
	format, err := chat.New(tokens, config.EOS)
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, "chat template", err)
	}
	return build(config, tokens, format, []file{{tokenizerFile, text.Bytes()}}, dev, o)
}

func build(config checkpoint.Config, tokens *tokenizer.Tokenizer, format chat.Format, files []file, dev *cuda.Device, o Options) (*Trainer, error) {
	if err := config.Check(); err != nil {
		return nil, engine.Fail(engine.AtPolicy, "model", err)
	}
	plan, err := planMemory(config, dev, &o)
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, "model", err)
	}
	room, err := dev.Room()
	if err == nil {
		err = dev.Reserve(room.Used + plan.Total())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the plan is %v", engine.Fail(engine.AtDevice, dev.Kind(), err), plan)
	}
	model, err := newModel(config, dev, o.Context)
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, "model", err)
	}
	if err := model.prepare(o); err != nil {
		model.free()
		return nil, engine.Fail(engine.AtPolicy, "model", err)
	}
	t := &Trainer{memory: plan, frozen: o.Frozen, tokens: tokens, chat: format, files: files, adam: o.Adam, temperature: float32(o.Temperature), microTokens: o.MicroTokens, model: model}
	t.learner = &Learner{t}
	if err = t.check(o); err == nil {
		t.policy, err = newPolicy(t, o)
	}
	if err != nil {
		model.free()
		return nil, engine.Fail(engine.AtPolicy, "model", err)
	}
	return t, nil
}

func (t *Trainer) check(o Options) error {
	if t.tokens.Size() > t.model.Config.Vocab {
		return fmt.Errorf("tokenizer has %d ids, the model %d: %w", t.tokens.Size(), t.model.Config.Vocab, checkpoint.ErrFormat)
	}
	if !(o.Temperature > 0) {
		return fmt.Errorf("training temperature %v", o.Temperature)
	}
	if dev := t.model.dev; !dev.Has(o.Precision) {
		return fmt.Errorf("%s products: %w (%s)", o.Precision, cuda.NoDevice, dev.ISA())
	}
	if dev := t.model.dev; o.Int8 && !dev.Has(cuda.Int8) {
		return fmt.Errorf("%s products: %w (%s)", cuda.Int8, cuda.NoDevice, dev.ISA())
	}
	return o.Adam.check()
}

// Close ends generation (calls in progress fail) and frees the device's memory, not the device.
func (t *Trainer) Close() {
	t.policy.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opt != nil {
		t.opt.free()
	}
	if t.tape != nil {
		t.tape.free()
	}
	if t.reference != nil {
		t.model.freeSibling(t.reference)
	}
	t.model.free()
}

// Policy is what generates with these weights.
func (t *Trainer) Policy() *Policy { return t.policy }

// Learner is what updates these weights.
func (t *Trainer) Learner() *Learner { return t.learner }

// Memory is the plan of what this trainer holds.
func (t *Trainer) Memory() Memory { return t.memory }

// Config is the shape of the model.
func (t *Trainer) Config() checkpoint.Config { return t.model.Config }

// Chat is the model's chat format.
func (t *Trainer) Chat() chat.Format { return t.chat }

// Context is the longest sequence, prompt and reply together.
func (t *Trainer) Context() int { return t.model.context }

// Tokenizer is the model's tokenizer.
func (t *Trainer) Tokenizer() *tokenizer.Tokenizer { return t.tokens }

// Counters returns what was done so far.
func (t *Trainer) Counters() Counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// InitMimetic replaces the weights by those of spec/nano.md section 2 and forgets the
// optimizer's state. The same seed gives the same weights.
func (t *Trainer) InitMimetic(seed uint64) error {
	return t.reinit(func(m *Model) ([]float32, error) { return m.mimetic(seed) })
}

// InitNormal replaces the weights by N(0, std), norm weights by N(1, std), and forgets the
// optimizer's state.
func (t *Trainer) InitNormal(seed uint64, std float64) error {
	return t.reinit(func(m *Model) ([]float32, error) { return m.gaussian(seed, std), nil })
}

func (t *Trainer) reinit(draw func(*Model) ([]float32, error)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	host, err := draw(t.model)
	if err != nil {
		return engine.Fail(engine.AtPolicy, "model", err)
	}
	t.forget()
	return engine.Fail(engine.AtDevice, t.model.dev.Kind(), t.model.upload(host))
}

// forget drops moments and step counter, as a fresh optimizer has none.
func (t *Trainer) forget() {
	if t.opt != nil {
		t.opt.free()
		t.opt = nil
	}
}

// ResetOptimizer starts the next step with fresh moments, as between stages of pretraining.
func (t *Trainer) ResetOptimizer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget()
}

// SetAdam changes the settings of the optimizer; moments stay.
func (t *Trainer) SetAdam(a AdamW) error {
	if err := a.check(); err != nil {
		return engine.Fail(engine.AtPolicy, "optimizer", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.adam = a
	return nil
}
