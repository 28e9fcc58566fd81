package report

import (
	_ "embed" // the page's template and style
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
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
	"share":    share,
	"count":    count,
	"seconds":  seconds,
	"brackets": brackets,
	"compact":  func(n int) string { return compact(float64(n)) },
	"tokens":   compact,
}).Parse(pageSource))

// pageView is what the template prints. All text in it is visible already.
type pageView struct {
	Style      template.CSS // our own file, embedded
	Title      string
	Domain     string
	Condition  string
	Seed       uint64
	K          int
	Headline   headline
	Facts      []fact
	Wide, Slim chart
	Tags       []tagRow
	Phases     []phaseRow
	Total      engine.Spending
	Seconds    float64
	Stages     []stageRow
	Proposals  []proposalRow // per phase that asked a service, and all
	Foretold   []foretoldRow
	Basis      string // of what was foretold
	Luck       string // how often luck alone is accepted
	Lineage    lineage
	Family     family
	Rejected   []rejectionRow
	Rollouts   []transcriptView
	States     []string // of these, each once
	Live       bool
	Bar        Bar
	Left       int // transcripts not shown
	Origin     []pair
}

// headline is the result in a sentence.
type headline struct {
	Start, Final engine.Interval
	Verdict      string
	Baseline     string
	HasResult    bool
}

type fact struct{ Name, Value, Note string }

// pair is one line of where the run comes from.
type pair struct {
	Name, Value string
	Code        bool
}

type tagRow struct {
	Tag                string
	N                  int
	Start, Best, Final float64
	// The bar: the part that start and final share, and the change after it, in percent.
	Both, Change float64
	Fell         bool
}

type phaseRow struct {
	Kind     string
	Cycle    string
	Units    string
	Rollouts int
	Change   string
	Spending engine.Spending
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
	s, t := r.Summary, newTimeline(r.Records)
	h := headsOf(t.curve)
	v := pageView{
		Style: template.CSS(pageStyle), Domain: oneLine(first(s.Domain, 60)), Condition: oneLine(first(s.Condition, 60)), Seed: s.Seed,
		K: h.k(), Headline: viewHeadline(s), Facts: viewFacts(s, t),
		Wide: newChart(t, r.Others, s.BaselineSameTokens, 960, 380), Slim: newChart(t, r.Others, s.BaselineSameTokens, 360, 300),
		Tags: viewTags(h), Seconds: s.Seconds.Total, Stages: viewStages(s.Seconds),
		Lineage: newLineage(t, r.Harnesses), Origin: viewOrigin(r), Live: r.Live != nil,
		Rollouts: viewTranscripts(r), Left: max(0, len(r.Transcripts)-maxTranscripts),
	}
	href := func(id engine.HarnessID) string { return "#" + short(string(id)) }
	if r.Live != nil {
		v.Bar = *r.Live
		href = harnessPath
	}
	v.Family = newFamily(r.Records, href, 960, 320)
	for _, t := range v.Rollouts {
		if !slices.Contains(v.States, t.Class) {
			v.States = append(v.States, t.Class)
		}
	}
	slices.Sort(v.States)
	if s.LuckAccepts > 0 {
		v.Luck = luck(r.Config, s)
	}
	v.Title = fmt.Sprintf("%s, %s, seed %d", v.Domain, v.Condition, s.Seed)
	v.Phases, v.Total = viewPhases(t)
	v.Proposals = viewProposals(v.Phases, v.Total)
	v.Foretold, v.Basis = viewForetold(s, v.Headline.HasResult)
	for _, x := range t.rejected[:min(len(t.rejected), maxRefused)] {
		v.Rejected = append(v.Rejected, rejectionRow{
			ID: short(string(x.Harness.ID)), Where: fmt.Sprintf("%d:%d", x.Err.Line, x.Err.Column),
			Rule: oneLine(first(x.Err.Rule, 60)), Reason: first(x.Err.Reason, 400),
			Hypothesis: first(x.Harness.Meta.Hypothesis, 400),
		})
	}
	return v
}

// luck says what an accepted harness proves.
func luck(c engine.Config, s engine.Summary) string {
	text := fmt.Sprintf("An iteration whose candidates (%d) are only as good as the incumbent accepts one of them by luck up to %s of the time (accept_p %g). ",
		c.Candidates, share(s.LuckAccepts), c.AcceptP)
	if c.Racing > 0 {
		text += fmt.Sprintf("Candidates raced: each was put out early at a chance of %g at most that it would have won. ", c.Racing)
	}
	return text + "What counts is the select score of the next phase, on fresh seeds, and the test."
}

func viewHeadline(s engine.Summary) headline {
	h := headline{Start: s.Test.Start, Final: s.Test.Final}
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
	if b := s.BaselineSameTokens; b.N > 0 {
		h.Baseline = "The start, voting with as many tokens a task, reaches " + interval(b) + "."
	}
	return h
}

