package report

import (
	"fmt"
	"math"
	"strconv"

	"github.com/seed-7c27e6b8/whale/engine"
)

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
	Baseline                 *mark
	Accepted                 []mark
}

// band is the shading of one phase.
type band struct {
	X, W  float64
	Kind  PhaseKind
	Label string // empty where it would not fit
	Title string
}

// Middle is where the band's label stands.
func (b band) Middle() float64 { return b.X + b.W/2 }

// Where the template puts the words around the plot.

func (c chart) PlotHeight() float64 { return c.Bottom - c.Top }
func (c chart) BandText() float64   { return c.Bottom - 8 }
func (c chart) YText() float64      { return c.Left - 8 }
func (c chart) TickEnd() float64    { return c.Bottom + 5 }
func (c chart) XText() float64      { return c.Bottom + 19 }
func (c chart) AxisText() float64   { return c.Bottom + 37 }

type tick struct {
	At   float64
	Text string
}

// mark is one value with its interval from Lo to Hi (the same height when it has none).
type mark struct {
	X, Y, Lo, Hi float64
	Label        string // printed beside it, if not empty
	Anchor       string // how Label sits: start, middle, end
	LabelX       float64
	LabelY       float64
	Title        string
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
func newChart(r Run, width, height float64) chart {
	c := chart{Width: width, Height: height, Left: 38, Top: 30, Right: width - 14, Bottom: height - 44}
	p := plot{chart: &c, most: float64(mostRollouts(r)), peak: peakValue(r)}
	c.Label = chartLabel(r)
	p.drawAxes()
	p.drawSpans(r)
	p.drawSteps(r)
	p.drawPoints(r.Points)
	if b := r.Summary.Baseline; b != nil && finite(b.Mean) {
		y := p.y(b.Mean)
		c.Baseline = &mark{X: c.Left, Y: y, Lo: p.y(b.Lo), Hi: p.y(b.Hi), LabelY: baselineLabel(y, c),
			Title: "start with the same tokens: " + interval(*b)}
	}
	return c
}

// baselineLabel puts the words above the line, or below it close to the top edge.
func baselineLabel(y float64, c chart) float64 {
	if y-6 < c.Top+10 {
		return y + 14
	}
	return y - 6
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

func (p plot) drawSpans(r Run) {
	incumbent := r.Seed
	for _, s := range r.Spans {
		from, to := p.x(s.From), p.x(s.To)
		b := band{X: from, W: to - from, Kind: s.Kind, Title: spanTitle(s)}
		if b.W >= 52 {
			b.Label = string(s.Kind)
		} else if b.W >= 16 {
			b.Label = string(s.Kind)[:1]
		}
		p.Bands = append(p.Bands, b)
		if s.Accepted == "" || s.Accepted == incumbent {
			continue
		}
		incumbent = s.Accepted
		p.Accepted = append(p.Accepted, mark{X: to, Y: p.Top, Lo: p.Bottom, Hi: p.Top,
			Title: fmt.Sprintf("cycle %d accepts %s", s.Cycle, visible(string(s.Accepted)))})
	}
}

// drawSteps draws a line within each weight phase, none across the phases between.
func (p plot) drawSteps(r Run) {
	var line path
	phase := 0
	for i, s := range r.Steps {
		if !finite(s.Accepted) {
			continue
		}
		for phase < len(r.Spans) && r.Spans[phase].To < s.Rollouts {
			phase++
			line.lift = true
		}
		m := mark{X: p.x(s.Rollouts), Y: p.y(s.Accepted),
			Title: fmt.Sprintf("step %d: accepted %s, loss %s", i+1, share(s.Accepted), share(s.NLL))}
		m.Lo, m.Hi = m.Y, m.Y
		p.Steps = append(p.Steps, m)
		line.to(m.X, m.Y)
	}
	p.StepPath = line.String()
}

func (p plot) drawPoints(points []Point) {
	var line path
	for _, q := range points {
		if !finite(q.Score.Mean) {
			continue
		}
		m := mark{X: p.x(q.Rollouts), Y: p.y(q.Score.Mean), Lo: p.y(q.Score.Mean), Hi: p.y(q.Score.Mean)}
		if finite(q.Score.Lo) && finite(q.Score.Hi) {
			m.Lo, m.Hi = p.y(q.Score.Lo), p.y(q.Score.Hi)
		}
		m.Title = fmt.Sprintf("%s rollouts: %s", count(q.Rollouts), interval(q.Score))
		p.place(&m, share(q.Score.Mean))
		p.Points = append(p.Points, m)
		line.to(m.X, m.Y)
	}
	p.PointPath = line.String()
	for i := 1; i < len(p.Points)-1; i++ { // only the ends carry their value
		p.Points[i].Label = ""
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
	for _, f := range []float64{1, 2, 5, 10} {
		if f*unit >= raw {
			return max(1, f*unit)
		}
	}
	return max(1, 10*unit)
}

func mostRollouts(r Run) int {
	most := 1
	for _, q := range r.Points {
		most = max(most, q.Rollouts)
	}
	for _, s := range r.Spans {
		most = max(most, s.To)
	}
	for _, s := range r.Steps {
		most = max(most, s.Rollouts)
	}
	return most
}

// peakValue is the value at the top: everything fits, in quarters of the scale or less.
func peakValue(r Run) float64 {
	most := 0.0
	see := func(values ...float64) {
		for _, v := range values {
			if finite(v) {
				most = max(most, v)
			}
		}
	}
	for _, q := range r.Points {
		see(q.Score.Mean, q.Score.Hi)
	}
	for _, s := range r.Steps {
		see(s.Accepted)
	}
	if b := r.Summary.Baseline; b != nil {
		see(b.Mean)
	}
	for _, peak := range []float64{0.2, 0.4, 0.6, 0.8} {
		if most <= peak {
			return peak
		}
	}
	return 1
}

func spanTitle(s Span) string {
	unit := "steps"
	if s.Kind == HarnessPhase {
		unit = "iterations"
	}
	return fmt.Sprintf("cycle %d, %s phase: %s %s, %s rollouts", s.Cycle, s.Kind, count(s.Units), unit, count(s.To-s.From))
}

func chartLabel(r Run) string {
	if len(r.Points) == 0 {
		return "Nothing was measured on the test split yet."
	}
	first, last := r.Points[0], r.Points[len(r.Points)-1]
	return fmt.Sprintf("Test accuracy against rollouts spent: %s at the start, %s after %s rollouts.",
		share(first.Score.Mean), share(last.Score.Mean), count(last.Rollouts))
}

// interval prints a score with its interval: 0.947 [0.925, 0.966].
func interval(s engine.Score) string {
	return fmt.Sprintf("%s [%s, %s]", share(s.Mean), share(s.Lo), share(s.Hi))
}
