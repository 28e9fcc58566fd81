package report

import (
	_ "embed" // the page's template and style
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"

	"github.com/seed-7c27e6b8/whale/engine"
)

//go:embed page.gohtml
var pageSource string

//go:embed page.css
var pageStyle string

// WriteHTML writes the page of a run: one file, no script, no request. An error is the
// writer's.
func WriteHTML(w io.Writer, r Run) error {
	err := pageTemplate.Execute(w, viewRun(r))
	return engine.Fail(engine.AtArchive, "report of "+oneLine(r.Name), err)
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"px": func(v float64) string {
		if !finite(v) {
			v = 0 // a stray value must not break the figure
		}
		return strconv.FormatFloat(v, 'f', 1, 64)
	},
	"share":   share,
	"count":   count,
	"seconds": seconds,
	"visible": visible,
	"compact": func(n int) string { return compact(float64(n)) },
}).Parse(pageSource))

// pageView is what the template prints.
type pageView struct {
	Style      template.CSS // our own file, embedded
	Title      string
	Run        Run
	K          int
	Headline   headline
	Wide, Slim chart
	Facts      []fact
	Tags       []tagRow
	Phases     []phaseRow
	Total      engine.Cost
	Stages     []stageRow
	Accepted   []harnessView
	Refused    []harnessView
	Rejected   []rejectionRow
	Final      *harnessView
	Rollouts   []transcriptView
	Left       int // transcripts not shown
	Settings   []Setting
}

// headline is the result in a sentence.
type headline struct {
	Start, Final, Best engine.Score
	Verdict            string
	Baseline           string
	HasResult          bool
}

type fact struct{ Name, Value, Note string }

type tagRow struct {
	Tag                string
	N                  int
	Start, Best, Final float64
	// The bar: the part that start and final share, and the change after it, in percent.
	Both, Change float64
	Fell         bool
}

type phaseRow struct {
	Span
	Rollouts int
	Change   string
	Unit     string
}

type stageRow struct {
	Name    string
	Seconds float64
	Percent float64 // of the total, in [0,100]
}

type rejectionRow struct {
	ID, Where, Rule, Reason, Hypothesis string
}

func viewRun(r Run) pageView {
	s := r.Summary
	v := pageView{
		Style: template.CSS(pageStyle), Run: r, K: kOf(s),
		Title:    fmt.Sprintf("%s, %s, seed %d", oneLine(s.Domain), oneLine(s.Condition), s.Seed),
		Headline: viewHeadline(s),
		Wide:     newChart(r, 960, 380), Slim: newChart(r, 360, 300),
		Facts: viewFacts(r), Tags: viewTags(s.Test), Stages: viewStages(s.Seconds),
		Rollouts: viewTranscripts(r), Left: max(0, len(r.Transcripts)-maxTranscripts),
	}
	for _, span := range r.Spans {
		v.Phases = append(v.Phases, viewPhase(span))
		v.Total = v.Total.Add(span.Cost)
	}
	v.Accepted, v.Refused, v.Final = viewHarnesses(r)
	for _, x := range r.Rejected {
		v.Rejected = append(v.Rejected, rejectionRow{
			ID: short(string(x.Harness.ID)), Where: fmt.Sprintf("%d:%d", x.Err.Line, x.Err.Column),
			Rule: oneLine(first(x.Err.Rule, 60)), Reason: first(x.Err.Reason, 400),
			Hypothesis: first(x.Harness.Meta.Hypothesis, 400),
		})
	}
	for _, x := range r.Settings {
		v.Settings = append(v.Settings, Setting{oneLine(x.Name), first(x.Value, 400)})
	}
	return v
}

// kOf is the number of samples a task that the test scores rest on.
func kOf(s Summary) int {
	return max(s.Test.Start.K, s.Test.Final.K, s.Test.Best.K)
}

func viewHeadline(s Summary) headline {
	h := headline{Start: s.Test.Start, Final: s.Test.Final, Best: s.Test.Best}
	h.HasResult = h.Start.N > 0 && h.Final.N > 0
	switch {
	case !h.HasResult:
		h.Verdict = "The test split has not been measured at both ends yet."
	case h.Final.Lo > h.Start.Hi:
		h.Verdict = "Test accuracy rose, and the intervals do not overlap."
	case h.Final.Hi < h.Start.Lo:
		h.Verdict = "Test accuracy fell, and the intervals do not overlap."
	default:
		h.Verdict = "The intervals overlap: no change that this test can tell from noise."
	}
	if b := s.Baseline; b != nil {
		h.Baseline = "The start spending as many tokens a task reaches " + interval(*b) + "."
	}
	return h
}

func viewFacts(r Run) []fact {
	s := r.Summary
	facts := []fact{
		{"best", share(s.Test.Best.Mean), fmt.Sprintf("[%s, %s]", share(s.Test.Best.Lo), share(s.Test.Best.Hi))},
		{"rollouts", count(s.Rollouts.Weight + s.Rollouts.Harness),
			fmt.Sprintf("weight %s, harness %s", compact(float64(s.Rollouts.Weight)), compact(float64(s.Rollouts.Harness)))},
		{"tokens sampled", compact(float64(s.Tokens.Sampled)), compact(float64(s.Tokens.Trained)) + " trained"},
		{"seconds", seconds(s.Seconds.Total), oneLine(s.Device)},
		{"unparsed", share(s.Unparsed), "coverage " + share(s.Coverage)},
	}
	if s.Joules != nil {
		facts = append(facts, fact{"joules", compact(*s.Joules), ""})
	}
	return facts
}

func viewTags(t Tests) []tagRow {
	var rows []tagRow
	for _, name := range tagNames(t) {
		row := tagRow{Tag: oneLine(first(name, 40)), N: max(t.Start.ByTag[name].N, t.Final.ByTag[name].N),
			Start: tagMean(t.Start, name), Best: tagMean(t.Best, name), Final: tagMean(t.Final, name)}
		from, to := percent(row.Start, 1), percent(row.Final, 1)
		row.Both, row.Change, row.Fell = min(from, to), max(from, to)-min(from, to), to < from
		rows = append(rows, row)
	}
	return rows
}

func tagMean(s engine.Score, tag string) float64 {
	if m, ok := s.ByTag[tag]; ok {
		return m.Mean
	}
	return math.NaN()
}

func percent(part, whole float64) float64 {
	if !finite(part) || !finite(whole) || whole <= 0 {
		return 0
	}
	return min(100, max(0, 100*part/whole))
}

func viewPhase(s Span) phaseRow {
	row := phaseRow{Span: s, Rollouts: s.To - s.From, Unit: "steps"}
	if s.Kind == HarnessPhase {
		row.Unit = "iterations"
	}
	if finite(s.First) && finite(s.Last) && (s.First != 0 || s.Last != 0) {
		row.Change = share(s.First) + " → " + share(s.Last)
	}
	return row
}

func viewStages(s Seconds) []stageRow {
	stages := []stageRow{
		{Name: "rollouts", Seconds: s.Rollout}, {Name: "sandbox", Seconds: s.Sandbox},
		{Name: "training", Seconds: s.Train}, {Name: "proposing", Seconds: s.Propose},
		{Name: "verifying", Seconds: s.Verify}, {Name: "idle", Seconds: s.Idle},
	}
	for i := range stages {
		stages[i].Percent = percent(stages[i].Seconds, s.Total)
	}
	return stages
}
