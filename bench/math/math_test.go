package math

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/bench/jsonl"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	h0 "github.com/seed-7c27e6b8/whale/harnesses/math"
)

// echo is an interpreter that prints its program, or fails.
type echo struct{ err error }

func (e echo) Run(_ context.Context, program string) (string, error) { return program, e.err }
func (echo) Dialect() string                                         { return "It echoes." }

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rows makes n GSM8K rows; the answer of row i is base+i.
func rows(name string, n, base int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"question": "%s has %d shells. How many?", "answer": "It says so.\n#### %d"}`+"\n", name, base+i, base+i)
	}
	return b.String()
}

// folder is a small data folder: 20 training rows, 6 test rows, 3 AIME rows.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "gsm8k_train.jsonl", rows("Nora", 20, 70100))
	write(t, dir, "gsm8k_test.jsonl", rows("Omar", 6, 70200))
	write(t, dir, "aime_2031.jsonl", `{"id": "I-1", "problem": "Find $x$.", "answer": "70301"}
{"id": "I-2", "problem": "Find $y$.", "answer": 70302}
{"id": "I-3", "problem": "Find $z$.", "answer": "70303"}
`)
	return dir
}

func open(t *testing.T, dir string, o Options) *engine.Domain {
	t.Helper()
	d, reports, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if len(r.Bad) > 0 {
			t.Fatal(r)
		}
	}
	return d
}

// Every form of row that the data sets have, and what is wrong with bad ones.
func TestReader(t *testing.T) {
	text := strings.Join([]string{
		`{"question": "One?", "answer": "#### means the end.\n1 + 0 = 1\n#### 1"}`,
		`{"id": 7, "problem": "Two?", "answer": "2", "level": "Level 3", "type": "Algebra"}`,
		`{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "Three?"}], "reward_model": {"ground_truth": "3"}}`,
		`{"problem": "Four?", "solution": "So it is $\\boxed{\\frac{8}{2}}$.", "unique_id": "four", "subject": "Geometry", "level": 5}`,
		``,
		`{"prompt": "Solve the following math problem step by step. The last line is Answer: $Answer.\n\nFive?\n\nRemember to put your answer on its own line after \"Answer:\".", "answer": 5.0}`,
		`{"question": "Six?"`,
		`{"question": "Seven?"}`,
		`{"question": "Eight?", "answer": "no marks\n#### "}`,
		`{"question": " ", "answer": "9"}`,
		`{"answer": "10"}`,
		`{"question": "one", "answer": "11"}`,
		`{"id": "7", "question": "Twelve?", "answer": "12"}`,
		"{\"question\": \"Thir\xffteen?\", \"answer\": \"13\"}",
		`{"question": "Fourteen?", "answer": ["14"]}`,
		`{"question": 15, "answer": "15"}`,
		`{"question": "` + strings.Repeat("x", maxRow) + `", "answer": "16"}`,
		`{"question": "Seventeen?", "answer": "\\fancy{17}"}`,
		`null`,
		`{"question": "Last?", "answer": "1,000"}`,
	}, "\n")
	problems, report, err := read(strings.NewReader(text), "test.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ question, reference, labels string }{
		{"One?", "1", ""}, {"Two?", "2", "Algebra,Level 3"}, {"Three?", "3", ""}, {"Four?", `\frac{8}{2}`, "Geometry,5"}, {"Five?", "5.0", ""},
		{"Seventeen?", `\fancy{17}`, ""}, {"Last?", "1,000", ""},
	}
	if len(problems) != len(want) || report.Good != len(want) || report.Opaque != 1 {
		t.Fatalf("%d problems, %s", len(problems), report)
	}
	for i, w := range want {
		if p := problems[i]; p.question != w.question || p.reference != w.reference || strings.Join(p.labels, ",") != w.labels {
			t.Errorf("problem %d is %+v", i+1, p)
		}
	}
	bad := []struct {
		row int
		err error
	}{{7, jsonl.ErrJSON}, {8, ErrAnswer}, {9, ErrAnswer}, {10, ErrQuestion}, {11, ErrQuestion}, {12, ErrDuplicate}, {13, ErrDuplicate},
		{14, jsonl.ErrText}, {15, ErrAnswer}, {16, jsonl.ErrJSON}, {17, jsonl.ErrLong}, {19, ErrQuestion}}
	if len(report.Bad) != len(bad) {
		t.Fatalf("%d bad rows: %v", len(report.Bad), report.Bad)
	}
	for i, w := range bad {
		if got := report.Bad[i]; got.Row != w.row || !errors.Is(got, w.err) || strings.Contains(got.Error(), "\n") {
			t.Errorf("bad row is %v, want line %d, %v", got, w.row, w.err)
		}
	}
	if text := report.String(); !strings.Contains(text, "7 problems, 1 with answers that only their own spelling matches, 12 rows left out, the first: task test.jsonl:7: broken JSON") {
		t.Error(text)
	}
}

// The splits share no question, the order of rows does not matter, and each test set has
// its tag.
func TestOpen(t *testing.T) {
	dir := folder(t)
	d := open(t, dir, Options{Select: 5})
	if len(d.Train) != 15 || len(d.Select) != 5 || len(d.Test) != 9 || d.Tools != nil {
		t.Fatalf("%d, %d, %d tasks", len(d.Train), len(d.Select), len(d.Test))
	}
	sets := map[string]int{}
	for _, task := range d.Test {
		sets[task.Tags[0]]++
	}
	if sets["set gsm8k"] != 6 || sets["set aime_2031"] != 3 {
		t.Error(sets)
	}
	seen := map[engine.TaskID]bool{}
	for _, split := range []engine.Split{engine.Train, engine.Select, engine.Test} {
		for _, task := range d.Tasks(split) {
			if seen[task.ID] {
				t.Errorf("%s twice", task.ID)
			}
			seen[task.ID] = true
		}
	}
	lines := strings.SplitAfter(rows("Nora", 20, 70100), "\n")
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	write(t, dir, "gsm8k_train.jsonl", strings.Join(lines, ""))
	again := open(t, dir, Options{Select: 5})
	for i := range d.Select {
		if d.Select[i].ID != again.Select[i].ID {
			t.Error("the select split depends on the order of rows")
		}
	}
	if small := open(t, dir, Options{Test: 2, Select: 1, Train: 3}); len(small.Test) != 4 || len(small.Select) != 1 || len(small.Train) != 3 {
		t.Errorf("%d, %d, %d tasks", len(small.Train), len(small.Select), len(small.Test))
	}
}

// A training row that is in a test set, however it is spaced, does not teach.
func TestApart(t *testing.T) {
	dir := folder(t)
	write(t, dir, "extra_train.jsonl", `{"question": "omar has 70200 shells.  How many", "answer": "1"}
{"question": "find $X$", "answer": "2"}
{"question": "Nora has 70100 shells. How many?", "answer": "3"}
{"question": "New?", "answer": "4"}
`)
	_, reports, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		switch r.File {
		case "extra_train.jsonl":
			if r.Good != 2 || len(r.Bad) != 2 || !errors.Is(r.Bad[0], ErrTest) || !errors.Is(r.Bad[1], ErrTest) {
				t.Error(r.Bad)
			}
		case "gsm8k_train.jsonl": // read after extra_train, which has the question already
			if len(r.Bad) != 1 || !errors.Is(r.Bad[0], ErrDuplicate) {
				t.Error(r.Bad)
			}
		}
	}
}

func TestOpenForms(t *testing.T) {
	dir := t.TempDir()
	var gz bytes.Buffer
	packer := gzip.NewWriter(&gz)
	if _, err := packer.Write([]byte(rows("Pia", 200, 1))); err != nil {
		t.Fatal(err)
	}
	if err := packer.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "math.jsonl.gz", gz.String())
	d := open(t, filepath.Join(dir, "math.jsonl.gz"), Options{Select: 20})
	if n := len(d.Test); n < 5 || n > 40 || len(d.Train)+len(d.Select)+n != 200 || d.Test[0].Tags[0] != "set math" {
		t.Errorf("%d of 200 are test", n)
	}
	if _, _, err := Open(dir, Options{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("a folder without training rows: %v", err)
	}
	if _, _, err := Open(filepath.Join(dir, "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	write(t, dir, "bad_train.jsonl.gz", "no gzip")
	if _, _, err := Open(dir, Options{}); err == nil {
		t.Error("a broken file is read")
	}
	var failure *engine.Failure
	if _, _, err := Open(filepath.Join(dir, "none"), Options{}); !errors.As(err, &failure) || failure.Boundary != engine.AtTask {
		t.Errorf("boundary of %v", err)
	}
}

func TestTool(t *testing.T) {
	d := open(t, folder(t), Options{Code: echo{}})
	if len(d.Tools) != 1 || !strings.Contains(d.Tools[0].Description, "It echoes.") {
		t.Fatal(d.Tools)
	}
	environment, err := d.World.Start(d.Train[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, args, want string
		err              error
	}{
		{"python", `{"code": "print(1)"}`, "print(1)", nil},
		{"python", `{"code": ""}`, "", nil},
		{"python", `{}`, "", engine.ErrTool},
		{"python", `{"code": 1}`, "", engine.ErrTool},
		{"python", `code`, "", engine.ErrTool},
		{"ruby", `{"code": "puts 1"}`, "", engine.ErrTool},
		{"python", `{"code": "` + strings.Repeat("x", maxProgram+1) + `"}`, "Error: the program is longer than 32768 bytes", nil},
		{"python", `{"code": "` + strings.Repeat("é", maxOutput) + `"}`, strings.Repeat("é", maxOutput/2) + "\n(output cut)", nil},
	} {
		got, err := environment.Tool(t.Context(), engine.ToolCall{Name: c.name, Args: c.args})
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s %.40s: %.60q, %v", c.name, c.args, got, err)
		}
	}
	if environment.Record() != "" {
		t.Error("a record")
	}
}

// An interpreter that fails is the host's fault: the rollout is lost, not a zero.
func TestToolInfra(t *testing.T) {
	broken := errors.New("connection refused")
	d := open(t, folder(t), Options{Code: echo{broken}})
	environment, err := d.World.Start(d.Train[0])
	if err != nil {
		t.Fatal(err)
	}
	_, err = environment.Tool(t.Context(), engine.ToolCall{Name: "python", Args: `{"code": "1"}`})
	if !errors.Is(err, broken) || errors.Is(err, engine.ErrTool) || engine.Classify(err) != engine.Infra {
		t.Errorf("%v is %s", err, engine.Classify(err))
	}
	without := open(t, folder(t), Options{})
	environment, err = without.World.Start(without.Train[0])
	if err != nil {
		t.Fatal(err)
	}
	if text, err := environment.Tool(t.Context(), engine.ToolCall{Name: "python", Args: `{"code": "1"}`}); err != nil || !strings.HasPrefix(text, "Error: there is no interpreter") {
		t.Errorf("%q, %v", text, err)
	}
}

// h0 with a model that answers right, wrong, with a program, and unreadably.
func TestPlay(t *testing.T) {
	d := open(t, folder(t), Options{Code: echo{}})
	for _, task := range d.Test {
		want := d.World.(*world).problems[task.ID].reference
		for name, c := range map[string]struct {
			model benchtest.Model
			kind  engine.VerdictKind
		}{
			"right": {func([]kit.Message) string { return `So \boxed{` + want + `.0}` }, engine.Equal},
			"wrong": {func([]kit.Message) string { return `So \boxed{-1}` }, engine.Different},
			"none":  {func([]kit.Message) string { return `So ` + want }, engine.Unparsed},
			"program": {func(messages []kit.Message) string {
				if last := messages[len(messages)-1]; last.Role == kit.Tool {
					return `\boxed{` + last.Content + `}`
				}
				return "```python\n" + want + "\n```"
			}, engine.Equal},
		} {
			result, err := benchtest.Play(d, task, h0.Run, c.model)
			if err != nil || result.Err != nil {
				t.Fatal(err, result.Err)
			}
			if result.Verdict.Kind != c.kind || (result.Verdict.Reward == 1) != (c.kind == engine.Equal) {
				t.Errorf("%s: %+v", name, result.Verdict)
			}
		}
	}
	strange := engine.Task{ID: "t0"}
	if _, err := d.World.Start(strange); err == nil {
		t.Error("a strange task starts")
	}
	if _, err := d.World.Verify(strange, &engine.Trajectory{}); err == nil {
		t.Error("a strange task is judged")
	}
}

// The box of an answer is the reference where there is one; several mean what they say together.
func TestReader_boxes(t *testing.T) {
	for answer, want := range map[string]string{
		`\\boxed{7}`: "7", `so \\boxed{7}.`: "7", `\\boxed{1} or \\boxed{2}`: `\boxed{1} or \boxed{2}`, `7`: "7",
	} {
		problems, report, err := read(strings.NewReader(`{"problem": "Which?", "answer": "`+answer+`"}`), "x.jsonl")
		if err != nil || len(problems) != 1 || problems[0].reference != want {
			t.Errorf("%s: %+v, %v, want %s", answer, report, err, want)
		}
	}
}
