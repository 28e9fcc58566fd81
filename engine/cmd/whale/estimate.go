package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/ledger"
)

// calibrationText holds runs of the embedded model that were measured once: see
// `whale profile --calibration`.
//
//go:embed calibration.json
var calibrationText []byte

type estimateFlags struct {
	Estimate bool   `default:"true" negatable:"" help:"Probe for a second or two before a run and say what it will take."`
	Like     string `type:"existingdir" placeholder:"RUN" help:"Foretell from this finished run rather than from those that whale knows."`
}

// foresight is what was expected of a run, estimate.json in its folder.
type foresight struct {
	Probe    engine.Probe     `json:"probe"`
	Planned  []engine.Planned `json:"planned"`
	Estimate engine.Estimate  `json:"estimate"`
}

// fewRollouts are not worth a probe.
const fewRollouts = 2000

// largeModel in bytes: from here on, updates are not probed, since the weights would have to
// be written and read for it.
const largeModel = 1 << 29

// foresee probes and puts the estimate into the parts of a run. A run that goes on keeps
// the estimate that it began with, unless its budget has grown.
func (f estimateFlags) foresee(ctx context.Context, config engine.Config, parts engine.Parts, store *archive.Archive, note func(string)) (engine.Parts, error) {
	if !f.Estimate || config.Validate(parts.Domain) != nil { // the run itself says what is wrong
		return parts, nil
	}
	path := filepath.Join(store.Folder(), "estimate.json")
	seen := foresight{Planned: config.Forecast(parts.Domain, engine.State{})}
	before, err := readForesight(path)
	if err == nil && slices.Equal(before.Planned, seen.Planned) {
		parts.Estimate = &before.Estimate
		return parts, nil
	}
	total := 0
	for _, p := range seen.Planned {
		total += p.Rollouts
	}
	if total < fewRollouts || len(store.Records()) > 0 {
		return parts, nil
	}
	if seen.Probe, err = engine.TakeProbe(ctx, config, parts, "", weightBytes(config.Model) < largeModel); err != nil {
		return parts, err
	}
	known, err := f.known(config, seen.Planned)
	if err != nil {
		return parts, err
	}
	seen.Estimate = ledger.NewEstimate(seen.Probe, seen.Planned, known)
	note(estimateLine(seen.Estimate))
	parts.Estimate = &seen.Estimate
	parts.Observer = &recorder{Observer: parts.Observer, path: path, text: seen, note: note}
	return parts, nil
}

// recorder writes the estimate down once the run has its folder.
type recorder struct {
	engine.Observer
	path string
	text foresight
	note func(string)
	done bool
}

// Observe is called one at a time.
func (r *recorder) Observe(p engine.Progress) {
	if !r.done {
		r.done = true
		text, err := json.MarshalIndent(r.text, "", "  ")
		if err == nil {
			err = os.WriteFile(r.path, append(text, '\n'), 0o644)
		}
		if err != nil {
			r.note("estimate.json was not written: " + oneLine(err))
		}
	}
	r.Observer.Observe(p)
}

func readForesight(path string) (f foresight, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(text, &f)
}

// known are the calibrations to go by: runs of this domain and model under the same
// condition, or under another where there is none; of these the ones of the same plan and
// seed, or else of the same plan, where there are any.
func (f estimateFlags) known(config engine.Config, planned []engine.Planned) ([]ledger.Calibration, error) {
	if f.Like != "" {
		c, err := calibrationOf(f.Like)
		return []ledger.Calibration{c}, err
	}
	var all []ledger.Calibration
	if err := json.Unmarshal(calibrationText, &all); err != nil {
		return nil, fmt.Errorf("the embedded calibrations: %w", err)
	}
	var like []ledger.Calibration
	closest := 0
	for _, c := range all {
		near := 1
		switch {
		case c.Domain != config.Domain || c.Model != config.Model:
			continue
		case c.Condition == config.Condition && slices.Equal(c.Planned, planned):
			near = 3
			if c.Seed == config.Seed { // the same run
				near = 4
			}
		case c.Condition == config.Condition:
			near = 2
		}
		if near > closest {
			closest, like = near, nil
		}
		if near == closest {
			like = append(like, c)
		}
	}
	return like, nil
}

// calibrationOf makes a calibration of a run that began with an estimate.
func calibrationOf(dir string) (ledger.Calibration, error) {
	r, err := archive.Read(dir)
	if err != nil {
		return ledger.Calibration{}, err
	}
	seen, err := readForesight(filepath.Join(dir, "estimate.json"))
	if err != nil {
		return ledger.Calibration{}, engine.Fail(engine.AtArchive, dir, err)
	}
	return ledger.NewCalibration(r.Manifest().Config, seen.Probe, seen.Planned, r.Ledger()), nil
}

// weightBytes is the size of a model's files; the embedded one is small.
func weightBytes(model string) (sum int64) {
	if model == "nano" {
		return 0
	}
	err := filepath.WalkDir(model, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		return largeModel // not known: large
	}
	return sum
}

func estimateLine(e engine.Estimate) string {
	joules := ""
	if e.Joules != nil {
		joules = fmt.Sprintf(", %.0f kJ", *e.Joules/1e3)
	}
	return fmt.Sprintf("estimate: %d rollouts, %dk tokens sampled, %dk trained, %s%s (%s)", e.Rollouts, e.Tokens.Sampled/1000, e.Tokens.Trained/1000,
		time.Duration(e.Seconds*float64(time.Second)).Round(time.Second), joules, e.Basis)
}

// hindsight compares the estimate with what came.
func hindsight(s *engine.Summary) string {
	if s.Estimate == nil || s.Estimate.Seconds == 0 {
		return ""
	}
	off := func(want, got float64) string { return fmt.Sprintf("%+.0f %%", 100*(want/max(got, 1e-9)-1)) }
	all := s.Rollouts.Weight + s.Rollouts.Harness + s.Rollouts.Test
	e := s.Estimate
	return fmt.Sprintf("estimate against what it took: rollouts %s, sampled %s, trained %s, seconds %s", off(float64(e.Rollouts), float64(all)),
		off(float64(e.Tokens.Sampled), float64(s.Tokens.Sampled)), off(float64(e.Tokens.Trained), float64(s.Tokens.Trained)), off(e.Seconds, s.Seconds.Total))
}

// writeCalibrations writes runs as calibrations, a line each, for the embedded file.
func writeCalibrations(path string, runs []string) error {
	var lines []string
	for _, dir := range runs {
		c, err := calibrationOf(dir)
		if err != nil {
			return err
		}
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		lines = append(lines, string(text))
	}
	return engine.Fail(engine.AtArchive, path, os.WriteFile(path, []byte("["+strings.Join(lines, ",\n")+"]\n"), 0o644))
}
