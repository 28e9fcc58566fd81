package report

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/seed-7c27e6b8/whale/engine"
)

// maxOthers bounds the runs in the background of a figure.
const maxOthers = 8

// chart is the figure of accuracy against rollouts, in coordinates of its own box. Every
// coordinate is finite and inside the box, whatever the data.
type chart struct {
	Width, Height            float64
	Left, Top, Right, Bottom float64 // edges of the plot
	Label                    string  // the figure in one sentence, for who can't see it
	Bands                    []band
	XTicks, YTicks           []tick
	Steps                    []mark
	StepPath                 string
	Points                   []mark
	PointPath                string
	Others                   []curve
	Baseline                 *mark
	Accepted                 []mark
}

// band is the shading of one phase.
type band struct {
	X, W  float64
	Kind  string
	Label string // empty where it would not fit
	Title string
}

// Middle is where the band's label stands.
func (b band) Middle() float64 { return b.X + b.W/2 }

// curve is the line of another run with its name at the end.
type curve struct {
	Path string
	End  mark
}

// PlotHeight, and below it where the template puts the words around the plot.
func (c chart) PlotHeight() float64 { return c.Bottom - c.Top }

// BandText is the height of the phases' names.
func (c chart) BandText() float64 { return c.Bottom - 8 }

// YText is where the numbers of the upright axis end.
func (c chart) YText() float64 { return c.Left - 8 }

// TickEnd is the lower end of the ticks.
func (c chart) TickEnd() float64 { return c.Bottom + 5 }

// XText is the height of the numbers of the level axis, AxisText that of its name.
func (c chart) XText() float64 { return c.Bottom + 19 }

// AxisText: see XText.
func (c chart) AxisText() float64 { return c.Bottom + 37 }

type tick struct {
	At   float64
	Text string
}

// mark is one value with its interval from Lo to Hi (the same height when it has none).
type mark struct {
	X, Y, Lo, Hi   float64
	Label          string // printed beside it, if not empty
	Anchor         string // how Label sits: start or end
	LabelX, LabelY float64
	Title          string
}

// plot maps data to coordinates.
type plot struct {
	*chart
	most float64 // rollouts at the right edge, > 0
	peak float64 // value at the top edge, > 0
}

func (p plot) x(rollouts int) float64 {
	return p.Left + (p.Right-p.Left)*min(1, max(0, float64(rollouts)/p.most))
}

func (p plot) y(v float64) float64 {
	return p.Bottom - (p.Bottom-p.Top)*min(1, max(0, v/p.peak))
}

// newChart draws a run into a box of the given size, in CSS pixels.
func newChart(t timeline, others []Other, baseline engine.Interval, width, height float64) chart {
	c := chart{Width: width, Height: height, Left: 38, Top: 30, Right: width - 14, Bottom: height - 44}
	p := plot{chart: &c, most: float64(mostRollouts(t, others)), peak: peakValue(t, others, baseline)}
	c.Label = chartLabel(t.curve)
	p.drawAxes()
	p.drawSpans(t)
	p.drawSteps(t)
	for _, o := range others[:min(len(others), maxOthers)] {
		p.drawOther(o)
	}
	p.spread()
	p.drawPoints(t.curve)
	if baseline.N > 0 && finite(baseline.Mean) {
		c.Baseline = &mark{X: c.Left, Y: p.y(baseline.Mean), Title: "start with the same tokens: " + interval(baseline)}
	}
	return c
}

func (p plot) drawAxes() {
	for i := range 5 {
		v := p.peak * float64(i) / 4
		p.YTicks = append(p.YTicks, tick{p.y(v), strconv.FormatFloat(v, 'f', 2, 64)})
	}
	step := niceStep(p.most, (p.Right-p.Left)/75)
	for v := 0.0; v <= p.most*1.0001; v += step {
		p.XTicks = append(p.XTicks, tick{p.x(int(v)), count(int(v))})
	}
}

