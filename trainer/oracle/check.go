package oracle

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/trainer"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

// Limit is what a float32 gradient may differ from the oracle's: the L2 norm of
// the difference over that of the gradient, per tensor.
const Limit = 1e-4

// Result compares one model's gradients on a device with the oracle's.
type Result struct {
	Model  string  // family and whether tied
	Loss   float64 // the oracle's, per trained id
	Drift  float64 // relative difference of the device's loss
	Tensor string  // the one whose gradient differs most
	Worst  float64 // by how much, relative, see Limit
}

// OK reports whether the device computes what the model says.
func (r Result) OK() bool { return r.Worst <= Limit && r.Drift <= 1e-5 }

// Check trains one step of rate 0 on small random models of every family on dev
// and compares loss and gradients with the oracle's. An error means that the
// comparison could not be made; a difference is in the results.
func Check(ctx context.Context, dev *cuda.Device) ([]Result, error) {
	var results []Result
	for _, family := range []string{checkpoint.Llama, checkpoint.Qwen3} {
		for _, tied := range []bool{true, false} {
			r, err := checkOne(ctx, dev, family, tied)
			if err != nil {
				return nil, fmt.Errorf("gradient check of %s: %w", family, err)
			}
			results = append(results, r)
		}
	}
	return results, nil
}

func checkOne(ctx context.Context, dev *cuda.Device, family string, tied bool) (Result, error) {
	r := Result{Model: family}
	if tied {
		r.Model += ", tied"
	}
	tokens, err := tokenizer.Train(func(func(string) bool) {}, tokenizer.TrainSpec{Pattern: `.`, Added: []tokenizer.AddedToken{
		{Content: "<|im_start|>", Special: true}, {Content: "<|im_end|>", Special: true}}})
	if err != nil {
		return r, err
	}
	c := checkpoint.Config{Family: family, Vocab: tokens.Size(), Hidden: 20, Intermediate: 36, Heads: 4, KVHeads: 2, HeadDim: 8,
		Layers: checkpoint.LayersOf(checkpoint.FullAttention, 2), QKNorm: family == checkpoint.Qwen3, Tied: tied,
		RMSEps: 1e-5, RopeTheta: 1e4, MaxPositions: 64, DType: checkpoint.F32}
	// With a first beta of 0 the first moment is the gradient, and moments can be saved.
	t, err := trainer.New(c, tokens, dev, trainer.Options{Adam: trainer.AdamW{Beta2: 0.5, Eps: 1}})
	if err != nil {
		return r, err
	}
	defer t.Close()
	if err := t.InitNormal(5, 0.25); err != nil {
		return r, err
	}
	rows := randomRows(c.Vocab)
	step, err := t.Step(ctx, rows, 0)
	if err != nil {
		return r, err
	}
	weights, grads, err := saved(ctx, t, c)
	if err != nil {
		return r, err
	}
	loss, want, err := mean(c, weights, rows)
	if err != nil {
		return r, err
	}
	r.Loss, r.Drift = loss, math.Abs(step.NLL-loss)/loss
	for _, tensor := range c.Tensors() {
		if d := distance(want[tensor.Name], grads[tensor.Name]); !(d <= r.Worst) {
			r.Worst, r.Tensor = d, tensor.Name
		}
	}
	return r, nil
}

// randomRows are rows of several lengths with weights 0, 1 and others.
func randomRows(vocab int) []trainer.Row {
	rng := rand.New(rand.NewPCG(9, 9))
	var rows []trainer.Row
	for _, n := range []int{9, 5, 7} {
		row := trainer.Row{IDs: make([]int32, n), Weights: make([]float32, n)}
		for i := range n {
			row.IDs[i] = int32(rng.IntN(vocab))
			if i > 0 {
				row.Weights[i] = []float32{0, 1, 0.5, 1}[(i+n)%4]
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// mean is the oracle's loss and gradients over all weights of the rows.
func mean(c checkpoint.Config, w Weights, rows []trainer.Row) (float64, Weights, error) {
	total, loss, grads := 0.0, 0.0, Weights{}
	for _, row := range rows {
		own := Row{IDs: row.IDs, Weights: make([]float64, len(row.IDs))}
		for i, x := range row.Weights {
			own.Weights[i] = float64(x)
			total += float64(x)
		}
		l, g, err := Gradients(c, w, own)
		if err != nil {
			return 0, nil, err
		}
		loss += l
		for name, x := range g {
			if grads[name] == nil {
				grads[name] = make([]float64, len(x))
			}
			add(grads[name], x)
		}
	}
	for _, x := range grads {
		for i := range x {
			x[i] /= total
		}
	}
	return loss / total, grads, nil
}

// saved reads weights and first moments through the files that Save writes.
func saved(ctx context.Context, t *trainer.Trainer, c checkpoint.Config) (weights, moments Weights, err error) {
	parent, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "state")
	if _, err := t.Save(ctx, dir); err != nil {
		return nil, nil, err
	}
	if weights, err = tensors(os.DirFS(dir), c, ""); err != nil {
		return nil, nil, err
	}
	moments, err = tensors(optimizerAsModel{os.DirFS(dir)}, c, "m.")
	return weights, moments, err
}

func tensors(files fs.FS, c checkpoint.Config, prefix string) (Weights, error) {
	file, err := checkpoint.Open(files)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	w := Weights{}
	for _, t := range c.Tensors() {
		values, err := file.Float32(prefix + t.Name)
		if err != nil {
			return nil, err
		}
		for _, x := range values {
			w[t.Name] = append(w[t.Name], float64(x))
		}
	}
	return w, nil
}

// optimizerAsModel shows the file of the moments under the name of the weights.
type optimizerAsModel struct{ fs.FS }

// Open opens the moments for the weights.
func (o optimizerAsModel) Open(name string) (fs.File, error) {
	if name == checkpoint.WeightsFile {
		name = "optimizer.safetensors"
	}
	return o.FS.Open(name)
}

// distance is |a-b| / |a|.
func distance(a, b []float64) float64 {
	diff, size := 0.0, 0.0
	for i := range a {
		diff += (a[i] - b[i]) * (a[i] - b[i])
		size += a[i] * a[i]
	}
	return math.Sqrt(diff / size)
}
