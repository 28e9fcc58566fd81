package report

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/engine"
)

var pageFile = flag.String("page", "", "write the page of the made-up run to this file, to look at it")

func page(t *testing.T, r Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteHTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var (
	tagRule       = regexp.MustCompile(`^<(/?)([a-z][a-z0-9]*)((?:\s+[A-Za-z0-9-]+(?:="[^"<>]*")?)*)\s*(/?)>`)
	attributeRule = regexp.MustCompile(`\s([A-Za-z0-9-]+)(?:="([^"<>]*)")?`)
	void          = words("meta br input")
	elements      = words("html head meta title style body main header section article p span h1 h2 h3 div dl dt dd details summary small i code pre blockquote br table caption thead tbody tfoot tr th td svg g rect line text path circle a input label")
	attributes    = words("lang charset name content http-equiv class id title open role aria-label aria-hidden rowspan colspan viewBox preserveAspectRatio x y x1 x2 y1 y2 cx cy r d dy width height text-anchor href type name checked for")
)

func words(s string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

// tags checks that a page is balanced and has only the elements and attributes that its
// template writes, and returns the tags in order.
func tags(t *testing.T, text string) []string {
	t.Helper()
	text, ok := strings.CutPrefix(text, "<!doctype html>")
	if !ok {
		t.Fatal("no doctype")
	}
	var all, open []string
	for {
		at := strings.IndexByte(text, '<')
		if at < 0 {
			break
		}
		text = text[at:]
		m := tagRule.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("not a tag: %.80q", text)
		}
		text = text[len(m[0]):]
		name := m[2]
		if !elements[name] {
			t.Fatalf("element %s: %.80q", name, m[0])
		}
		for _, a := range attributeRule.FindAllStringSubmatch(m[3], -1) {
			if !attributes[a[1]] || a[1] == "href" && !strings.HasPrefix(a[0], ` href="#`) {
				t.Fatalf("attribute %s in %.80q", a[1], m[0])
			}
		}
		all = append(all, m[1]+name)
		switch {
		case m[1] == "" && !void[name] && m[4] == "":
			open = append(open, name)
		case m[1] == "/":
			if len(open) == 0 || open[len(open)-1] != name {
				t.Fatalf("</%s> closes %v", name, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Fatalf("left open: %v", open)
	}
	return all
}

func TestPage(t *testing.T) {
	text := page(t, sampleRun())
	if *pageFile != "" {
		if err := os.WriteFile(*pageFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tags(t, text)
	for _, forbidden := range []string{"http://", "https://", "src=", "url(", "@import", "<script", "<link", "ZgotmplZ", "NaN", "Inf"} {
		if strings.Contains(text, forbidden) {
			t.Errorf("the page contains %q", forbidden)
		}
	}
	for _, wanted := range []string{"0.164", "0.947", "4,992", "h83be10c5", "words = 99", "Most failures stop", "undefined: trim",
		"voting with as many tokens", "prefers-color-scheme: dark", "default-src", "</search>", "2-hop", "w7f0c2be914d8a35e", "+6 −2", "+0.125 on 64 paired tasks", "2.1e-07"} {
		if !strings.Contains(text, strings.NewReplacer("<", "&lt;", ">", "&gt;", "+", "&#43;").Replace(wanted)) {
			t.Errorf("the page lacks %q", wanted)
		}
	}
	if again := page(t, sampleRun()); again != text {
		t.Error("the same run gives another page")
	}
}

// Every string of a run is prefixed by something hostile; the page's tags must be those
// of the same run prefixed by something harmless.
func TestPageIsNotMovedByHostileText(t *testing.T) {
	want := tags(t, page(t, poisoned("harmless")))
	for _, hostile := range []string{
		`</script><script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `"><svg onload=alert(1)>`, `' onmouseover='alert(1)`,
		`</style><style>*{display:none}`, `--><!--`, `{{.Run}}`, `&lt;b&gt;&#60;i&#62;`, "\x00\x01\x1b[31m\x7f", "\u202e\u2066\u200b\ufeff\u2028",
		"\xff\xfe\xc3(", "<!doctype html>", "</details></title></textarea>", "javascript:alert(1)", "`${alert(1)}`",
	} {
		text := page(t, poisoned(hostile))
		if got := tags(t, text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q changes the page's tags", hostile)
		}
		if !utf8.ValidString(text) {
			t.Errorf("%q leaves invalid UTF-8", hostile)
		}
		for _, r := range text {
			if r != '\n' && r != '\t' && hidden(r) {
				t.Errorf("%q leaves %U", hostile, r)
				break
			}
		}
	}
}

func poisoned(prefix string) Run {
	r := sampleRun()
	decode := r.Decode
	r.Decode = func(ids []int32) string { return prefix + decode(ids) }
	prefixStrings(reflect.ValueOf(&r).Elem(), prefix)
	return r
}

// prefixStrings changes every string that can be reached, keys of maps included.
func prefixStrings(v reflect.Value, prefix string) {
	switch v.Kind() {
	case reflect.String:
		switch v.Interface().(type) {
		case engine.RecordKind, engine.Split, engine.Outcome, engine.VerdictKind, engine.StopReason:
			return // the run's own words, not anybody's text
		}
		v.SetString(prefix + v.String())
	case reflect.Struct:
		for i := range v.NumField() {
			prefixStrings(v.Field(i), prefix)
		}
	case reflect.Slice:
		for i := range v.Len() {
			prefixStrings(v.Index(i), prefix)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			prefixStrings(v.Elem(), prefix)
		}
	case reflect.Map:
		if v.IsNil() {
			return
		}
		renamed := reflect.MakeMap(v.Type())
		for _, k := range v.MapKeys() {
			renamed.SetMapIndex(reflect.ValueOf(prefix+k.String()).Convert(v.Type().Key()), v.MapIndex(k))
		}
		v.Set(renamed)
	}
}

func TestPageOfDegenerateRuns(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	start := engine.Record{Kind: engine.StartRecord, Harness: "h0"}
	step := func(spent int, nll float64, last bool) engine.Record {
		return engine.Record{Kind: engine.StepRecord, Cycle: 1, Spent: spent, Last: last, Step: &engine.Step{Accepted: 1, Counted: 2, NLL: nll, Drift: nll}}
	}
	measured := func(point int, mean, lo, hi float64) engine.Record {
		return engine.Record{Kind: engine.MeasureRecord, Measure: &engine.Measure{Point: point, Split: engine.Test, Score: engine.Score{Mean: mean, Lo: lo, Hi: hi, N: 4, K: 1}}}
	}
	search := func(mean float64, spent int) engine.Record {
		return engine.Record{Kind: engine.SearchRecord, Spent: spent, Last: true, Harness: "h1", Search: &engine.Search{Evaluated: []engine.Entry{{Accepted: true, Harness: engine.Harness{ID: "h1"}, Score: engine.Score{Mean: mean}}}}}
	}
	strange := engine.Summary{BaselineSameTokens: engine.Interval{Mean: nan, Lo: nan, Hi: nan, N: 3}, Seconds: engine.SummarySeconds{Total: nan, Train: inf}, Joules: &nan, Coverage: nan}
	strange.Test.Start, strange.Test.Final = engine.Interval{Mean: nan, N: 1}, engine.Interval{Mean: nan, N: 1}
	runs := map[string]Run{
		"nothing":        {},
		"only begun":     {Records: []engine.Record{start}},
		"one point":      {Records: []engine.Record{start, measured(0, 0.5, 0.4, 0.6)}},
		"no rollouts":    {Records: []engine.Record{start, step(0, 0, true), step(0, 0, true), measured(0, 0, 0, 0), measured(1, 0, 0, 0)}},
		"half a phase":   {Records: []engine.Record{start, step(5, 0.1, false)}},
		"all equal":      {Records: []engine.Record{start, step(5, 0.1, true), step(5, 0.1, true), measured(0, .5, .5, .5), measured(1, .5, .5, .5), measured(2, .5, .5, .5)}},
		"not a number":   {Records: []engine.Record{start, step(3, nan, true), step(3, inf, true), search(nan, 4), measured(0, nan, nan, nan), measured(1, 0.5, nan, inf), measured(2, -inf, 0, 1)}},
		"out of range":   {Records: []engine.Record{start, step(math.MaxInt, 1, true), step(math.MaxInt, 1, true), search(-3, 9), measured(0, -3, -9, 12), measured(1, 7, 0, 1e300)}},
		"nan everywhere": {Summary: strange, Others: []Other{{}, {Name: "x", Curve: []engine.CurvePoint{{}, {Test: &engine.Score{Mean: nan}}}}}},
		"no rollout":     {Transcripts: []Transcript{{Moment: "end"}}, Harnesses: []engine.Harness{{}}},
		"another run":    {Others: []Other{{Name: "weight-only", Curve: []engine.CurvePoint{{Test: &engine.Score{Mean: .2}}, {Point: engine.Point{Rollouts: 900}, Test: &engine.Score{Mean: .9}}}}}},
	}
	for name, r := range runs {
		t.Run(name, func(t *testing.T) {
			text := page(t, r)
			tags(t, text)
			checkCoordinates(t, text)
		})
	}
	checkCoordinates(t, page(t, sampleRun()))
}

var (
	chartRule  = regexp.MustCompile(`(?s)<svg class="chart(?: family)?" viewBox="0 0 ([0-9.]+) ([0-9.]+)".*?</svg>`)
	numberRule = regexp.MustCompile(`\s(x|y|x1|x2|y1|y2|cx|cy|width|height|d)="([^"]*)"`)
	pathRule   = regexp.MustCompile(`[MLClz ]+`)
)

// checkCoordinates asserts that everything drawn lies in its chart's box.
func checkCoordinates(t *testing.T, text string) {
	t.Helper()
	charts := chartRule.FindAllStringSubmatch(text, -1)
	if want := 2 + strings.Count(text, `<svg class="chart family"`); len(charts) != want {
		t.Fatalf("%d charts, want %d", len(charts), want)
	}
	for _, c := range charts {
		width, _ := strconv.ParseFloat(c[1], 64)
		height, _ := strconv.ParseFloat(c[2], 64)
		for _, m := range numberRule.FindAllStringSubmatch(c[0], -1) {
			limit := max(width, height)
			if strings.HasPrefix(m[1], "x") || m[1] == "cx" || m[1] == "width" {
				limit = width
			} else if m[1] != "d" {
				limit = height
			}
			for _, number := range pathRule.Split(m[2], -1) {
				if number == "" {
					continue
				}
				v, err := strconv.ParseFloat(number, 64)
				if err != nil || !finite(v) || v < -6 || v > limit { // -6: the edge of a mark's relative path
					t.Fatalf("%s=%q in a box of %v × %v", m[1], m[2], width, height)
				}
			}
		}
	}
}

func TestPageIsBounded(t *testing.T) {
	long := strings.Repeat("<b>word</b> ", 100_000)
	ids := make([]int32, 50_000)
	call := &engine.Call{Handle: 1, Prompt: ids, Sampled: ids, LogProbs: make([]float32, len(ids)), Text: long}
	o := &engine.Trajectory{Outcome: engine.Scored, Failure: long, Verdict: engine.Verdict{Answer: long}}
	for range 100 {
		o.Events = append(o.Events, engine.Event{Call: call}, engine.Event{Tool: &engine.ToolUse{Name: long, Args: long, Result: long}}, engine.Event{Log: long})
	}
	r := Run{Decode: func(ids []int32) string { return strings.Repeat("<i>", len(ids)) }}
	r.Records = append(r.Records, engine.Record{Kind: engine.StartRecord, Harness: "h0"})
	r.Harnesses = append(r.Harnesses, engine.Harness{ID: "h0", Source: "short"})
	search := &engine.Search{}
	for i := range 200 {
		h := engine.Harness{ID: engine.HarnessID(fmt.Sprint("h", i+1)), Source: long, Meta: engine.Meta{Hypothesis: long}}
		r.Harnesses = append(r.Harnesses, h)
		search.Evaluated = append(search.Evaluated, engine.Entry{Harness: h, Accepted: i%2 == 0})
		search.Rejected = append(search.Rejected, engine.Rejection{Harness: h, Err: engine.LoadError{Rule: long, Reason: long}})
	}
	r.Records = append(r.Records, engine.Record{Kind: engine.SearchRecord, Search: search})
	for range 40 {
		r.Transcripts = append(r.Transcripts, Transcript{Moment: "end", Task: engine.Task{Input: long}, Rollout: o})
	}
	text := page(t, r)
	tags(t, text)
	if limit := 12 << 20; len(text) > limit {
		t.Errorf("%d bytes, want at most %d", len(text), limit)
	}
	for _, wanted := range []string{"28 more transcripts", "more events are not shown", "49,680 more tokens", "more characters"} {
		if !strings.Contains(text, wanted) {
			t.Errorf("no mark %q", wanted)
		}
	}
	if got := strings.Count(text, `<details class="rollout `); got != maxTranscripts {
		t.Errorf("%d transcripts", got)
	}
}

func TestHeadlineSaysWhatTheIntervalsSay(t *testing.T) {
	score := func(mean, half float64) engine.Interval {
		return engine.Interval{Mean: mean, Lo: mean - half, Hi: mean + half, N: 100}
	}
	for _, c := range []struct {
		start, final engine.Interval
		want         string
	}{
		{score(.2, .05), score(.9, .05), "rose"},
		{score(.9, .05), score(.2, .05), "fell"},
		{score(.5, .1), score(.6, .1), "tell from noise"},
		{engine.Interval{}, score(.6, .1), "not been measured"},
	} {
		s := engine.Summary{}
		s.Test.Start, s.Test.Final = c.start, c.final
		if got := viewHeadline(s).Verdict; !strings.Contains(got, c.want) {
			t.Errorf("%v to %v: %q, want %q", c.start.Mean, c.final.Mean, got, c.want)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWriteHTMLNamesTheBoundary(t *testing.T) {
	err := WriteHTML(brokenWriter{}, sampleRun())
	if err == nil || !strings.HasPrefix(err.Error(), "archive report of lookup-1: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

// An iteration without candidates is on the page with its reason.
func TestHTMLNamesAFailedProposer(t *testing.T) {
	r := sampleRun()
	r.Records = append(r.Records, engine.Record{Seq: len(r.Records), Kind: engine.SearchRecord, Cycle: 9, Index: 2, Last: true,
		Harness: r.Records[0].Harness, Search: &engine.Search{Failed: "proposer: <no> credit"}})
	var page strings.Builder
	if err := WriteHTML(&page, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"proposer failed", "proposer: &lt;no&gt; credit"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}
