package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Member is one run of a study.
type Member struct {
	Config  engine.Config
	Summary engine.Summary
	Records []engine.Record
	// Final are its test rollouts at the final point, for paired comparisons; may be empty.
	Final []*engine.Trajectory
}

// mainCondition is what the others of a study are set against.
const mainCondition = "whale"

// study is a set of runs sorted into domains and arms.
type study struct {
	Domains []studyDomain
}

// studyDomain holds the arms of one domain, the main one first, the others by their final mean.
type studyDomain struct {
	Name string
	K    int
	Tags []string
	Arms []arm
}

// arm is one condition with one schedule over its seeds.
type arm struct {
	Name      string // the condition, with its schedule where the domain has several of it
	Condition string
	Schedule  string
	Seeds     []uint64
	Main      bool
	Start     engine.Interval
	Final     engine.Interval
	Tags      []float64 // final means, in the order of studyDomain.Tags; NaN = none
	Rollouts  int       // per run
	Sampled   float64   // tokens per run
	Seconds   float64   // per run
	// Lead is the main arm's gain over this one on the same seeds, test tasks and samples.
	Lead   engine.Comparison
	Paired bool
	curve  []engine.CurvePoint
}

// newStudy sorts runs into arms. Runs without a test score at both ends are left out.
func newStudy(members []Member) study {
	byDomain := map[string][]Member{}
	for _, m := range members {
		if m.Summary.Test.Start.N > 0 && m.Summary.Test.Final.N > 0 {
			byDomain[m.Config.Domain] = append(byDomain[m.Config.Domain], m)
		}
	}
	var s study
	for name := range byDomain {
		s.Domains = append(s.Domains, newStudyDomain(name, byDomain[name]))
	}
	sort.Slice(s.Domains, func(i, j int) bool { return s.Domains[i].Name < s.Domains[j].Name })
	return s
}

func newStudyDomain(name string, members []Member) studyDomain {
	d := studyDomain{Name: oneLine(first(name, 60))}
	schedules := map[string]map[string]int{} // condition -> schedule -> runs
	groups := map[[2]string][]Member{}
	for _, m := range members {
		c, schedule := m.Config.Condition, m.Config.Schedule()
		if schedules[c] == nil {
			schedules[c] = map[string]int{}
		}
		schedules[c][schedule]++
		groups[[2]string{c, schedule}] = append(groups[[2]string{c, schedule}], m)
		h := headsOf(CurveOf(m.Records))
		d.K = max(d.K, h.k())
		for _, tag := range h.tags() {
			if !slices.Contains(d.Tags, tag) {
				d.Tags = append(d.Tags, tag)
			}
		}
	}
	sort.Strings(d.Tags)
	main := mainGroup(members)
	for key, group := range groups {
		sort.Slice(group, func(i, j int) bool { return group[i].Config.Seed < group[j].Config.Seed })
		a := newArm(group, d.Tags)
		a.Main = key == main
		if len(schedules[key[0]]) > 1 && !a.Main {
			a.Name += ", " + scheduleName(group[0].Config)
		}
		if !a.Main {
			a.Lead, a.Paired = lead(groups[main], group)
		}
		d.Arms = append(d.Arms, a)
	}
	sort.Slice(d.Arms, func(i, j int) bool {
		a, b := d.Arms[i], d.Arms[j]
		switch {
		case a.Main != b.Main:
			return a.Main
		case a.Final.Mean != b.Final.Mean:
			return a.Final.Mean > b.Final.Mean
		}
		return a.Name+"\n"+a.Schedule < b.Name+"\n"+b.Schedule // no two arms have both
	})
	return d
}

// mainGroup is the condition whale with the schedule that most runs of other conditions
// have, or else that of its first run.
func mainGroup(members []Member) [2]string {
	type pace struct {
		cycles, steps, iterations int
		epochs                    float64
	}
	paceOf := func(c engine.Config) pace { return pace{c.Cycles, c.Steps, c.Iterations, c.Epochs} }
	others := map[pace]int{}
	for _, m := range members {
		if m.Config.Condition != mainCondition {
			others[paceOf(m.Config)]++
		}
	}
	var main [2]string
	most := -1
	for _, m := range members {
		if n := others[paceOf(m.Config)]; m.Config.Condition == mainCondition && n > most {
			main, most = [2]string{mainCondition, m.Config.Schedule()}, n
		}
	}
	return main
}

// scheduleName is a schedule in as few characters as tell it from others.
func scheduleName(c engine.Config) string {
	if c.Epochs > 0 {
		return fmt.Sprintf("E %g epochs, I %d", c.Epochs, c.Iterations)
	}
	return fmt.Sprintf("E %d, I %d", c.Steps, c.Iterations)
}

func newArm(group []Member, tags []string) arm {
	c := group[0].Config
	a := arm{Name: oneLine(first(c.Condition, 60)), Condition: c.Condition, Schedule: oneLine(c.Schedule()), Tags: make([]float64, len(tags))}
	var starts, finals []engine.Interval
	var curves [][]engine.CurvePoint
	counts := make([]int, len(tags))
	n := float64(len(group))
	rollouts := 0
	for _, m := range group {
		a.Seeds = append(a.Seeds, m.Config.Seed)
		starts, finals = append(starts, m.Summary.Test.Start), append(finals, m.Summary.Test.Final)
		curve := CurveOf(m.Records)
		curves = append(curves, curve)
		h := headsOf(curve)
		for i, tag := range tags {
			if v := tagMean(h.final, tag); finite(v) {
				a.Tags[i] += v
				counts[i]++
			}
		}
		rollouts += m.Summary.Rollouts.Weight + m.Summary.Rollouts.Harness
		a.Sampled += float64(m.Summary.Tokens.Sampled) / n
		a.Seconds += m.Summary.Seconds.Total / n
	}
	for i := range tags {
		if counts[i] == 0 {
			a.Tags[i] = math.NaN()
			continue
		}
		a.Tags[i] /= float64(counts[i])
	}
	a.Rollouts = rollouts / len(group)
	a.Start, a.Final = engine.Across(starts), engine.Across(finals)
	a.curve = meanCurve(curves)
	return a
}

