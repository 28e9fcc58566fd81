package report

import (
	_ "embed" // the templates of the pages beside the run's own
	"fmt"
	"html/template"
	"io"
	"net/url"
	"strconv"

	"github.com/seed-7c27e6b8/whale/engine"
)

// RolloutList is one screen of a run's rollouts. Text in it may be foreign.
type RolloutList struct {
	Run   string // its name
	Bar   Bar
	Query RolloutQuery // what is shown
	Rows  []RolloutRow
	From  int // number of the first row among those found, from 0
	Found int
	Of    int // rollouts of the run
}

// RolloutQuery chooses rollouts. Empty fields choose all.
type RolloutQuery struct {
	State   string // solved, wrong, unparsed, invalid or infra
	Harness string // beginning of the id
	Task    string // beginning of the id
	Phase   string // beginning: train, select/2, measure
	Sort    string // tokens, turns or reward; empty = as made
	Down    bool   // largest first
	Page    int    // from 0
}

// States are the values of RolloutQuery.State, in the order in which they are offered.
var States = []string{"solved", "wrong", "unparsed", "invalid", "infra"}

// State names how a rollout came out, as all pages do.
func State(o engine.Outcome, v engine.VerdictKind, reward float64) string {
	s, _ := stateOf(&engine.Trajectory{Outcome: o, Verdict: engine.Verdict{Kind: v, Reward: reward}})
	return s
}

// RolloutRow is one rollout in a list.
type RolloutRow struct {
	File                          string
	Index                         int
	State                         string
	Task, Harness, Phase          string
	Sample                        int
	Reward                        float64
	Turns, Tools, Sampled, Prompt int
}

// Values writes a query as it stands in an address.
func (q RolloutQuery) Values() url.Values {
	v := url.Values{}
	for _, p := range [][2]string{{"state", q.State}, {"harness", q.Harness}, {"task", q.Task}, {"phase", q.Phase}, {"sort", q.Sort}} {
		if p[1] != "" {
			v.Set(p[0], p[1])
		}
	}
	if q.Down {
		v.Set("down", "1")
	}
	if q.Page > 0 {
		v.Set("page", strconv.Itoa(q.Page))
	}
	return v
}

// ParseRolloutQuery reads what Values wrote; what it does not know is as if not given.
func ParseRolloutQuery(v url.Values) RolloutQuery {
	q := RolloutQuery{State: v.Get("state"), Harness: v.Get("harness"), Task: v.Get("task"), Phase: v.Get("phase"), Sort: v.Get("sort"), Down: v.Get("down") != ""}
	if n, err := strconv.Atoi(v.Get("page")); err == nil && n > 0 {
		q.Page = n
	}
	return q
}

func (q RolloutQuery) path() string {
	if encoded := q.Values().Encode(); encoded != "" {
		return "/rollouts?" + encoded
	}
	return "/rollouts"
}

// choice is a link that changes a query.
type choice struct {
	Text, Href string
	Current    bool
}

type listView struct {
	RolloutList
	Style      template.CSS
	States     []choice
	Heads      []choice
	Prev, Next string // addresses; empty = none
	Range      string
	Rows       []rowView
}

type rowView struct {
	RolloutRow
	Href, HarnessHref, Name string
	Good                    bool
}

//go:embed pages.gohtml
var pagesSource string

var pages = template.Must(template.Must(pageTemplate.Clone()).New("pages").Parse(pagesSource))

