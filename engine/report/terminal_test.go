package report

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/engine"
)

// clockwork is a clock that a test turns.
type clockwork struct {
	mu sync.Mutex
	at time.Time
}

func (c *clockwork) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clockwork) turn(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// screen is a terminal that keeps what was drawn on it.
type screen struct {
	bytes.Buffer
	width int
	fail  error
}

func (s *screen) IsTerminal() bool               { return true }
func (s *screen) GetTermSize() (int, int, error) { return s.width, 24, s.fail }
func (s *screen) Flush(int) error                { return nil }

// weightStep is step n of cycle 1, finished or under way.
func weightStep(n int, finished bool) engine.Progress {
	p := engine.Progress{Stage: engine.StageWeight, Unit: engine.Unit{Phase: engine.WeightKind, Cycle: 1, Index: n, Of: 6}, Cycles: 3,
		Spent: engine.Spent{Weight: 256 * n, Harness: 64}, Budget: 9728, TokensPerSecond: 1500.4, Left: 70 * time.Second}
	if finished {
		p.Finished = &engine.Record{Kind: engine.StepRecord, Cycle: 1, Index: n, Last: n == 6, Step: &engine.Step{Accepted: 103, Counted: 250, Tokens: 900, NLL: 0.913}}
		return p
	}
	p.Spent.Weight -= 256
	p.Done, p.Jobs, p.Mean = 100, 256, 0.3
	return p
}

func TestPlainTerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	term := NewTerminal(file)
	if term.screen != nil {
		t.Fatal("a file is taken for a terminal")
	}
	clock := &clockwork{}
	var out bytes.Buffer
	term.out, term.now, term.begun = &out, clock.now, clock.now()
	record := func(p engine.Progress, r engine.Record) engine.Progress { p.Finished = &r; return p }
	term.Observe(record(engine.Progress{Stage: engine.StageStart, Budget: 9728}, engine.Record{Kind: engine.StartRecord, Weights: "w0", Harness: "h0"}))
	for n := 1; n <= 2; n++ {
		term.Observe(weightStep(n, false)) // prints nothing
		clock.turn(2 * time.Second)
		term.Observe(weightStep(n, true))
	}
	search := engine.Progress{Stage: engine.StageHarness, Unit: engine.Unit{Index: 2, Of: 4}, Spent: engine.Spent{Harness: 192}, Budget: 9728}
	term.Observe(record(search, engine.Record{Kind: engine.SearchRecord, Cycle: 1, Index: 2, Harness: "h1\x1b[2J x\n",
		Search: &engine.Search{Evaluated: []engine.Entry{{Score: engine.Score{Mean: .25}}, {Score: engine.Score{Mean: .5}}}, Rejected: make([]engine.Rejection, 1)}}))
	term.Observe(record(search, engine.Record{Kind: engine.SearchRecord, Cycle: 1, Index: 1, Harness: "h0",
		Search: &engine.Search{Evaluated: []engine.Entry{{Score: engine.Score{Mean: .25}}}, Detectable: .14}}))
	term.Observe(record(engine.Progress{Stage: engine.StageMeasure, Point: 2, Points: 7}, engine.Record{Kind: engine.MeasureRecord,
		Measure: &engine.Measure{Split: engine.Test, Score: engine.Score{Mean: .947, Lo: .9, Hi: .98}}}))
	term.Note("accepted h1\x1b[2J\nnext")
	if err := term.Close(); err != nil {
		t.Fatal(err)
	}
	want := `whale phase=start weights=w0 harness=h0 rollouts=0/9728 tokens_per_s=0 elapsed_s=0.0
whale phase=weight cycle=1/3 step=1/6 accepted=103/250 rate=0.412 loss=0.913 rollouts=320/9728 tokens_per_s=1500 elapsed_s=2.0 left_s=70
whale phase=weight cycle=1/3 step=2/6 accepted=103/250 rate=0.412 loss=0.913 rollouts=576/9728 tokens_per_s=1500 elapsed_s=4.0 left_s=70
whale phase=harness cycle=1 iteration=2/4 scored=2 rejected=1 best=0.500 harness=h1␛[2J_x⏎ rollouts=192/9728 tokens_per_s=0 elapsed_s=4.0
whale phase=harness cycle=1 iteration=1/4 scored=1 rejected=0 best=0.250 harness=h0 detectable=0.140 rollouts=192/9728 tokens_per_s=0 elapsed_s=4.0
whale phase=measure point=2/7 split=test mean=0.947 lo=0.900 hi=0.980 rollouts=0 tokens_per_s=0 elapsed_s=4.0
whale note="accepted h1␛[2J⏎next"
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n")[:5] {
		for _, pair := range strings.Split(strings.TrimPrefix(line, "whale "), " ") {
			if key, value, ok := strings.Cut(pair, "="); !ok || key == "" || value == "" {
				t.Errorf("%q in %q is no pair", pair, line)
			}
		}
	}
}

func TestTerminalReportsAFailedWrite(t *testing.T) {
	term := newTerminal(brokenWriter{}, time.Now)
	term.Observe(weightStep(1, true))
	if err := term.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// Time left counts down between two reports, and never below a second.
func TestTimeLeftCountsDown(t *testing.T) {
	clock := &clockwork{}
	term := newTerminal(&bytes.Buffer{}, clock.now)
	if left := term.snapshot().left; left != 0 {
		t.Errorf("%v left of an unknown time", left)
	}
	term.Observe(weightStep(1, false))
	last := 71 * time.Second
	for range 100 {
		left := term.snapshot().left
		if left < time.Second || left > last || (left == last && left > time.Second) {
			t.Fatalf("%v left after %v", left, last)
		}
		last = left
		clock.turn(time.Second)
	}
	if last != time.Second {
		t.Errorf("%v left in a run that is late", last)
	}
}

func TestLiveTerminal(t *testing.T) {
	clock := &clockwork{}
	var plain bytes.Buffer
	term := newTerminal(&plain, clock.now)
	term.style = style{}
	s := &screen{width: 40}
	term.live(s, time.Hour) // drawn when it is closed only
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for n := range 20 {
				term.Observe(weightStep(1+n%6, false))
			}
		})
	}
	wait.Wait()
	term.Observe(weightStep(6, true))
	clock.turn(time.Minute)
	term.Observe(weightStep(2, false))
	term.Note("accepted h1")
	if err := term.Close(); err != nil {
		t.Fatal(err)
	}
	drawn := s.String()
	for _, wanted := range []string{"accepted h1\n", "cycle 1  weights after 6 steps  accepted 0.412\n", "weight  cycle 1/3  step 2/6  0.300\n", "420/9,728 rollouts\n", "elapsed 1m00s  left 1m10s\n"} {
		if !strings.Contains(drawn, wanted) {
			t.Errorf("no %q in %q", wanted, drawn)
		}
	}
	if plain.Len() > 0 {
		t.Errorf("plain lines beside the live block: %q", plain.String())
	}
}

func TestTerminalWithoutSize(t *testing.T) {
	term := newTerminal(&bytes.Buffer{}, time.Now)
	s := &screen{}
	term.live(sized{s}, time.Hour)
	term.Observe(weightStep(1, false))
	if err := term.Close(); err != nil || !strings.Contains(s.String(), "cycle 1/3") {
		t.Errorf("drawn %q, error %v", s.String(), err)
	}
	if w, h, _ := (sized{&screen{width: 40}}).GetTermSize(); w != 40 || h != 24 {
		t.Errorf("size %d × %d", w, h)
	}
}

func TestLiveTerminalSurvivesALostTerminal(t *testing.T) {
	term := newTerminal(&bytes.Buffer{}, time.Now)
	term.live(&screen{fail: os.ErrClosed}, time.Hour)
	term.Observe(weightStep(1, false))
	if err := term.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
	term.Observe(weightStep(2, true))
}

func TestNewsIsOneVisibleLine(t *testing.T) {
	accepted := engine.Record{Cycle: 2, Search: &engine.Search{Compared: []engine.Comparison{{}, {Gain: 0.125}},
		Evaluated: []engine.Entry{{}, {Accepted: true, Harness: engine.Harness{ID: "h83be10c55f", Meta: engine.Meta{Hypothesis: "keep\nwhole\x1b[2J\u202e passages"}}}}}}
	if got, want := newsOf(accepted), "cycle 2  harness h83be10c5 accepted  +0.125  keep⏎whole␛[2J⟨U+202E⟩ passages"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	incumbent := engine.Record{Search: &engine.Search{Evaluated: []engine.Entry{{Accepted: true}}}}
	failed := engine.Record{Kind: engine.SearchRecord, Cycle: 2, Index: 3, Search: &engine.Search{Failed: "proposer: too\nbusy"}}
	if got, want := newsOf(failed), "cycle 2  no candidates in iteration 3  proposer: too⏎busy"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := newsOf(incumbent); got != "" {
		t.Errorf("measuring the incumbent is news: %q", got)
	}
}

var escapeRule = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestBlockFitsAnyWidth(t *testing.T) {
	full := snapshot{latest: latest{progress: weightStep(3, false), rate: 0.412}, elapsed: 100 * time.Second, left: 3 * time.Hour}
	moments := []snapshot{{latest: latest{rate: -1}}, full}
	for _, stage := range []engine.Stage{engine.StageStart, engine.StageHarness, engine.StageMeasure, engine.StageDone} {
		other := full
		other.progress.Stage = stage
		other.progress.Spent.Weight = 1 << 50
		moments = append(moments, other)
	}
	for _, s := range moments {
		for _, st := range []style{{}, {unicode: true}, {color: true}, {color: true, unicode: true}} {
			for width := -1; width <= 200; width++ {
				for _, line := range block(s, st, width) {
					shown := escapeRule.ReplaceAllString(line, "")
					if n := utf8.RuneCountInString(shown); width > 0 && n >= width {
						t.Fatalf("width %d: %d columns: %q", width, n, shown)
					}
					if !st.color && shown != line {
						t.Fatalf("colour without leave: %q", line)
					}
					if strings.ContainsAny(shown, "\n\r\x1b") {
						t.Fatalf("control characters: %q", line)
					}
				}
			}
		}
	}
	for _, c := range []struct {
		width int
		want  string
	}{
		{80, "weight phase  cycle 1/3  step 3/6  accuracy 0.300\n" +
			"###.............................................  676/9,728 rollouts\n" +
			"elapsed 1m40s  left 3h00m  1.5k tokens/s"},
		{40, "weight  cycle 1/3  step 3/6  0.300\n" +
			"#..................  676/9,728 rollouts\n" +
			"elapsed 1m40s  left 3h00m"},
	} {
		lines := block(full, style{}, c.width)
		if got := strings.Join(lines[:], "\n"); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
	}
	full.progress.Done = full.progress.Jobs
	if lines := block(full, style{}, 80); !strings.HasSuffix(lines[2], "training") {
		t.Errorf("all rollouts done: %q", lines[2])
	}
}

func TestStyle(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want style
	}{
		{nil, style{color: true}},
		{map[string]string{"NO_COLOR": "1", "LANG": "C.UTF-8"}, style{unicode: true}},
		{map[string]string{"LANG": "en_US.utf8", "LC_ALL": "C"}, style{color: true}},
		{map[string]string{"LC_CTYPE": "de_DE.UTF-8"}, style{color: true, unicode: true}},
	} {
		if got := styleOf(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %+v", c.env, got)
		}
	}
}
