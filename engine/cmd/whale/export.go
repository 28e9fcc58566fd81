package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/export"
)

type exportCommand struct {
	Folder  string `arg:"" type:"path" help:"Run folder."`
	To      string `arg:"" help:"File to write: NAME.parquet or NAME.jsonl; - = JSON lines on stdout."`
	Outcome string `enum:",scored,invalid,infra" default:"" help:"Only these: scored, invalid or infra."`
	Phase   string `placeholder:"TEXT" help:"Beginning of the phase: train, select/2, measure."`
	Harness string `placeholder:"ID" help:"Harness id, or the beginning of one."`
}

// Run writes the run's rollouts as rows, unit by unit.
func (c *exportCommand) Run(ctx context.Context) (err error) {
	open := func(w io.Writer) export.Writer { return export.NewJSONL(w) }
	switch {
	case strings.HasSuffix(c.To, ".parquet"):
		open = func(w io.Writer) export.Writer { return export.NewParquet(w) }
	case c.To != "-" && !strings.HasSuffix(c.To, ".jsonl"):
		return usageError{fmt.Errorf("export: %s: the name must end in .parquet or .jsonl, or be -", c.To)}
	}
	r, err := archive.Read(c.Folder)
	if err != nil {
		return err
	}
	if c.To == "-" {
		_, _, err := c.write(ctx, r, open(os.Stdout))
		return err
	}
	var rollouts, rows int
	err = writeFile(c.To, func(w io.Writer) (err error) {
		rollouts, rows, err = c.write(ctx, r, open(w))
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d rollouts, %d rows in %s\n", rollouts, rows, c.To)
	return nil
}

func (c *exportCommand) write(ctx context.Context, r *archive.Reader, w export.Writer) (rollouts, rows int, err error) {
	for _, rec := range r.Records() {
		if rec.File == "" {
			continue
		}
		if err := ctx.Err(); err != nil {
			return rollouts, rows, err
		}
		ts, err := r.Trajectories(rec.File)
		if err != nil {
			return rollouts, rows, engine.Fail(engine.AtArchive, rec.File, err)
		}
		for i, t := range ts {
			if c.Outcome != "" && string(t.Outcome) != c.Outcome || !strings.HasPrefix(t.Phase, c.Phase) ||
				!strings.HasPrefix(string(t.Harness), c.Harness) {
				continue
			}
			rollouts++
			of := export.Rows(rec.File, i, t)
			rows += len(of)
			if err := w.Write(of); err != nil {
				return rollouts, rows, engine.Fail(engine.AtArchive, rec.File, err)
			}
		}
	}
	return rollouts, rows, w.Close()
}