func viewFacts(s engine.Summary, t timeline) []fact {
	best := fact{"best point", missing, "chosen on the select split"}
	if s.Test.Best.N > 0 {
		best.Value, best.Note = share(s.Test.Best.Mean), brackets(s.Test.Best)
	}
	facts := []fact{best,
		{"rollouts", count(s.Rollouts.Weight + s.Rollouts.Harness),
			fmt.Sprintf("weight %s, harness %s", compact(float64(s.Rollouts.Weight)), compact(float64(s.Rollouts.Harness)))},
		{"tokens sampled", compact(float64(s.Tokens.Sampled)), compact(float64(s.Tokens.Trained)) + " trained"},
		{"seconds", seconds(s.Seconds.Total), oneLine(first(s.Device, 40))},
		{"unparsed", share(s.Unparsed), "coverage " + share(s.Coverage)},
	}
	if g := s.Gap.Best; g.N > 0 {
		facts = append(facts, fact{"select − test", signed(g.Mean), "[" + signed(g.Lo) + ", " + signed(g.Hi) + "] at the best point; at the start " + signed(s.Gap.Start.Mean)})
	}
	if len(t.steps) > 0 {
		facts = append(facts, fact{"largest drift", strconv.FormatFloat(t.drift, 'g', 2, 64), "log-prob, learner − policy"})
	}
	if c := proposalsOf(t); c.Calls > 0 {
		money := "price not known"
		if text := dollars(c); text != missing {
			money = "$ " + text
		}
		facts = append(facts, fact{"proposer tokens", compact(float64(c.Input + c.Output)), money + ", " + count(c.Calls) + " calls"})
	}
	if s.Joules != nil {
		facts = append(facts, fact{"joules", compact(*s.Joules), ""})
	}
	return facts
}

func viewTags(h heads) []tagRow {
	var rows []tagRow
	for _, name := range h.tags() {
		row := tagRow{Tag: oneLine(first(name, 40)), N: h.tagTasks(name),
			Start: tagMean(h.start, name), Best: tagMean(h.best, name), Final: tagMean(h.final, name)}
		from, to := percent(row.Start, 1), percent(row.Final, 1)
		row.Both, row.Change, row.Fell = min(from, to), max(from, to)-min(from, to), to < from
		rows = append(rows, row)
	}
	return rows
}

func tagMean(s *engine.Score, tag string) float64 {
	if s != nil {
		if m, ok := s.ByTag[tag]; ok {
			return m.Mean
		}
	}
	return math.NaN()
}

func percent(part, whole float64) float64 {
	if !finite(part) || !finite(whole) || whole <= 0 {
		return 0
	}
	return min(100, max(0, 100*part/whole))
}

func viewPhases(t timeline) (rows []phaseRow, total engine.Spending) {
	for _, s := range t.spans {
		row := phaseRow{Kind: oneLine(string(s.Kind)), Cycle: count(s.Cycle), Rollouts: s.To - s.From, Spending: s.Spending,
			Units: count(s.Units) + " " + unitName(s.Kind)}
		if finite(s.First) && finite(s.Last) {
			row.Change = share(s.First) + " → " + share(s.Last)
		}
		rows = append(rows, row)
		total = total.Add(s.Spending)
	}
	if m := t.measuring; m.Units > 0 {
		rows = append(rows, phaseRow{Kind: "measuring", Units: count(m.Units) + " points", Rollouts: m.To, Spending: m.Spending})
		total = total.Add(m.Spending)
	}
	return rows, total
}

func viewStages(s engine.SummarySeconds) []stageRow {
	stages := []stageRow{
		{Name: "rollouts", Seconds: s.Rollout}, {Name: "training", Seconds: s.Train}, {Name: "proposing", Seconds: s.Propose},
		{Name: "idle", Seconds: s.Idle}, {Name: "sandbox", Seconds: s.Sandbox}, {Name: "verifying", Seconds: s.Verify},
	}
	for i := range stages {
		stages[i].Percent = percent(stages[i].Seconds, s.Total)
	}
	return stages
}

// viewOrigin says what it takes to get the same run again.
func viewOrigin(r Run) []pair {
	c, s := r.Config, r.Summary
	pairs := []pair{
		{Name: "run", Value: r.Folder}, {Name: "command", Value: r.Command, Code: true},
		{Name: "model", Value: s.Model}, {Name: "device", Value: s.Device}, {Name: "proposer", Value: c.Proposer},
		{Name: "weights", Value: string(s.WeightsID), Code: true}, {Name: "harness", Value: string(s.HarnessID), Code: true},
	}
	if c.Steps > 0 {
		pairs = append(pairs,
			pair{Name: "schedule", Value: c.Schedule()},
			pair{Name: "weight phase", Value: fmt.Sprintf("%d prompts × %d samples a step, %d sequences an update, AdamW at rate %g, clip %g", c.Prompts, c.Samples, c.Batch, c.Optimizer.Rate, c.Optimizer.Clip)},
			pair{Name: "harness phase", Value: fmt.Sprintf("%d select tasks × %d samples, accepted at p ≤ %g and coverage ≥ %g", c.SelectTasks, c.SelectSamples, c.AcceptP, c.Coverage)},
			pair{Name: "sampling", Value: fmt.Sprintf("temperature %g, top-p %g, top-k %d", c.Sampling.Temperature, c.Sampling.TopP, c.Sampling.TopK)})
	}
	var shown []pair
	for _, p := range pairs {
		if p.Value != "" {
			p.Value = first(p.Value, 600)
			shown = append(shown, p)
		}
	}
	return shown
}
