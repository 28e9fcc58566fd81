// Package workload is what the measurements of bench/speed give a model to do, on processors
// and on cards: random ids, rows, requests that come at once. It measures nothing.
package workload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer"
	"github.com/seed-7c27e6b8/whale/trainer/nano"
	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

// Tokenizer is that of the embedded model: it has fewer ids than the models that are
// measured, which is no matter to speed.
func Tokenizer() (*tokenizer.Tokenizer, error) {
	files, err := nano.Open(nano.Text)
	if err != nil {
		return nil, err
	}
	f, err := files.Open("tokenizer.json")
	if err != nil {
		return nil, fmt.Errorf("embedded model: %w", err)
	}
	defer func(f fs.File) { _ = f.Close() }(f)
	return tokenizer.Read(f)
}

// Text is n random ids that every model has.
func Text(rng *rand.Rand, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(rng.IntN(256))
	}
	return ids
}

// Row has n ids to predict.
func Row(rng *rand.Rand, n int) trainer.Row {
	r := trainer.Row{IDs: Text(rng, n+1), Weights: make([]float32, n+1)}
	for j := 1; j <= n; j++ {
		r.Weights[j] = 1
	}
	return r
}

// Together makes all requests at once.
func Together(ctx context.Context, t *trainer.Trainer, requests []engine.Request) ([]engine.Completion, error) {
	replies, errs := make([]engine.Completion, len(requests)), make([]error, len(requests))
	var wait sync.WaitGroup
	for i, r := range requests {
		wait.Go(func() { replies[i], errs[i] = t.Policy().Generate(ctx, r) })
	}
	wait.Wait()
	return replies, errors.Join(errs...)
}