func (p plot) drawSpans(t timeline) {
	incumbent := t.seed
	for _, s := range t.spans {
		from, to := p.x(s.From), p.x(s.To)
		kind := oneLine(string(s.Kind))
		b := band{X: from, W: max(0, to-from), Kind: kind, Title: spanTitle(s)}
		switch {
		case b.W >= 52:
			b.Label = kind
		case b.W >= 16:
			b.Label, _ = cut(kind, 1)
		}
		p.Bands = append(p.Bands, b)
		if s.Kept == "" || s.Kept == incumbent {
			continue
		}
		incumbent = s.Kept
		p.Accepted = append(p.Accepted, mark{X: to, Y: p.Top, Lo: p.Bottom, Hi: p.Top,
			Title: fmt.Sprintf("cycle %d keeps %s", s.Cycle, short(string(s.Kept)))})
	}
}

// drawSteps draws a line within each weight phase, none across the phases between.
func (p plot) drawSteps(t timeline) {
	var line path
	phase := 0
	for i, s := range t.steps {
		if !finite(s.Accepted) {
			continue
		}
		for phase < len(t.spans) && t.spans[phase].To < s.Rollouts {
			phase++
			line.lift = true
		}
		m := mark{X: p.x(s.Rollouts), Y: p.y(s.Accepted),
			Title: fmt.Sprintf("step %d: accepted %s, loss %s", i+1, share(s.Accepted), share(s.NLL))}
		p.Steps = append(p.Steps, m)
		line.to(m.X, m.Y)
	}
	p.StepPath = line.String()
}

func (p plot) drawPoints(points []engine.CurvePoint) {
	var line path
	for _, q := range points {
		if q.Test == nil || !finite(q.Test.Mean) {
			continue
		}
		m := mark{X: p.x(q.Rollouts), Y: p.y(q.Test.Mean), Lo: p.y(q.Test.Mean), Hi: p.y(q.Test.Mean)}
		if finite(q.Test.Lo) && finite(q.Test.Hi) {
			m.Lo, m.Hi = p.y(q.Test.Lo), p.y(q.Test.Hi)
		}
		m.Title = fmt.Sprintf("%s rollouts: %s, mean@%d", count(q.Rollouts), interval(q.Test.Interval()), q.Test.K)
		p.place(&m, share(q.Test.Mean))
		p.Points = append(p.Points, m)
		line.to(m.X, m.Y)
	}
	p.PointPath = line.String()
	for i := 1; i < len(p.Points)-1; i++ { // only the ends carry their value
		p.Points[i].Label = ""
	}
}

// drawOther draws another run in the background, with its name at its last point.
func (p plot) drawOther(o Other) {
	var line path
	var end mark
	for _, q := range o.Curve {
		if q.Test == nil || !finite(q.Test.Mean) {
			continue
		}
		end = mark{X: p.x(q.Rollouts), Y: p.y(q.Test.Mean),
			Title: fmt.Sprintf("%s, %s rollouts: %s", oneLine(first(o.Name, 40)), count(q.Rollouts), interval(q.Test.Interval()))}
		line.to(end.X, end.Y)
	}
	if len(line.text) == 0 {
		return
	}
	end.Label, end.Anchor = oneLine(first(o.Name, 40)), "end"
	end.LabelX = end.X - 2
	if end.X < (p.Left+p.Right)/2 {
		end.LabelX, end.Anchor = end.X+2, "start"
	}
	p.Others = append(p.Others, curve{Path: line.String(), End: end})
}

// spread places the names of other runs apart, from the top down and back up from the
// bottom edge, since runs often end at about the same height.
func (p plot) spread() {
	const apart = 14
	order := make([]*mark, len(p.Others))
	for i := range p.Others {
		order[i] = &p.Others[i].End
	}
	sort.SliceStable(order, func(i, j int) bool { return order[i].Y < order[j].Y })
	for i, m := range order {
		switch {
		case i > 0: // the uppermost is named above its line, the others below theirs
			m.LabelY = max(m.Y+16, order[i-1].LabelY+apart)
		case m.Y-7 < p.Top+12:
			m.LabelY = m.Y + 16
		default:
			m.LabelY = m.Y - 7
		}
	}
	limit := p.Bottom - 22 // above the names of the phases
	for _, m := range slices.Backward(order) {
		m.LabelY = min(m.LabelY, limit)
		limit = m.LabelY - apart
	}
}

