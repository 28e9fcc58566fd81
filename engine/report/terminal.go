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

	"github.com/seed-7c27e6b8/whale/engine"
)

// Terminal shows how a run goes on: on a terminal as a live block of three lines with
// what was reached above it, otherwise as plain lines, one for each finished unit. It is
// the run's engine.Observer and writes to its own writer only (stderr, in the command).
// All methods may be called from any goroutine.
type Terminal struct {
	out   io.Writer
	style style
	now   func() time.Time

	mu    sync.Mutex
	begun time.Time
	at    time.Time // of the latest progress
	latest
	err error // the first failed write

	screen *mpb.Progress // nil: plain lines
	bar    *mpb.Bar
}

// latest is what was last told.
type latest struct {
	progress engine.Progress
	rate     float64 // accuracy of the last finished unit; negative = none yet
}

// style says what the terminal can show.
type style struct{ color, unicode bool }

// NewTerminal begins a display. It is live if out is a terminal that can move its
// cursor. Close ends it.
func NewTerminal(out io.Writer) *Terminal {
	t := newTerminal(out, time.Now)
	if f, ok := out.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		if screen := cupwriter.New(f, false); screen.IsTerminal() {
			t.live(sized{screen}, 200*time.Millisecond)
		}
	}
	return t
}

func newTerminal(out io.Writer, now func() time.Time) *Terminal {
	return &Terminal{out: out, now: now, begun: now(), style: styleOf(os.Getenv), latest: latest{rate: -1}}
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

// sized is a terminal that always has a size: some pseudo-terminals say 0 × 0, and mpb
// draws nothing then.
type sized struct{ mpb.ConsoleWriter }

func (s sized) GetTermSize() (width, height int, err error) {
	width, height, err = s.ConsoleWriter.GetTermSize()
	if width <= 0 {
		width = 80
	}
	if height <= 0 {
		height = 24
	}
	return width, height, err
}

// live starts the block. mpb draws one bar whose rows are the block's lines.
func (t *Terminal) live(screen mpb.ConsoleWriter, every time.Duration) {
	canvas := mpb.New(mpb.WithConsoleWriter(screen), mpb.WithRefreshRate(every))
	row := func(i int, end string) mpb.BarFiller {
		return mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
			_, err := io.WriteString(w, t.row(i, s.AvailableWidth)+end)
			return err
		})
	}
	bar, err := canvas.Add(0, row(0, ""), mpb.BarFillerTrim(), mpb.BarBtmExtender(row(1, "\n"), row(2, "\n")))
	if err != nil {
		t.keep(err) // plain lines it is, then
		return
	}
	t.screen, t.bar = canvas, bar
}

func (t *Terminal) row(i, width int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return block(t.snapshot(), t.style, width)[i]
}

// Observe takes in what the run tells.
func (t *Terminal) Observe(p engine.Progress) {
	t.mu.Lock()
	t.progress, t.at = p, t.now()
	text, news := "", ""
	if p.Finished != nil {
		if rate, ok := rateOf(*p.Finished); ok {
			t.rate = rate
		}
		text, news = t.snapshot().line(*p.Finished), newsOf(*p.Finished)
	}
	t.mu.Unlock()
	switch {
	case p.Finished == nil:
	case t.screen == nil:
		t.write(t.out, text+"\n")
	case news != "":
		t.write(t.screen, news+"\n")
	}
}

// Note prints a line that stays, above the live block or among the plain lines.
func (t *Terminal) Note(text string) {
	if t.screen != nil {
		t.write(t.screen, oneLine(text)+"\n")
		return
	}
	t.write(t.out, "whale note="+strconv.Quote(oneLine(text))+"\n")
}

