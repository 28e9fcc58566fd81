package desk

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7c27e6b8/whale/engine"
)

// usageFile is in each desk: what its call cost, kept up to date while it works.
const usageFile = "usage.json"

// Budget is what a run's proposals may cost together; 0 = no limit. Tokens are all that
// a service counts: input, cached input and output.
type Budget struct {
	Tokens  int
	Dollars float64
}

// Check returns an engine.ErrSpent when nothing is left.
func (b Budget) Check(spent engine.ProposalCost) error {
	switch tokens := spent.Input + spent.Output; {
	case b.Tokens > 0 && tokens >= b.Tokens:
		return fmt.Errorf("%w: %d of %d tokens", engine.ErrSpent, tokens, b.Tokens)
	case b.Dollars > 0 && spent.Dollars >= b.Dollars:
		return fmt.Errorf("%w: %.2f of %.2f dollars", engine.ErrSpent, spent.Dollars, b.Dollars)
	}
	return nil
}

// PutUsage writes down what this call cost so far: the next process that works on the run
// knows it too.
func (d *Desk) PutUsage(cost engine.ProposalCost) error {
	text, err := json.Marshal(cost)
	if err != nil {
		return err
	}
	path := filepath.Join(d.Folder, usageFile)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Spent is what all calls of a run cost so far.
func Spent(run string) (engine.ProposalCost, error) {
	var sum engine.ProposalCost
	files, err := filepath.Glob(filepath.Join(run, Proposals, "*", usageFile))
	if err != nil {
		return sum, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return sum, err
		}
		var cost engine.ProposalCost
		if err := json.Unmarshal(text, &cost); err != nil {
			return sum, fmt.Errorf("%s: %w", file, err)
		}
		sum = sum.Add(cost)
	}
	return sum, nil
}