// lead compares the main arm with another on the seeds that both have. Tasks of different
// seeds count as different tasks.
func lead(main, other []Member) (engine.Comparison, bool) {
	var ours, theirs []*engine.Trajectory
	for _, m := range main {
		for _, o := range other {
			if m.Config.Seed == o.Config.Seed && len(m.Final) > 0 && len(o.Final) > 0 {
				ours = append(ours, ofSeed(m)...)
				theirs = append(theirs, ofSeed(o)...)
			}
		}
	}
	if len(ours) == 0 {
		return engine.Comparison{}, false
	}
	return engine.Compare(ours, theirs), true
}

func ofSeed(m Member) []*engine.Trajectory {
	out := make([]*engine.Trajectory, len(m.Final))
	for i, t := range m.Final {
		own := *t
		own.Task = engine.TaskID(fmt.Sprintf("%d/%s", m.Config.Seed, t.Task))
		out[i] = &own
	}
	return out
}

// meanCurve averages curves over runs. Runs reach their points at slightly different
// costs, so each is read, between its points in a straight line, at the costs of all;
// beyond its last point it keeps the last value.
func meanCurve(curves [][]engine.CurvePoint) []engine.CurvePoint {
	var at []int
	k := 0
	for _, c := range curves {
		for _, p := range c {
			if p.Test != nil && finite(p.Test.Mean) {
				at = append(at, p.Rollouts)
				k = max(k, p.Test.K)
			}
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	if len(curves) > 1 { // close points of different seeds become one
		at = thin(at)
	}
	var out []engine.CurvePoint
	for _, x := range at {
		var values []engine.Interval
		for _, c := range curves {
			if v, ok := valueAt(c, x); ok {
				values = append(values, v)
			}
		}
		m := engine.Across(values)
		out = append(out, engine.CurvePoint{Point: engine.Point{Rollouts: x},
			Test: &engine.Score{Mean: m.Mean, Lo: m.Lo, Hi: m.Hi, N: m.N, K: k}})
	}
	return out
}

// thin keeps the ends and drops points nearer than a fortieth of the range to the one before.
func thin(at []int) []int {
	if len(at) < 3 {
		return at
	}
	least := (at[len(at)-1] - at[0]) / 40
	out := at[:1:1]
	for _, x := range at[1 : len(at)-1] {
		if x-out[len(out)-1] > least && at[len(at)-1]-x > least {
			out = append(out, x)
		}
	}
	return append(out, at[len(at)-1])
}

func valueAt(curve []engine.CurvePoint, x int) (engine.Interval, bool) {
	var before *engine.CurvePoint
	for i := range curve {
		p := &curve[i]
		if p.Test == nil || !finite(p.Test.Mean) {
			continue
		}
		if p.Rollouts >= x && before != nil && p.Rollouts > before.Rollouts {
			t := float64(x-before.Rollouts) / float64(p.Rollouts-before.Rollouts)
			mix := func(a, b float64) float64 { return a + t*(b-a) }
			a, b := before.Test.Interval(), p.Test.Interval()
			return engine.Interval{Mean: mix(a.Mean, b.Mean), Lo: mix(a.Lo, b.Lo), Hi: mix(a.Hi, b.Hi), N: b.N}, true
		}
		if p.Rollouts >= x {
			return p.Test.Interval(), true
		}
		before = p
	}
	if before == nil {
		return engine.Interval{}, false
	}
	return before.Test.Interval(), true
}

// WriteStudyTable writes one aligned line an arm.
func WriteStudyTable(w io.Writer, members []Member) error {
	var b strings.Builder
	for i, d := range newStudy(members).Domains {
		if i > 0 {
			b.WriteByte('\n')
		}
		head := []string{d.Name, "seeds", "start", "final", "95 %", "whale is ahead by", "p"}
		rows := [][]string{append(append(head, d.Tags...), "rollouts", "tokens", "seconds")}
		for _, a := range d.Arms {
			row := []string{a.Name, count(len(a.Seeds)), share(a.Start.Mean), share(a.Final.Mean), brackets(a.Final), a.Gain(), a.P()}
			for _, v := range a.Tags {
				row = append(row, share(v))
			}
			rows = append(rows, append(row, count(a.Rollouts), compact(a.Sampled), seconds(a.Seconds)))
		}
		alignRows(&b, rows)
	}
	_, err := io.WriteString(w, b.String())
	return engine.Fail(engine.AtArchive, "study", err)
}

// Gain prints the main arm's lead over this one.
func (a arm) Gain() string {
	if !a.Paired {
		return missing
	}
	return fmt.Sprintf("%+.3f", a.Lead.Gain)
}

// P prints the chance of such a lead if neither were better.
func (a arm) P() string {
	switch {
	case !a.Paired:
		return missing
	case a.Lead.P < .0001:
		return "<0.0001"
	}
	return fmt.Sprintf("%.4f", a.Lead.P)
}

// SeedList names the seeds.
func (a arm) SeedList() string {
	names := make([]string, len(a.Seeds))
	for i, seed := range a.Seeds {
		names[i] = strconv.FormatUint(seed, 10)
	}
	return strings.Join(names, " ")
}
