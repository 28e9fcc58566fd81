// Command card measures a device: parity with the CPU, one online step, then speed on models of
// Qwen3's shapes with random weights, beside what the device itself can do. It prints a table
// and leaves a JSON file, which it writes after every part, so that a run that is cut short
// leaves what it had. bench/runs/gpu_check.sh runs it.
//
// It may know the trainer and nothing of the engine's loops, harnesses or tasks. It does not
// look at the quality of what is computed beyond the parity check.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7c27e6b8/whale/cuda"
)

// settings are the flags.
type settings struct {
	device, sizes, batches, out string
	prompt, sampled             int // ids of a prompt, ids sampled after it
	row, rows, steps            int // ids of a training row, rows of a step, steps that count
	product                     int // rows and inner width of the product that is the peak; 4 times as many columns
	limit                       time.Duration
	contract                    int  // cases of the contract suite that passed here
	probe                       bool // say only whether there is a card
}

// report is the JSON file. Rates are tokens a second; shares are of the device's own limits.
type report struct {
	Measured bool   `json:"measured"`
	Why      string `json:"why,omitempty"` // nothing was measured
	Failed   string `json:"failed,omitempty"`

	Device    string  `json:"device,omitempty"`
	ISA       string  `json:"isa,omitempty"`
	Memory    float64 `json:"card_memory_gb,omitempty"`
	PeakFLOPs float64 `json:"peak_bf16_flops,omitempty"` // of one large product, measured here
	Copy      float64 `json:"copy_bytes_per_s,omitempty"`
	Bandwidth float64 `json:"bandwidth_bytes_per_s,omitempty"` // by clock and width; what decode is compared with, or Copy if it is more

	Contract int `json:"contract_cases,omitempty"` // operator x shape, of cuda's tests

	Parity []parity `json:"parity,omitempty"`
	RSFT   *online  `json:"rsft,omitempty"`
	Models []model  `json:"models,omitempty"`
}

type model struct {
	Size        string   `json:"size"`
	Parameters  int      `json:"parameters"`
	Planned     float64  `json:"planned_gb"`
	Peak        float64  `json:"peak_gb"` // most that was in use
	TrainRate   float64  `json:"train_tokens_per_s"`
	TrainShare  float64  `json:"train_share_of_peak"`
	Decode      []decode `json:"decode"`
	SwitchMilli float64  `json:"phase_switch_ms"`
	Skipped     string   `json:"skipped,omitempty"`
}

type decode struct {
	Batch   int     `json:"batch"`
	Rate    float64 `json:"tokens_per_s"`
	Share   float64 `json:"share_of_bandwidth_bound"`
	Skipped string  `json:"skipped,omitempty"` // why there is no rate
}

func main() {
	var s settings
	flag.StringVar(&s.device, "device", "cuda", "cuda, simt or cpu")
	flag.StringVar(&s.sizes, "sizes", "0.6b,1.7b,4b", "of: tiny, 0.6b, 1.7b, 4b")
	flag.StringVar(&s.batches, "batches", "1,32,256", "sequences that decode together")
	flag.StringVar(&s.out, "out", "gpu_check.json", "file for the report")
	flag.IntVar(&s.prompt, "prompt", 128, "ids of a prompt")
	flag.IntVar(&s.sampled, "sampled", 64, "ids sampled after it")
	flag.IntVar(&s.row, "row", 1024, "ids of a training row")
	flag.IntVar(&s.rows, "rows", 16, "rows of a training step")
	flag.IntVar(&s.steps, "steps", 3, "training steps that count, after one that does not")
	flag.IntVar(&s.product, "product", 8192, "rows and inner width of the product whose rate is the peak")
	flag.DurationVar(&s.limit, "limit", 5*time.Minute, "after this no further model is begun")
	flag.IntVar(&s.contract, "contract", 0, "cases of the contract suite that passed on this card, for the report")
	flag.BoolVar(&s.probe, "probe", false, "say whether there is a card, measure nothing")
	flag.Parse()
	if err := run(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stderr, "card:", err)
		os.Exit(1)
	}
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// run fails if parity does, or a part can't be run; a machine without a card is no failure.
func run(ctx context.Context, s settings) error {
	began := time.Now()
	r := &report{}
	if s.device == "cuda" {
		if err := cuda.CardMissing(); err != nil {
			r.Why = err.Error()
			fmt.Printf("nothing measured: %v\n", err)
			return r.write(s.out)
		}
	}
	if s.probe {
		r.Measured = true
		return r.write(s.out)
	}
	err := r.measure(ctx, s, began)
	if err != nil {
		r.Failed = err.Error()
	}
	return errors.Join(err, r.write(s.out))
}

func (r *report) measure(ctx context.Context, s settings, began time.Time) error {
	dev, err := cuda.Open(s.device, 1)
	if err != nil {
		return err
	}
	defer dev.Close()
	r.Measured, r.Device, r.ISA, r.Contract = true, dev.Kind(), dev.ISA(), s.contract
	room, err := dev.Room()
	if err != nil {
		return err
	}
	r.Memory, r.Bandwidth = float64(room.CardTotal)/1e9, room.Bandwidth
	fmt.Printf("device %s, %s, %.1f GB\n", r.Device, r.ISA, r.Memory)
	if err := r.checks(ctx, dev); err != nil {
		return err
	}
	if err := errors.Join(r.limits(dev, s), r.write(s.out)); err != nil {
		return err
	}
	fmt.Printf("peak of a bf16 product %.1f TFLOP/s; memory copies %.0f GB/s, by its clock moves %.0f GB/s\n\n", r.PeakFLOPs/1e12, r.Copy/1e9, r.Bandwidth/1e9)
	fmt.Printf("%-6s %10s %8s   %-40s %9s %8s %8s\n", "model", "train", "of peak", "decode: batch tokens/s (of bound)", "switch", "peak", "planned")
	for size := range strings.SplitSeq(s.sizes, ",") {
		if time.Since(began) > s.limit {
			r.Models = append(r.Models, model{Size: size, Skipped: "the time was up"})
			fmt.Printf("%-6s skipped: the time was up\n", size)
			continue
		}
		m, err := measureModel(ctx, dev, size, s, r)
		if err != nil {
			return fmt.Errorf("%s: %w", size, err)
		}
		r.Models = append(r.Models, m)
		m.print()
		if err := r.write(s.out); err != nil {
			return err
		}
	}
	return nil
}

func (m model) print() {
	var list []string
	for _, d := range m.Decode {
		if d.Skipped != "" {
			list = append(list, fmt.Sprintf("%d not measurable: %s", d.Batch, d.Skipped))
			continue
		}
		list = append(list, fmt.Sprintf("%d %.0f (%.0f %%)", d.Batch, d.Rate, 100*d.Share))
	}
	fmt.Printf("%-6s %8.0f/s %6.1f %%   %-40s %6.1f ms %5.2f GB %5.2f GB\n", m.Size, m.TrainRate, 100*m.TrainShare, strings.Join(list, ", "),
		m.SwitchMilli, m.Peak, m.Planned)
}

func (s settings) batchSizes() (list []int, err error) {
	for text := range strings.SplitSeq(s.batches, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("batch %q", text)
		}
		list = append(list, n)
	}
	return list, nil
}
