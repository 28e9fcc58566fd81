package searchqa

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/bench/jsonl"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	h0 "github.com/seed-7c27e6b8/whale/harnesses/searchqa"
)

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func row(benchmark, id, question string, golden ...string) string {
	data, err := json.Marshal(Row{ID: id, DataSource: benchmark, Question: question, GoldenAnswers: golden})
	if err != nil {
		panic(err)
	}
	return string(data) + "\n"
}

// places of the small world of these tests.
var places = strings.Fields("Arvik Belmo Corda Dunem Elst Fasso Gorin Hult Ilmo Jarn Korda Lumi")

// mayor is the golden answer to the question about a place.
func mayor(i int) string { return "Mayor " + places[(i+5)%len(places)] + "son" }

// folder writes a data folder of two benchmarks: a question about each place, half of
// them for training, and a passage for each place that names its mayor.
func folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	var train, test, corpus strings.Builder
	for i, place := range places {
		benchmark := []string{"nq", "hotpotqa"}[i/2%2]
		line := row(benchmark, fmt.Sprint(i), "Who is the mayor of "+place+"?", mayor(i), "The "+mayor(i))
		if i%2 == 0 {
			train.WriteString(line)
		} else {
			test.WriteString(line)
		}
		fmt.Fprintf(&corpus, `{"id":"%d","contents":"\"%s\"\n%s is a town. Its mayor is %s.\nIt has a river."}`+"\n", i, place, place, mayor(i))
	}
	put(t, dir, "mixed_train.jsonl", train.String())
	put(t, dir, "mixed_test.jsonl", test.String())
	put(t, dir, "corpus.jsonl", corpus.String())
	return dir
}

func open(t testing.TB, o Options) *engine.Domain {
	t.Helper()
	if o.Cache == "" {
		o.Cache = t.TempDir()
	}
	d, reports, err := Open(folder(t), o)
	if err != nil {
		t.Fatal(err, reports)
	}
	return d
}

