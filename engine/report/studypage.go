package report

import (
	_ "embed" // the study's template
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

//go:embed study.gohtml
var studySource string

var studyTemplate = template.Must(template.Must(pageTemplate.Clone()).New("study").Parse(studySource))

// studyView is what the template prints.
type studyView struct {
	Style   template.CSS
	Domains []studyDomainView
	Runs    int
}

type studyDomainView struct {
	studyDomain
	Figures []figure
	Verdict string
}

// figure is one plot with its caption.
type figure struct {
	Title      string
	Wide, Slim chart
}

// WriteStudy writes the page of many runs: for each domain the conditions side by side,
// the schedules of the main condition, and it against prompts alone.
func WriteStudy(w io.Writer, members []Member) error {
	v := studyView{Style: template.CSS(pageStyle), Runs: len(members)}
	for _, d := range newStudy(members).Domains {
		v.Domains = append(v.Domains, studyDomainView{studyDomain: d, Figures: d.figures(), Verdict: d.verdict()})
	}
	return engine.Fail(engine.AtArchive, "study", studyTemplate.Execute(w, v))
}

func (d studyDomain) figures() []figure {
	var all []figure
	add := func(title string, with func(arm) bool) {
		var others []Other
		for _, a := range d.Arms {
			if !a.Main && with(a) {
				others = append(others, Other{Name: a.Name, Curve: a.curve})
			}
		}
		if len(others) == 0 || !d.Arms[0].Main {
			return
		}
		t := timeline{curve: d.Arms[0].curve}
		all = append(all, figure{Title: title,
			Wide: newChart(t, others, engine.Interval{}, 960, 380), Slim: newChart(t, others, engine.Interval{}, 360, 300)})
	}
	add("Every condition, accuracy against rollouts", func(a arm) bool { return a.Condition != mainCondition })
	add("Against prompts alone", func(a arm) bool { return a.Condition == "prompt-only" })
	add("Other schedules of the same budget", func(a arm) bool { return a.Condition == mainCondition })
	return all
}

// verdict says in words whether the main arm is first, and by the paired test.
func (d studyDomain) verdict() string {
	if len(d.Arms) < 2 || !d.Arms[0].Main {
		return ""
	}
	var behind, level []string
	for _, a := range d.Arms[1:] {
		switch {
		case a.Condition == mainCondition || !a.Paired:
		case a.Lead.Gain > 0 && a.Lead.P <= .05:
			behind = append(behind, a.Name)
		case a.Final.Mean > d.Arms[0].Final.Mean:
			level = append(level, a.Name+" ends above it")
		default:
			level = append(level, a.Name+" can't be told apart")
		}
	}
	if len(level) == 0 {
		return fmt.Sprintf("%s is first: ahead of every other condition (paired by seed, task and sample, p ≤ .05).", d.Arms[0].Name)
	}
	return fmt.Sprintf("%s is ahead of %d of %d other conditions at p ≤ .05; %s.", d.Arms[0].Name, len(behind), len(behind)+len(level), strings.Join(level, ", "))
}
