package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/report"
	"github.com/seed-7c27e6b8/whale/trainer"
)

type reportCommand struct {
	pageFlags
	Runs  []string `arg:"" type:"existingdir" help:"Run folders; with several, each page shows the others' curves too."`
	Table bool     `help:"Only print the table, leave the pages as they are."`
	Study string   `placeholder:"FILE" help:"Instead, write one page of all runs: conditions over their seeds, and print that as a table."`
}

// Run writes the pages of finished runs again and prints one line a run.
func (c *reportCommand) Run(ctx context.Context) error {
	if c.UI != "" {
		if len(c.Runs) != 1 {
			return usageError{errors.New("report: --ui serves one run at a time")}
		}
		return c.show(ctx, c.Runs[0])
	}
	if c.Study != "" {
		return c.study(ctx)
	}
	var summaries []engine.Summary
	var readers []*archive.Reader
	for _, dir := range c.Runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, s, err := readRun(dir)
		if err != nil {
			return err
		}
		readers = append(readers, r)
		summaries = append(summaries, *s)
	}
	if !c.Table {
		for i, r := range readers {
			if err := ctx.Err(); err != nil {
				return err
			}
			var others []report.Other
			for j, o := range readers {
				if i != j && summaries[i].Domain == summaries[j].Domain {
					others = append(others, report.Other{Name: summaries[j].Condition, Curve: report.CurveOf(o.Records())})
				}
			}
			if err := rewrite(r, c.Runs[i], summaries[i], others); err != nil {
				return err
			}
		}
	}
	return report.WriteComparison(os.Stdout, summaries)
}

// readRun opens the folder of a finished run.
func readRun(dir string) (*archive.Reader, *engine.Summary, error) {
	r, err := archive.Read(dir)
	if err != nil {
		return nil, nil, err
	}
	s, err := r.Summary()
	if errors.Is(err, os.ErrNotExist) {
		err = engine.Fail(engine.AtArchive, dir, errors.New("the run has not ended; `whale run` goes on with it, `whale report --ui ADDR` and `whale archive` show it as it stands"))
	}
	return r, s, err
}

// study sets many runs side by side.
func (c *reportCommand) study(ctx context.Context) error {
	var members []report.Member
	for _, dir := range c.Runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, s, err := readRun(dir)
		if err != nil {
			return err
		}
		m := report.Member{Config: r.Manifest().Config, Summary: *s, Records: r.Records()}
		if m.Final, err = finalTest(r); err != nil {
			return err
		}
		members = append(members, m)
	}
	if err := writeFile(c.Study, func(w io.Writer) error { return report.WriteStudy(w, members) }); err != nil {
		return err
	}
	return report.WriteStudyTable(os.Stdout, members)
}

// finalTest reads the rollouts of a run's last point on the test split; none if it was
// not measured.
func finalTest(r *archive.Reader) ([]*engine.Trajectory, error) {
	file, last := "", -1
	for _, rec := range r.Records() {
		if m := rec.Measure; m != nil && m.Split == engine.Test && m.Point > last {
			file, last = rec.File, m.Point
		}
	}
	if file == "" {
		return nil, nil
	}
	return r.Trajectories(file)
}

// rewrite makes the page of one archived run.
func rewrite(from *archive.Reader, dir string, summary engine.Summary, others []report.Other) (err error) {
	config := from.Manifest().Config
	s := &site{}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.openWords(config); err != nil {
		return err
	}
	r, err := readReport(from, s, config, summary, dir)
	if err != nil {
		return err
	}
	r.Others = others
	return writePage(filepath.Join(dir, "report.html"), r)
}

// openWords opens what gives a run's records their words: its tasks and its tokenizer.
func (s *site) openWords(c engine.Config) (err error) {
	if s.domain, _, err = openDomain(c); err != nil {
		return err
	}
	if s.device, err = openDevice("cpu", 1); err != nil {
		return err
	}
	s.trainer, err = openModel(c.Model, c.Domain, s.device, trainer.Options{})
	return err
}

// readReport gathers what a page shows.
func readReport(from report.Source, s *site, c engine.Config, summary engine.Summary, dir string) (report.Run, error) {
	r, err := report.Read(from, s.domain)
	if err != nil {
		return r, err
	}
	r.Name, r.Folder, r.Command = filepath.Base(dir), dir, commandLine(c)
	r.Config, r.Summary = c, summary
	r.Decode = func(ids []int32) string { return s.trainer.Tokenizer().Decode(ids) }
	return r, nil
}

// writePage publishes a page as a whole.
func writePage(path string, r report.Run) error {
	return writeFile(path, func(w io.Writer) error { return report.WriteHTML(w, r) })
}