func ids(tasks []engine.Task) (list []engine.TaskID) {
	for _, task := range tasks {
		list = append(list, task.ID)
	}
	return list
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstandard(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

// Bad rows are counted with their number and reason; the good ones go on.
func TestBadRows(t *testing.T) {
	dir := folder(t)
	put(t, dir, "nq_test.jsonl", "\ufeff"+
		row("nq", "1000", "Who sings Lorn?", "Ida")+ // 1: good
		"\n  \n"+ // 2, 3: blank
		row("", "1001", "Who sings Marn?", "Bo")+ // 4: good, named by its file
		`{"id":"1002","question":"Who wrote it?","reward_model":{"ground_truth":{"target":"Cid"}}}`+"\n"+ // 5: good
		`{"id":"1003","question":"Who?","golden_answers":["A"]`+"\n"+ // 6
		`[1,2]`+"\n"+ // 7
		row("nq", "", "Who ran?", "Ann")+ // 8
		row("nq", "1004", " ", "Ann")+ // 9
		row("nq", "1005", "?!", "Ann")+ // 10
		row("nq", "1006", strings.Repeat("who ", 1100), "Ann")+ // 11
		row("nq", "1007", "Who swam?")+ // 12
		row("nq", "1008", "Who flew?", "")+ // 13
		row("nq", "1009", "Who flies?", "A Name", "the")+ // 14
		row("squad", "1010", "Who drove?", "Ann")+ // 15
		row("nq", "1000", "Who drives?", "Ann")+ // 16: the id of row 1
		row("nq", "1011", "WHO sings lorn", "Ann")+ // 17: the question of row 1
		row("hotpotqa", "1000", "Who rides?", "Ann")+ // 18: good, an id of another benchmark
		"{\"id\":\"1012\",\"question\":\"Who \xff?\",\"golden_answers\":[\"A\"]}\n"+ // 19
		row("nq", "1013", "Who dug?", "Ann")+"{}\n"+ // 20: good, 21: no id
		`{"id":"1014","question":"Who dances?","golden_answers":["A"]} {}`+"\n"+ // 22
		`{"id":"1015","question":"`+strings.Repeat("x", maxLine)+`"}`+"\n"+ // 23
		`{"id":"1016","question":"Who cooks?","golden_answers":"A"}`+"\n"+ // 24: a text is no list
		row("nq", "1017", "Who ends?", "Ann")[:50]) // 25: cut off
	_, reports, err := Open(dir, Options{Cache: indexes})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(reports, func(r Report) bool { return r.File == "nq_test.jsonl" })
	report := reports[at]
	want := []struct {
		row int
		err error
	}{{6, jsonl.ErrJSON}, {7, jsonl.ErrJSON}, {8, ErrID}, {9, ErrQuestion}, {10, ErrQuestion}, {11, ErrQuestion}, {12, ErrGolden}, {13, ErrGolden}, {14, ErrGolden},
		{15, ErrBenchmark}, {16, ErrDuplicate}, {17, ErrDuplicate}, {19, jsonl.ErrText}, {21, ErrID}, {22, jsonl.ErrJSON}, {23, jsonl.ErrLong}, {24, jsonl.ErrJSON}, {25, jsonl.ErrJSON}}
	if report.Good != 5 || len(report.Bad) != len(want) {
		t.Fatalf("%d good, bad: %v", report.Good, report.Bad)
	}
	for i, w := range want {
		if got := report.Bad[i]; got.Row != w.row || !errors.Is(got, w.err) || strings.Contains(got.Error(), "\n") {
			t.Errorf("bad row %d is %v, want %d, %v", i, got, w.row, w.err)
		}
	}
	if text := report.String(); !strings.HasPrefix(text, "nq_test.jsonl: 5 rows, 18 left out, the first: task nq_test.jsonl:6: broken JSON") {
		t.Errorf("report %q", text)
	}
}

// A training row that asks a test question is refused, whatever its id, spelling and file.
func TestApart(t *testing.T) {
	dir := folder(t)
	put(t, dir, "nq_train.jsonl", row("nq", "a", "Who is fine?", "Ann")+row("nq", "b", "who is the MAYOR of belmo", "Ann")+`{}`+"\n")
	d, reports, err := Open(dir, Options{Cache: indexes, Select: 1})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(reports, func(r Report) bool { return r.File == "nq_train.jsonl" })
	if r := reports[at]; r.Good != 1 || len(r.Bad) != 2 || !errors.Is(r.Bad[0], ErrTest) || r.Bad[0].Row != 2 || r.Bad[1].Row != 3 {
		t.Errorf("%+v", r)
	}
	for _, task := range slices.Concat(d.Train, d.Select) {
		if strings.Contains(strings.ToLower(task.Input), "belmo") {
			t.Errorf("%q teaches", task.Input)
		}
	}
}

// Splits: each benchmark gives its share, the order of rows and files does not matter,
// nothing is in two of them.
func TestSplits(t *testing.T) {
	d := open(t, Options{Select: 2, Test: 2})
	if len(d.Test) != 4 || len(d.Select) != 2 || len(d.Train) != 4 {
		t.Fatalf("%d test, %d select, %d train", len(d.Test), len(d.Select), len(d.Train))
	}
	for _, list := range [][]engine.Task{d.Test, d.Select} {
		if n := count(list, "nq"); n*2 != len(list) || !slices.IsSorted(ids(list)) {
			t.Errorf("%d of nq in %v", n, list)
		}
	}
	dir := t.TempDir()
	for _, split := range []string{"train", "test"} {
		text, err := os.ReadFile(filepath.Join(folder(t), "mixed_"+split+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(strings.TrimSpace(string(text)), "\n")
		slices.Reverse(lines)
		put(t, dir, "a_"+split+".jsonl.gz", gzipped(t, strings.Join(lines[:2], "\n")))
		put(t, dir, split+".jsonl.zst", zstandard(t, strings.Join(lines[2:], "\n")))
	}
	put(t, dir, "corpus.jsonl.zst", zstandard(t, `{"id":1,"contents":"x"}`))
	put(t, dir, "nq_dev.jsonl", "not read")
	again, reports, err := Open(dir, Options{Cache: indexes, Select: 2, Test: 2})
	if err != nil || len(reports) != 6 || reports[4].String() != "searchqa: 6 rows; no test questions of triviaqa, popqa, 2wikimultihopqa, musique, bamboogle" {
		t.Fatal(err, reports)
	}
	for _, split := range []engine.Split{engine.Train, engine.Select, engine.Test} {
		if !slices.Equal(ids(again.Tasks(split)), ids(d.Tasks(split))) {
			t.Errorf("%s differs with the order of rows", split)
		}
	}
	if few := open(t, Options{Select: 100, Train: 1}); len(few.Select) != 2 || len(few.Train) != 1 || len(few.Test) != 6 {
		t.Errorf("%d select, %d train, %d test", len(few.Select), len(few.Train), len(few.Test))
	}
}

func count(tasks []engine.Task, tag string) (n int) {
	for _, task := range tasks {
		if slices.Equal(task.Tags, []string{tag}) {
			n++
		}
	}
	return n
}

// Passages in bad UTF-8 are mended and counted, bad rows listed; both also when the index
// comes from the cache.
func TestCorpus(t *testing.T) {
	dir := folder(t)
	text := `{"id":"0","contents":"good"}` + "\n" +
		"{\"id\":\"1\",\"contents\":\"b\xffd zebra\"}\n" +
		`{"id":"2","contents":"half \ud800 pair"}` + "\n" +
		`{"id":"3","contents":"meant \ufffd so"}` + "\n" +
		`{"id":4,"contents":"number"}` + "\n" +
		`{"id":"0","contents":"again"}` + "\n" +
		`{"contents":"no id"}` + "\n" +
		`{"id":null,"contents":"no id"}` + "\n" +
		`{"id":"5","contents":" "}` + "\n" +
		`{"id":"6"}` + "\n" +
		`nothing` + "\n" + strings.Repeat("{}\n", 30) +
		"{\"id\":\"7\",\"contents\":\"meant \\ufffd, not \xff\"}\n"
	put(t, dir, "corpus.jsonl", text)
	cache := t.TempDir()
	for range 2 {
		d, reports, err := Open(dir, Options{Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		report := reports[len(reports)-1]
		if report.File != "corpus.jsonl" || report.Good != 6 || report.Repaired != 3 || len(report.Bad) != maxBadPassages || report.More != 36-maxBadPassages || report.Note != "" {
			t.Errorf("%+v", report)
		}
		if bad := report.Bad[0]; bad.Row != 6 || !errors.Is(bad, ErrPassage) || !strings.Contains(bad.Error(), "same as an earlier row") {
			t.Errorf("%v", bad)
		}
		if text := report.String(); !strings.Contains(text, "6 rows, 3 of them with bad UTF-8 that was replaced, 36 left out, the first: task corpus.jsonl:6: bad passage") {
			t.Errorf("report %q", text)
		}
		env, err := d.World.Start(d.Test[0])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := env.Tool(t.Context(), engine.ToolCall{Name: "search", Args: kit.Args("query", "zebra")}); got != "b\uFFFDd zebra" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	// A damaged index is made anew, and said to be.
	stored, err := filepath.Glob(filepath.Join(cache, "*.idx"))
	if err != nil || len(stored) != 1 {
		t.Fatal(stored, err)
	}
	put(t, cache, filepath.Base(stored[0]), "damaged")
	if _, reports, err := Open(dir, Options{Cache: cache}); err != nil || !strings.Contains(reports[len(reports)-1].Note, "made anew: not a whole index file") {
		t.Errorf("%v, %v", reports, err)
	}
	// Nowhere to store it: it works from memory, and says so.
	if d, reports, err := Open(dir, Options{Cache: filepath.Join(dir, "corpus.jsonl")}); err != nil || d == nil || !strings.Contains(reports[len(reports)-1].Note, "in memory only") {
		t.Errorf("%v, %v", reports, err)
	}
	for name, text := range map[string]string{"empty": "", "bad": "{}\n"} {
		put(t, dir, "corpus.jsonl", text)
		if _, _, err := Open(dir, Options{Cache: cache}); !errors.Is(err, ErrCorpus) {
			t.Errorf("%s corpus: %v", name, err)
		}
	}
}

// Files that can't be used are errors of one line that name the file.
func TestBadFolders(t *testing.T) {
	for _, c := range []struct {
		name string
		put  func(dir string)
		want string
	}{
		{"cut gzip", func(dir string) { put(t, dir, "nq_test.jsonl.gz", gzipped(t, strings.Repeat("{}\n", 999))[:40]) }, "task nq_test.jsonl.gz: unexpected EOF"},
		{"no gzip", func(dir string) { put(t, dir, "nq_test.jsonl.gz", "x") }, "nq_test.jsonl.gz"},
		{"no zstd", func(dir string) { put(t, dir, "nq_test.jsonl.zst", "not packed at all") }, "nq_test.jsonl.zst"},
		{"cut corpus", func(dir string) {
			if err := os.Remove(filepath.Join(dir, "corpus.jsonl")); err != nil {
				t.Fatal(err)
			}
			put(t, dir, "corpus.jsonl.gz", gzipped(t, strings.Repeat("{}\n", 999))[:40])
		}, "task corpus.jsonl.gz"},
		{"no corpus", func(dir string) {
			if err := os.Remove(filepath.Join(dir, "corpus.jsonl")); err != nil {
				t.Fatal(err)
			}
		}, "no passages to search"},
		{"no test questions", func(dir string) { put(t, dir, "mixed_test.jsonl", "") }, "no questions in the test split"},
		{"no training questions", func(dir string) { put(t, dir, "mixed_train.jsonl", "") }, "no questions in the train split"},
		{"parquet", func(dir string) { put(t, dir, "nq_test.parquet", "") }, "task nq_test.parquet: parquet files"},
	} {
		dir := folder(t)
		c.put(dir)
		_, _, err := Open(dir, Options{Cache: indexes})
		var failure *engine.Failure
		if err == nil || !errors.As(err, &failure) || failure.Boundary != engine.AtTask || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, _, err := Open(filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

func TestSearchTool(t *testing.T) {
	d := open(t, Options{})
	first := "Arvik: Arvik is a town. Its mayor is " + mayor(0) + ". It has a river."
	for _, c := range []struct {
		name, tool, args string
		lines            int // of the result; 0 = ErrTool
		want             string
	}{
		{"default k", "search", kit.Args("query", "Arvik"), 1, first},
		{"k as text", "search", kit.Args("query", "the mayor of ARVIK?", "k", "3"), 3, first},
		{"k as number", "search", `{"query":"town","k":2}`, 2, first},
		{"k capped", "search", `{"query":"town","k":99}`, maxPassages, first},
		{"no match", "search", kit.Args("query", "zzz"), 1, NoResults},
		{"empty query", "search", `{}`, 1, NoResults},
		{"blank query", "search", kit.Args("query", " \n"), 1, NoResults},
		{"megabyte", "search", kit.Args("query", "Arvik "+strings.Repeat("x", 1<<20)), 1, first},
		{"cut inside a rune", "search", kit.Args("query", "Arvik "+strings.Repeat("é", 1<<12)), 1, first},
		{"bad k", "search", `{"query":"a","k":"x"}`, 0, ""},
		{"k too small", "search", `{"query":"a","k":0}`, 0, ""},
		{"no json", "search", `query`, 0, ""},
		{"query is no text", "search", `{"query":["a"]}`, 0, ""},
		{"other tool", "open", `{}`, 0, ""},
	} {
		env, err := d.World.Start(d.Train[0])
		if err != nil {
			t.Fatal(err)
		}
		got, err := env.Tool(context.Background(), engine.ToolCall{Name: c.tool, Args: c.args})
		if c.lines == 0 {
			if !errors.Is(err, engine.ErrTool) {
				t.Errorf("%s: %v, want ErrTool", c.name, err)
			}
			continue
		}
		if err != nil || strings.Count(got, "\n") != c.lines-1 || !strings.HasPrefix(got, c.want) || env.Record() != "" {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	if _, err := d.World.Start(engine.Task{ID: "x"}); err == nil {
		t.Error("a foreign task was started")
	}
}

// h0 with a model that reads the passage: it searches once and answers.
func TestSeedHarness(t *testing.T) {
	d := open(t, Options{})
	for _, task := range d.Test {
		played, err := benchtest.Play(d, task, h0.Run, reader1)
		if err != nil || played.Err != nil || played.Verdict.Kind != engine.Equal || len(played.Trajectory.Calls()) != 2 {
			t.Errorf("%q: %+v, %v, %v", task.Input, played.Verdict, err, played.Err)
		}
	}
}

// reader1 asks with the question and answers with what stands behind "mayor is".
func reader1(messages []kit.Message) string {
	last := messages[len(messages)-1]
	if last.Role != kit.Tool {
		return "<search>" + last.Content + "</search>"
	}
	_, after, _ := strings.Cut(last.Content, "mayor is ")
	name, _, _ := strings.Cut(after, ".")
	return "<answer>" + name + "</answer>"
}

func FuzzRows(f *testing.F) {
	f.Add(row("nq", "1", "Who?", "A") + "{}\n")
	f.Add("\ufeff" + `{"id":"1","question":"Who?","reward_model":{"ground_truth":{"target":["A"]}}}`)
	f.Add(`{"id":"0","contents":"\"T\"\nText \ud800"}`)
	f.Fuzz(func(t *testing.T, text string) {
		report, rd := &Report{File: "nq_test.jsonl"}, newReader()
		last := 0
		err := jsonl.Lines(strings.NewReader(text), maxLine, func(row int, line []byte) {
			if row <= last {
				t.Errorf("row %d after %d", row, last)
			}
			last = row
			var r Row
			err := jsonl.Row(line, &r)
			rd.take(r, err, row, "nq_test", report)
			if p, _, err := parsePassage(line); err == nil && p.ID == "" {
				t.Errorf("a passage without id in %q", line)
			}
		})
		if err != nil || report.Good != len(rd.questions) {
			t.Errorf("%+v, %v", report, err)
		}
		for _, q := range rd.questions {
			if len(q.accepted) == 0 || q.text == "" || !slices.Contains(Benchmarks, q.benchmark) {
				t.Errorf("%+v", q)
			}
		}
	})
}