// place puts a label above the upper end of an interval, or below the lower one where
// that would leave the plot.
func (p plot) place(m *mark, label string) {
	m.Label = label
	m.LabelX, m.Anchor = m.X+8, "start"
	if m.X > (p.Left+p.Right)/2 {
		m.LabelX, m.Anchor = m.X-8, "end"
	}
	m.LabelY = m.Hi - 8
	if m.LabelY < p.Top+12 {
		m.LabelY = min(m.Lo+18, p.Bottom-4)
	}
}

// path collects the points of a line in SVG's notation.
type path struct {
	text []byte
	lift bool // the next point begins a new line
}

func (p *path) to(x, y float64) {
	command := byte('L')
	if len(p.text) == 0 || p.lift {
		command, p.lift = 'M', false
	}
	p.text = append(p.text, command)
	p.text = strconv.AppendFloat(p.text, x, 'f', 1, 64)
	p.text = append(p.text, ' ')
	p.text = strconv.AppendFloat(p.text, y, 'f', 1, 64)
}

func (p *path) String() string { return string(p.text) }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// niceStep is the distance of ticks, 1, 2 or 5 times a power of ten, for at most about
// the wanted number of them.
func niceStep(most, wanted float64) float64 {
	raw := most / max(1, wanted)
	unit := math.Pow(10, math.Floor(math.Log10(max(raw, 1))))
	for _, f := range []float64{1, 2, 5} {
		if f*unit >= raw {
			return f * unit
		}
	}
	return 10 * unit
}

func mostRollouts(t timeline, others []Other) int {
	most := 1
	for _, s := range t.spans {
		most = max(most, s.To)
	}
	for _, q := range t.curve {
		most = max(most, q.Rollouts)
	}
	for _, o := range others {
		for _, q := range o.Curve {
			most = max(most, q.Rollouts)
		}
	}
	return most
}

// peakValue is the value at the top: the smallest fifth of the scale that holds all.
func peakValue(t timeline, others []Other, baseline engine.Interval) float64 {
	most := 0.0
	see := func(values ...float64) {
		for _, v := range values {
			if finite(v) {
				most = max(most, v)
			}
		}
	}
	all := append([]Other{{Curve: t.curve}}, others...)
	for _, o := range all {
		for _, q := range o.Curve {
			if q.Test != nil {
				see(q.Test.Mean, q.Test.Hi)
			}
		}
	}
	for _, s := range t.steps {
		see(s.Accepted)
	}
	if baseline.N > 0 {
		see(baseline.Mean)
	}
	for _, peak := range []float64{0.2, 0.4, 0.6, 0.8} {
		if most <= peak {
			return peak
		}
	}
	return 1
}

func spanTitle(s span) string {
	return fmt.Sprintf("cycle %d, %s phase: %s %s, %s rollouts", s.Cycle, oneLine(string(s.Kind)), count(s.Units), unitName(s.Kind), count(s.To-s.From))
}

func unitName(k engine.PhaseKind) string {
	if k == engine.HarnessKind {
		return "iterations"
	}
	return "steps"
}

func chartLabel(points []engine.CurvePoint) string {
	h := headsOf(points)
	if h.start == nil || h.final == nil {
		return "Not everything was measured on the test split yet."
	}
	return fmt.Sprintf("Test accuracy against rollouts spent: %s at the start, %s after %s rollouts.",
		share(h.start.Mean), share(h.final.Mean), count(points[len(points)-1].Rollouts))
}

// interval prints a mean with its interval: 0.947 [0.925, 0.966].
func interval(s engine.Interval) string {
	return fmt.Sprintf("%s %s", share(s.Mean), brackets(s))
}

func brackets(s engine.Interval) string {
	return fmt.Sprintf("[%s, %s]", share(s.Lo), share(s.Hi))
}