// WriteRollouts writes a page with a list of rollouts.
func WriteRollouts(w io.Writer, l RolloutList) error {
	v := listView{RolloutList: l, Style: template.CSS(pageStyle)}
	v.Run = oneLine(first(l.Run, 60))
	v.Bar.At = "rollouts"
	with := func(change func(*RolloutQuery)) string {
		q := l.Query
		q.Page = 0
		change(&q)
		return q.path()
	}
	v.States = append(v.States, choice{"all", with(func(q *RolloutQuery) { q.State = "" }), l.Query.State == ""})
	for _, state := range States {
		v.States = append(v.States, choice{state, with(func(q *RolloutQuery) { q.State = state }), l.Query.State == state})
	}
	for _, sort := range []string{"", "reward", "turns", "tokens"} {
		text := sort
		if sort == "" {
			text = "as made"
		}
		current := l.Query.Sort == sort
		if current && l.Query.Down {
			text += " ↓"
		} else if current {
			text += " ↑"
		}
		v.Heads = append(v.Heads, choice{text, with(func(q *RolloutQuery) {
			q.Down = current && !q.Down || !current && sort != ""
			q.Sort = sort
		}), current})
	}
	for _, r := range l.Rows {
		row := rowView{RolloutRow: r, Href: rolloutPath(r.File, r.Index), HarnessHref: harnessPath(engine.HarnessID(r.Harness)), Good: r.State == "solved"}
		row.Name = fmt.Sprintf("%s:%d", oneLine(first(r.File, 60)), r.Index)
		row.State, row.Task, row.Harness, row.Phase = oneLine(first(r.State, 20)), short(r.Task), short(r.Harness), oneLine(first(r.Phase, 40))
		v.Rows = append(v.Rows, row)
	}
	v.Range = fmt.Sprintf("%s of %s rollouts match", count(l.Found), count(l.Of))
	if n := len(l.Rows); n > 0 && n < l.Found {
		v.Range += fmt.Sprintf(", %s to %s", count(l.From+1), count(l.From+n))
	}
	if q := l.Query; q.Page > 0 {
		q.Page--
		v.Prev = q.path()
	}
	if q := l.Query; l.From+len(l.Rows) < l.Found {
		q.Page++
		v.Next = q.path()
	}
	return engine.Fail(engine.AtArchive, "list of rollouts", pages.ExecuteTemplate(w, "rollouts", v))
}

func harnessPath(id engine.HarnessID) string { return "/harnesses/" + url.PathEscape(string(id)) }

func rolloutPath(file string, index int) string {
	return "/rollouts/" + url.PathEscape(file) + "/" + strconv.Itoa(index)
}

// WriteRollout writes a page with one rollout.
func WriteRollout(w io.Writer, bar Bar, t Transcript, decode func([]int32) string) error {
	v := struct {
		Style   template.CSS
		Bar     Bar
		Rollout transcriptView
		Cost    engine.Cost
		Harness string
	}{template.CSS(pageStyle), bar, viewTranscript(t, decode), t.Rollout.Cost, harnessPath(t.Rollout.Harness)}
	v.Rollout.Open = true
	return engine.Fail(engine.AtArchive, "rollout", pages.ExecuteTemplate(w, "rollout", v))
}

// WriteHarness writes a page with one harness: where it comes from, how it scored, what
// it changed and its whole source. parent is the one it is compared with; none is empty.
func WriteHarness(w io.Writer, bar Bar, h, parent engine.Harness, records []engine.Record) error {
	v := struct {
		Style      template.CSS
		Bar        Bar
		H          harnessView
		ParentHref string
		Scores     []string
	}{Style: template.CSS(pageStyle), Bar: bar, H: harnessView{ID: oneLine(first(string(h.ID), 40)), Axis: oneLine(first(h.Meta.Axis, 40)), Hypothesis: first(h.Meta.Hypothesis, 2000)}}
	if parent.Source != "" {
		v.H.compare(parent.Source, h.Source)
		v.H.Parent, v.ParentHref = short(string(parent.ID)), harnessPath(parent.ID)
	}
	v.H.Source, v.H.SourceCut = source(h.Source)
	for _, s := range evaluations(records) {
		if s.entry.Harness.ID == h.ID {
			v.Scores = append(v.Scores, fmt.Sprintf("cycle %d: select %s, %s", s.cycle, interval(s.entry.Score.Interval()), standing(s)))
		}
	}
	return engine.Fail(engine.AtArchive, "harness "+v.H.ID, pages.ExecuteTemplate(w, "harness", v))
}

func standing(s scored) string {
	switch {
	case s.again:
		return "in use"
	case s.entry.Accepted:
		return "accepted"
	}
	return "not taken"
}