// Close takes the block off the screen. It returns the first error of writing.
func (t *Terminal) Close() error {
	if t.screen != nil {
		t.bar.Abort(true)
		t.screen.Wait()
		t.keep(t.screen.Error)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// write must be called without the lock: the screen draws, and asks for rows, before it
// takes more.
func (t *Terminal) write(w io.Writer, line string) {
	_, err := io.WriteString(w, line)
	t.keep(err)
}

func (t *Terminal) keep(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

// snapshot is a moment with the times it is shown with.
type snapshot struct {
	latest
	elapsed time.Duration
	left    time.Duration // 0 = not known
}

// snapshot counts the time left down between two reports.
func (t *Terminal) snapshot() snapshot {
	now := t.now()
	s := snapshot{latest: t.latest, elapsed: now.Sub(t.begun)}
	if left := t.progress.Left; left > 0 {
		s.left = max(time.Second, left-now.Sub(t.at))
	}
	return s
}

// rateOf is the accuracy that a unit ended with: the accepted share of a step, the best
// score of an iteration, the score of a measurement.
func rateOf(r engine.Record) (float64, bool) {
	switch {
	case r.Step != nil:
		return acceptedShare(*r.Step), true
	case r.Search != nil && len(r.Search.Evaluated) > 0:
		best := 0.0
		for _, e := range r.Search.Evaluated {
			best = max(best, e.Score.Mean)
		}
		return best, true
	case r.Measure != nil:
		return r.Measure.Score.Mean, true
	}
	return 0, false
}

// line is the plain form of a finished unit: key=value pairs with one space between, no
// control characters. Rates are in [0,1], times in seconds; what is not known is left out.
func (s snapshot) line(r engine.Record) string {
	p := s.progress
	var b strings.Builder
	switch {
	case r.Step != nil:
		fmt.Fprintf(&b, "whale phase=weight cycle=%s step=%s accepted=%d/%d rate=%s", of(r.Cycle, p.Cycles), of(r.Index, p.Unit.Of),
			r.Step.Accepted, r.Step.Counted, share(s.rate))
		if r.Step.Tokens > 0 {
			fmt.Fprintf(&b, " loss=%s", share(r.Step.NLL))
		}
	case r.Search != nil:
		fmt.Fprintf(&b, "whale phase=harness cycle=%s iteration=%s scored=%d rejected=%d", of(r.Cycle, p.Cycles), of(r.Index, p.Unit.Of),
			len(r.Search.Evaluated), len(r.Search.Rejected))
		if len(r.Search.Evaluated) > 0 {
			fmt.Fprintf(&b, " best=%s", share(s.rate))
		}
		fmt.Fprintf(&b, " harness=%s", word(string(r.Harness)))
		if r.Search.Detectable > 0 {
			fmt.Fprintf(&b, " detectable=%s", share(r.Search.Detectable))
		}
		if race := r.Search.Race; race != nil {
			fmt.Fprintf(&b, " raced=%d/%d", r.Spent, race.Flat)
		}
		if r.Search.Failed != "" {
			fmt.Fprintf(&b, " failed=%s", word(r.Search.Failed))
		}
	case r.Measure != nil:
		fmt.Fprintf(&b, "whale phase=measure point=%s split=%s mean=%s lo=%s hi=%s", of(p.Point, p.Points), word(string(r.Measure.Split)),
			share(r.Measure.Score.Mean), share(r.Measure.Score.Lo), share(r.Measure.Score.Hi))
	default:
		fmt.Fprintf(&b, "whale phase=start weights=%s harness=%s", word(string(r.Weights)), word(string(r.Harness)))
	}
	fmt.Fprintf(&b, " rollouts=%s tokens_per_s=%.0f elapsed_s=%.1f", of(p.Spent.Weight+p.Spent.Harness, p.Budget), p.TokensPerSecond, s.elapsed.Seconds())
	if s.left > 0 {
		fmt.Fprintf(&b, " left_s=%.0f", s.left.Seconds())
	}
	return b.String()
}

// newsOf is what stays on the screen of a finished unit; empty for most.
func newsOf(r engine.Record) string {
	switch {
	case r.Step != nil && r.Last:
		return fmt.Sprintf("cycle %d  weights after %d steps  accepted %s", r.Cycle, r.Index, share(acceptedShare(*r.Step)))
	case r.Search != nil && r.Search.Failed != "":
		return fmt.Sprintf("cycle %d  no candidates in iteration %d  %s", r.Cycle, r.Index, oneLine(first(r.Search.Failed, 160)))
	case r.Search != nil && r.Index == 1 && r.Search.Detectable > 0:
		return fmt.Sprintf("cycle %d  search begins at %s  the smallest gain it finds 4 times in 5 is %.3f", r.Cycle, share(rateOrZero(r)), r.Search.Detectable)
	case r.Search != nil:
		for i, e := range r.Search.Evaluated {
			if e.Accepted && i < len(r.Search.Compared) {
				return fmt.Sprintf("cycle %d  harness %s accepted  %+.3f  %s", r.Cycle, short(string(e.Harness.ID)),
					r.Search.Compared[i].Gain, oneLine(first(e.Harness.Meta.Hypothesis, 160)))
			}
		}
	case r.Measure != nil && r.Measure.Split == engine.Test:
		return fmt.Sprintf("test at point %d  %s", r.Measure.Point, interval(r.Measure.Score.Interval()))
	}
	return ""
}

// rateOrZero is the accuracy that a unit found.
func rateOrZero(r engine.Record) float64 {
	rate, _ := rateOf(r)
	return rate
}

// word makes an id fit for a value of a plain line.
func word(s string) string { return strings.ReplaceAll(oneLine(first(s, 80)), " ", "_") }

func of(n, all int) string {
	if all <= 0 {
		return strconv.Itoa(n)
	}
	return strconv.Itoa(n) + "/" + strconv.Itoa(all)
}
