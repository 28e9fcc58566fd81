// Package searchqa is the question domain over real text: the rows of seven benchmarks in
// Search-R1 form, a search tool over a corpus of passages or a retrieval server, and a
// verifier that compares the normalised answer with the golden ones, after that with a
// judge model if there is one (shared/DESIGN.md sections 5, 8 and 10,
// shared/data/README.md).
//
// What it may not know: models, harnesses (beyond handing on the source of h0), runs.
// What it does not cover: answers that are right in other words, unless a judge is given;
// dense retrieval, unless a server does it; corpora of millions of passages without one.
package searchqa

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses"
)

// Name of the domain.
const Name = "searchqa"

// All takes every test question.
const All = -1

// Options choose questions and services. Zero values mean the defaults.
type Options struct {
	// Test is how many questions of each benchmark at most, default 36: as many of each,
	// so that the mean over tasks is the average over benchmarks; All for all.
	Test   int
	Select int // cut from the training questions, default 64
	Train  int // at most so many of the rest; 0 = all
	// CallTokens limits one reply, default 256.
	CallTokens int
	// Cache is the folder of built indexes, default whale in the user's cache folder.
	Cache string
	// Retriever is a Search-R1 retrieval server to search with; without a URL the corpus
	// in the data folder is searched.
	Retriever Endpoint
	// Judge is asked about answers that differ from the golden ones; nil = they are wrong.
	Judge Judge
	// Parquet reads .parquet files (bench/searchqa/parquet); nil = they are refused.
	Parquet RowFile
}

// RowFile reads all rows of a file and calls use for each, counted from 1, with what is
// wrong with it if something is. Its own error is one of the file.
type RowFile func(path string, use func(row int, r Row, err error)) error

func (o Options) withDefaults() Options {
	o.Test = cmp.Or(o.Test, 36)
	o.Select = cmp.Or(o.Select, 64)
	o.CallTokens = cmp.Or(o.CallTokens, 256)
	return o
}

// Errors of a data folder.
var (
	// ErrEmpty: a split would have no question.
	ErrEmpty = errors.New("no questions")
	// ErrCorpus: there is neither a corpus nor a retrieval server, or no good passage.
	ErrCorpus = errors.New("no passages to search")
	// ErrParquet: a parquet file, and nothing that reads it.
	ErrParquet = errors.New("parquet files are not read here")
)

// Open reads a data folder: questions from train and test files (`train.`, `nq_train.`
// and so on, ending in jsonl, jsonl.gz, jsonl.zst or parquet) and, without a retrieval
// server, the passages of corpus.jsonl, .gz or .zst. Test questions are never training
// questions; select questions are cut from the training ones by content hash, the same
// number of each benchmark as far as they last. Rows that can't be used are in the
// reports; the error is about files.
func Open(dir string, o Options) (*engine.Domain, []Report, error) {
	o = o.withDefaults()
	train, test, reports, err := readFolder(dir, o.Parquet)
	if err != nil {
		return nil, reports, err
	}
	if none := missing(test); len(none) > 0 {
		reports = append(reports, Report{File: Name, Good: len(test), Note: "no test questions of " + strings.Join(none, ", ")})
	}
	w := &world{questions: map[engine.TaskID]*question{}}
	if o.Retriever.URL != "" {
		w.searcher = retriever{newService(o.Retriever)}
		reports = append(reports, Report{File: Name, Good: len(train) + len(test), Note: "searches are made by " + o.Retriever.URL})
	} else {
		index, report, err := openCorpus(dir, o.Cache)
		if report.File != "" {
			reports = append(reports, report)
		}
		if err != nil {
			return nil, reports, err
		}
		w.searcher = local{index}
	}
	if o.Judge != nil {
		w.judge = &judgeBench{judge: o.Judge, known: map[string]judgement{}}
	}
	d, err := build(train, test, w, o)
	return d, reports, err
}

// missing names the benchmarks that have no question in a list: an average over the others
// is another number.
func missing(list []*question) (none []string) {
	for i, p := range pile(list) {
		if len(p) == 0 {
			none = append(none, Benchmarks[i])
		}
	}
	return none
}

// build cuts the splits and makes the domain.
func build(train, test []*question, w *world, o Options) (*engine.Domain, error) {
	source, skill, err := harnesses.Seed(Name)
	if err != nil {
		return nil, err
	}
	chosen, train := carve(train, o.Select)
	if o.Train > 0 {
		train = train[:min(o.Train, len(train))]
	}
	d := &engine.Domain{
		Name:   Name,
		Tools:  []engine.ToolSpec{searchTool},
		Budget: engine.Budget{Tokens: 4096, CallTokens: o.CallTokens, Turns: 16, Tools: 32, LogBytes: 4096},
		World:  w,
		Seed:   source,
		Skill:  skill,
		Names:  dataSets,
		Train:  w.tasks(train),
		Select: w.tasks(chosen),
		Test:   w.tasks(limit(test, o.Test)),
	}
	for _, split := range []engine.Split{engine.Train, engine.Select, engine.Test} {
		if len(d.Tasks(split)) == 0 {
			return nil, engine.Fail(engine.AtTask, Name, fmt.Errorf("%w in the %s split", ErrEmpty, split))
		}
	}
	return d, nil
}

