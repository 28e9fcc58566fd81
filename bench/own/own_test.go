package own

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/bench/jsonl"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	h0 "github.com/seed-7c27e6b8/whale/harnesses/own"
)

func put(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, path string, o Options) (*engine.Domain, Report) {
	t.Helper()
	d, report, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.World.(*World).Close(); err != nil {
			t.Error(err)
		}
	})
	return d, report
}

// says is a model that always writes the same.
func says(text string) benchtest.Model { return func([]kit.Message) string { return text } }

func judge(t testing.TB, d *engine.Domain, task engine.Task, text string) engine.Verdict {
	t.Helper()
	result, err := benchtest.Play(d, task, h0.Run, says(text))
	if err != nil {
		t.Fatal(err)
	}
	return result.Verdict
}

// The worked example, as its README walks through it.
func TestExample(t *testing.T) {
	d, report := open(t, "example", Options{Log: testWriter{t}})
	if got, want := report.String(), "tasks.jsonl: 4 train, 4 select, 4 test tasks"; got != want {
		t.Errorf("report %q, want %q", got, want)
	}
	i := slices.IndexFunc(d.Train, func(task engine.Task) bool { return strings.Contains(task.Input, "leaves at 08:40") })
	for text, want := range map[string]engine.Verdict{
		"From 8:40 on.\n<answer>1 h 35 min</answer>": {Kind: engine.Equal, Reward: 1, Answer: "95"},
		"<answer>95 minutes</answer>":                {Kind: engine.Equal, Reward: 1, Answer: "95"},
		"<answer>95</answer> or <answer>96</answer>": {Kind: engine.Different, Answer: "96"},
		"<answer>about an hour and a half</answer>":  {Kind: engine.Unparsed},
		"95": {Kind: engine.Unparsed},
	} {
		if got := judge(t, d, d.Train[i], text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	lines := 0
	for _, name := range []string{"tasks.jsonl", "own.yaml", "verify.go", "README.md"} {
		text, err := os.ReadFile(filepath.Join("example", name))
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(text), "\n")
	}
	if lines > 150 {
		t.Errorf("the example has %d lines, 150 is what one reads in an hour", lines)
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) { w.t.Logf("%s", b); return len(b), nil }

func TestExact(t *testing.T) {
	path := put(t, filepath.Join(t.TempDir(), "x.jsonl"), `{"input":"q","answer":["Mount  Ida","Ida"],"split":"test"}`)
	d, _ := open(t, path, Options{})
	for text, want := range map[string]engine.VerdictKind{
		"<answer>ida</answer>":                          engine.Equal,
		"<answer> mount\nida </answer> is it":           engine.Equal,
		"It is easy.\nIda\n \n":                         engine.Equal,
		"<answer>Etna <answer>Ida</answer>":             engine.Equal,
		"<answer>Etna</answer> no <answer>Ida</answer>": engine.Equal,
		"<answer>Ida</answer> no <answer>Etna</answer>": engine.Different,
		"<answer>Ida, Mount Ida, Etna</answer>":         engine.Different,
		"It is Ida":                                     engine.Different,
		"<answer>Ida":                                   engine.Unparsed,
		"Ida</answer>":                                  engine.Unparsed,
		"<answer> </answer>":                            engine.Unparsed,
		"":                                              engine.Unparsed,
		" \n":                                           engine.Unparsed,
		strings.Repeat("<answer>", 1<<17) + "Ida</answer>": engine.Equal,
		strings.Repeat("Ida ", 1<<18):                      engine.Different,
	} {
		got := judge(t, d, d.Test[0], text)
		if got.Kind != want || got.Reward != float64(map[bool]int{true: 1}[want == engine.Equal]) || len(got.Answer) > 200 {
			t.Errorf("%.60q: %.300v, want %s", text, got, want)
		}
	}
}

func TestRows(t *testing.T) {
	path := put(t, filepath.Join(t.TempDir(), "x.jsonl"), strings.Join([]string{
		"\ufeff" + `{"input":"one","answer":1,"split":"train"}`, // 1
		``,
		`{"input":" ONE ","answer":2,"split":"train"}`,    // 3 duplicate
		`{"input":"one","answer":1,"split":"test"}`,       // 4 takes it from 1
		`{"input":"One","answer":1,"split":"select"}`,     // 5 sealed
		`{"input":"two","answer":"","split":"train"}`,     // 6 no answer
		`{"input":"two","split":"train"}`,                 // 7
		`{"input":"two","answer":null}`,                   // 8
		`{"input":"two","answer":[]}`,                     // 9
		`{"input":"two","answer":{"x":1}}`,                // 10 needs a command
		`{"answer":"x"}`,                                  // 11 no input
		`{"input":"two","answer":"x","split":"dev"}`,      // 12
		`{"input":"two","answer":"x"`,                     // 13
		`{"input":2,"answer":"x"}`,                        // 14
		"{\"input\":\"\xff\",\"answer\":\"x\"}",           // 15
		`{"input":"` + strings.Repeat("x", maxRow) + `"}`, // 16
		`{"input":"two","answer":1.50,"split":"select"}`,  // 17 good
	}, "\n"))
	d, report := open(t, path, Options{})
	if len(d.Train) != 0 || len(d.Select) != 1 || len(d.Test) != 1 || d.Test[0].Input != "one" {
		t.Errorf("splits %v %v %v", d.Train, d.Select, d.Test)
	}
	if got := judge(t, d, d.Select[0], "1.50"); got.Kind != engine.Equal {
		t.Errorf("a number is its spelling: %+v", got)
	}
	want := map[int]error{3: ErrDuplicate, 1: ErrSealed, 5: ErrSealed, 6: ErrAnswer, 7: ErrAnswer, 8: ErrAnswer, 9: ErrAnswer,
		10: ErrReference, 11: ErrInput, 12: ErrSplit, 13: jsonl.ErrJSON, 14: jsonl.ErrJSON, 15: jsonl.ErrText, 16: jsonl.ErrLong}
	if len(report.Bad) != len(want) {
		t.Errorf("%d bad rows, want %d", len(report.Bad), len(want))
	}
	for _, bad := range report.Bad {
		if !errors.Is(bad, want[bad.Row]) {
			t.Errorf("row %d: %v, want %v", bad.Row, bad, want[bad.Row])
		}
	}
}

// Splits by hash are about 3 to 1 to 1, and a row's split does not depend on the others.
func TestSplits(t *testing.T) {
	write := func(n int) *engine.Domain {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"input":"task %d","answer":%d}`+"\n", i, i)
		}
		d, _ := open(t, put(t, filepath.Join(t.TempDir(), "x.jsonl"), b.String()), Options{})
		return d
	}
	all, half := write(1000), write(500)
	for _, c := range []struct {
		got         []engine.Task
		least, most int
	}{{all.Train, 550, 650}, {all.Select, 160, 240}, {all.Test, 160, 240}} {
		if len(c.got) < c.least || len(c.got) > c.most {
			t.Errorf("%d tasks, want %d to %d", len(c.got), c.least, c.most)
		}
	}
	for _, task := range half.Test {
		if !slices.ContainsFunc(all.Test, func(other engine.Task) bool { return other.ID == task.ID }) {
			t.Errorf("%s left the test split when rows came in", task.Input)
		}
	}
}

func TestOpen_errors(t *testing.T) {
	dir := t.TempDir()
	good := `{"input":"q","answer":"a"}`
	for name, c := range map[string]struct {
		tasks, settings string
		want            error
	}{
		"empty":             {"", "", ErrEmpty},
		"no good row":       {"{}", "", ErrEmpty},
		"unknown setting":   {good, "verifer: [x]", ErrSettings},
		"broken":            {good, "verifier: [", ErrSettings},
		"no command":        {good, `verifier: [""]`, ErrSettings},
		"no process":        {good, "processes: 0", ErrSettings},
		"no time":           {good, "seconds: 0", ErrSettings},
		"not a number":      {good, "seconds: .nan", ErrSettings},
		"no tokens":         {good, "tokens: 0", ErrSettings},
		"settings are gone": {good, "", nil},
	} {
		file := put(t, filepath.Join(dir, strings.ReplaceAll(name, " ", "_")+".jsonl"), c.tasks)
		if c.settings != "" {
			put(t, strings.TrimSuffix(file, "jsonl")+"yaml", c.settings)
		}
		_, _, err := Open(file, Options{})
		if !errors.Is(err, c.want) || err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, _, err := Open(filepath.Join(dir, "none.jsonl"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, _, err := Open(dir, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder without tasks.jsonl: %v", err)
	}
}

// Foreign bytes are read or refused, the same way every time.
func FuzzRow(f *testing.F) {
	for _, seed := range []string{`{"input":"q","answer":["a",1],"tags":["x"],"split":"test"}`, `{"input":"q","answer":{}}`, `[]`, "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rows, report, err := readRows(strings.NewReader(text), "x", Exact{})
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != report.Train+report.Select+report.Test {
			t.Fatalf("%d rows, %+v", len(rows), report)
		}
		for _, r := range rows {
			if v, err := (Exact{}).Verify(Case{Reference: r.Answer, Text: "<answer>" + r.texts[0] + "</answer>"}); err != nil ||
				v.Kind != engine.Equal && !strings.Contains(r.texts[0], "answer>") {
				t.Fatalf("%q is not equal to itself: %+v %v", r.texts[0], v, err)
			}
		}
	})
}

func FuzzVerdict(f *testing.F) {
	for _, seed := range []string{`{"kind":"equal"}`, `{"kind":"different","reward":0.2,"answer":"x"}`, `{"kind":"equal","reward":1e400}`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		v, err := parseVerdict(line)
		if err == nil && (!(v.Reward >= 0 && v.Reward <= 1) || v.Kind == engine.Unparsed && v.Reward > 0) {
			t.Fatalf("%+v", v)
		}
	})
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte("verifier: [a, b]\nseconds: 3"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parseSettings(text); err == nil && (s.Processes < 1 || s.Turns < 1 || !(s.Seconds > 0)) {
			t.Fatalf("%+v", s)
		}
	})
}

// TestMain is also the verifier command of these tests: argument 1 says how it behaves.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "verifier" {
		behave(os.Args[2], bufio.NewReaderSize(os.Stdin, 4<<20))
	}
	os.Exit(m.Run())
}
