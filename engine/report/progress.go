package report

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/cupwriter"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Moment is where a run stands. Counts are since the run began, earlier parts of a
// resumed run included.
type Moment struct {
	Kind          PhaseKind
	Cycle, Cycles int // from 1; Cycles 0 = not known
	Unit, Units   int // step of a weight phase, iteration of a harness phase, from 1
	// Rate is the latest accuracy: the accepted share of the last step's rollouts, the
	// best candidate's score on the select split, or the test score. Negative: none yet.
	Rate float64
	// Score is the incumbent's latest score on the select or test split. Negative: none.
	Score  float64
	Done   Work
	Plan   Work
	Tokens int // sampled
}

// Progress shows where a run stands, on a terminal as a live block of a few lines, and
// otherwise as plain lines, one per finished step or iteration. It writes to its own
// writer only (stderr, in the command). All methods may be called from any goroutine.
type Progress struct {
	out   io.Writer
	style style
	now   func() time.Time

	mu     sync.Mutex
	begun  time.Time
	moment Moment
	pace   pace
	speed  speed
	err    error // the first failed write of a plain line

	screen *mpb.Progress // nil: plain lines
	bar    *mpb.Bar
}

// style says what the terminal can show.
type style struct{ color, unicode bool }

// NewProgress begins a display. It is live if out is a terminal that can move its
// cursor. Close ends it.
func NewProgress(out io.Writer) *Progress {
	p := newProgress(out, time.Now)
	if f, ok := out.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		if screen := cupwriter.New(f, false); screen.IsTerminal() {
			p.live(screen, 250*time.Millisecond)
		}
	}
	return p
}

func newProgress(out io.Writer, now func() time.Time) *Progress {
	return &Progress{out: out, now: now, begun: now(), style: styleOf(os.Getenv), moment: Moment{Rate: -1, Score: -1}}
}

// styleOf reads the environment: NO_COLOR (any value) and the character set.
func styleOf(env func(string) string) style {
	locale := env("LC_ALL")
	for _, name := range []string{"LC_CTYPE", "LANG"} {
		if locale == "" {
			locale = env(name)
		}
	}
	locale = strings.ToUpper(locale)
	return style{color: env("NO_COLOR") == "", unicode: strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")}
}

// live starts the block. mpb draws one bar whose rows are the block's lines.
func (p *Progress) live(screen mpb.ConsoleWriter, every time.Duration) {
	canvas := mpb.New(mpb.WithConsoleWriter(screen), mpb.WithRefreshRate(every))
	row := func(i int, end string) mpb.BarFiller {
		return mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
			_, err := io.WriteString(w, p.row(i, s.AvailableWidth)+end)
			return err
		})
	}
	bar, err := canvas.Add(0, row(0, ""), mpb.BarFillerTrim(), mpb.BarBtmExtender(row(1, "\n"), row(2, "\n")))
	if err != nil {
		p.keep(err) // plain lines it is, then
		return
	}
	p.screen, p.bar = canvas, bar
}

func (p *Progress) row(i, width int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return block(p.snapshot(), p.style, width)[i]
}

// Update moves the live block. A plain display prints nothing.
func (p *Progress) Update(m Moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.see(m)
}

// Finish is Update at the end of a step, an iteration or a measurement; a plain display
// prints its line.
func (p *Progress) Finish(m Moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.see(m)
	if p.screen == nil {
		p.write(p.snapshot().line() + "\n")
	}
}

// Note prints a line that stays, above the live block or among the plain lines.
func (p *Progress) Note(text string) {
	if p.screen != nil {
		_, err := io.WriteString(p.screen, oneLine(text)+"\n")
		p.mu.Lock()
		defer p.mu.Unlock()
		p.keep(err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write("whale note=" + strconv.Quote(oneLine(text)) + "\n")
}

// Close takes the block off the screen. It returns the first error of writing.
func (p *Progress) Close() error {
	if p.screen != nil {
		p.bar.Abort(true)
		p.screen.Wait()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.screen != nil {
		p.keep(p.screen.Error)
	}
	return p.err
}

func (p *Progress) see(m Moment) {
	now := p.now()
	p.moment = m
	p.pace.see(now, m.Kind, m.Done)
	p.speed.see(now, m.Tokens)
}

func (p *Progress) write(line string) {
	_, err := io.WriteString(p.out, line)
	p.keep(err)
}

func (p *Progress) keep(err error) {
	if p.err == nil {
		p.err = err
	}
}

// snapshot is a moment with the times it is shown with.
type snapshot struct {
	Moment
	elapsed time.Duration
	left    time.Duration
	leftOK  bool
	speed   float64 // tokens per second
}

func (p *Progress) snapshot() snapshot {
	now := p.now()
	s := snapshot{Moment: p.moment, elapsed: now.Sub(p.begun), speed: p.speed.perSecond()}
	s.left, s.leftOK = p.pace.left(now, p.moment.Plan)
	return s
}

// line is the plain form: key=value pairs with one space between, no control characters.
// Rates are in [0,1], times in seconds; what is not known is left out.
func (s snapshot) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "whale phase=%s cycle=%s %s=%s", s.Kind, of(s.Cycle, s.Cycles), s.unit(), of(s.Unit, s.Units))
	if s.Rate >= 0 {
		fmt.Fprintf(&b, " rate=%s", share(s.Rate))
	}
	if s.Score >= 0 {
		fmt.Fprintf(&b, " score=%s", share(s.Score))
	}
	fmt.Fprintf(&b, " rollouts=%s tokens=%d", of(s.Done.Total(), s.Plan.Total()), s.Tokens)
	fmt.Fprintf(&b, " tokens_per_s=%.0f elapsed_s=%.1f", s.speed, s.elapsed.Seconds())
	if s.leftOK {
		fmt.Fprintf(&b, " left_s=%.0f", s.left.Seconds())
	}
	return b.String()
}

func (m Moment) unit() string {
	switch m.Kind {
	case WeightPhase:
		return "step"
	case HarnessPhase:
		return "iteration"
	}
	return "point"
}

func of(n, all int) string {
	if all <= 0 {
		return strconv.Itoa(n)
	}
	return strconv.Itoa(n) + "/" + strconv.Itoa(all)
}