// carve cuts n questions from a list, but at most half of each benchmark: by turns the
// question with the lowest id of each benchmark. Both results are in the order of ids.
func carve(list []*question, n int) (chosen, rest []*question) {
	piles := pile(list)
	for i, left := 0, true; left && len(chosen) < n; i++ {
		left = false
		for _, p := range piles {
			if i < len(p)/2 && len(chosen) < n {
				chosen, left = append(chosen, p[i]), true
			}
		}
	}
	taken := map[engine.TaskID]bool{}
	for _, q := range chosen {
		taken[q.id] = true
	}
	for _, q := range list {
		if !taken[q.id] {
			rest = append(rest, q)
		}
	}
	sortByID(chosen)
	sortByID(rest)
	return chosen, rest
}

// limit keeps at most n questions of each benchmark, those with the lowest ids, in the
// order of ids; All keeps all.
func limit(list []*question, n int) []*question {
	var kept []*question
	for _, p := range pile(list) {
		if n != All {
			p = p[:min(n, len(p))]
		}
		kept = append(kept, p...)
	}
	sortByID(kept)
	return kept
}

// pile sorts questions into one list for each benchmark, each in the order of ids.
func pile(list []*question) [][]*question {
	piles := make([][]*question, len(Benchmarks))
	for _, q := range list {
		at := slices.Index(Benchmarks, q.benchmark)
		piles[at] = append(piles[at], q)
	}
	for _, p := range piles {
		sortByID(p)
	}
	return piles
}

// sortByID orders questions by content hash: at random, but the same every time.
func sortByID(list []*question) {
	slices.SortFunc(list, func(a, b *question) int { return cmp.Compare(a.id, b.id) })
}

// world is the engine.World. It is only read after build.
type world struct {
	questions map[engine.TaskID]*question
	searcher  searcher
	judge     *judgeBench // nil = none
}

func (w *world) tasks(list []*question) []engine.Task {
	var tasks []engine.Task
	for _, q := range list {
		w.questions[q.id] = q
		tasks = append(tasks, q.task())
	}
	return tasks
}

// Start opens the search tool for one rollout.
func (w *world) Start(task engine.Task) (engine.Environment, error) {
	if _, ok := w.questions[task.ID]; !ok {
		return nil, engine.Fail(engine.AtTask, string(task.ID), fmt.Errorf("not a question of this %s domain", Name))
	}
	return environment{w.searcher}, nil
}

// What decided a verdict, where there is a judge.
const (
	ByMatch    = "exact match"
	ByJudge    = "judge"
	ByFallback = "exact match, the judge could not be read"
)

// Verify compares the answer in the model's text with the golden answers. With a judge,
// an answer that differs is put before it; when the judge's words can't be read the exact
// match decides and the verdict says so, and when the judge can't be reached the error is
// the host's. Without a judge it is pure.
func (w *world) Verify(task engine.Task, t *engine.Trajectory) (engine.Verdict, error) {
	q, ok := w.questions[task.ID]
	if !ok {
		return engine.Verdict{}, engine.Fail(engine.AtVerifier, string(task.ID), fmt.Errorf("not a question of this %s domain", Name))
	}
	call := t.Answer()
	if call == nil {
		return engine.Verdict{Kind: engine.Unparsed}, nil
	}
	answer, ok := Answer(call.Text)
	if !ok {
		return engine.Verdict{Kind: engine.Unparsed}, nil
	}
	v := engine.Verdict{Kind: engine.Different}
	normal := ""
	if len(answer) <= maxAnswer {
		normal = Normalise(answer)
	}
	_, equal := q.accepted[normal]
	v.Answer = clip(cmp.Or(normal, clip(answer, maxShown)), maxShown)
	if w.judge != nil {
		v.By = ByMatch
		if !equal && normal != "" && len(answer) <= maxJudged {
			j, err := w.judge.decide(q, answer, normal)
			if err != nil {
				return engine.Verdict{}, engine.Fail(engine.AtVerifier, string(task.ID), err)
			}
			equal, v.By = j.same, ByJudge
			if j.fallback {
				v.By = ByFallback
			}
		}
	}
	if equal {
		v.Kind, v.Reward = engine.Equal, 1
	}
	return v, nil
}
