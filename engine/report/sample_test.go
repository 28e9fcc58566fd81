package report

import (
	"math"
	"regexp"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// pieces is a tokenizer for tests: it hands out an id for each piece of text it meets.
type pieces struct {
	texts []string
	ids   map[string]int32
}

var pieceRule = regexp.MustCompile(`<[^>]*>| ?[A-Za-z]{1,4}|[^A-Za-z]`)

func (p *pieces) encode(s string) []int32 {
	if p.ids == nil {
		p.ids = map[string]int32{}
	}
	var ids []int32
	for _, text := range pieceRule.FindAllString(s, -1) {
		id, ok := p.ids[text]
		if !ok {
			id = int32(len(p.texts))
			p.ids[text] = id
			p.texts = append(p.texts, text)
		}
		ids = append(ids, id)
	}
	return ids
}

func (p *pieces) decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		if int(id) < len(p.texts) {
			b.WriteString(p.texts[id])
		}
	}
	return b.String()
}

const seedSource = `package harness

import (
	"strings"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

const (
	turns = 2  // replies of the model, the answer included
	words = 16 // of a passage that enter the context
)

// Run asks, searches once and answers.
func Run(s *kit.Session) error {
	messages := []kit.Message{kit.User(s.Input)}
	for turn := 0; turn < turns; turn++ {
		reply, err := s.Generate(messages, kit.Options{})
		if err != nil {
			return err
		}
		query, ok := between(reply.Text, "<search>", "</search>")
		if !ok {
			return nil
		}
		passages, err := s.Tool("search", kit.Args("query", query))
		if err != nil {
			return err
		}
		messages = append(messages, kit.Said(reply), kit.ToolResult(clip(passages, words)))
	}
	return nil
}

func between(text, open, closing string) (string, bool) {
	_, rest, ok := strings.Cut(text, open)
	if !ok {
		return "", false
	}
	inner, _, ok := strings.Cut(rest, closing)
	return strings.TrimSpace(inner), ok
}
`

// made returns a score with an interval of about its binomial width.
func made(mean float64, n, k int) engine.Score {
	half := 1.96 * math.Sqrt(mean*(1-mean)/float64(n))
	return engine.Score{Mean: mean, Lo: max(0, mean-half), Hi: min(1, mean+half), N: n, K: k, Coverage: 1,
		ByTag: map[string]engine.TagMean{"1-hop": {Mean: min(1, mean*1.04+0.01), N: n * 6 / 10}, "2-hop": {Mean: max(0, mean*1.1-0.15), N: n * 4 / 10}}}
}

const (
	idSeed  = engine.HarnessID("h0d3c1a4f9b20e77")
	idTurns = engine.HarnessID("h1c93f0a277be0411")
	idWhole = engine.HarnessID("h83be10c55f20a4d1")
)

func sampleSources() []engine.Harness {
	longer := strings.Replace(seedSource, "turns = 2  // replies", "turns = 6  // replies", 1)
	whole := strings.Replace(longer, "words = 16 //", "words = 99 //", 1)
	whole = strings.Replace(whole, "\t\tif !ok {\n\t\t\treturn nil\n\t\t}\n\t\tpassages", "\t\tif !ok && strings.Contains(reply.Text, \"<answer>\") {\n\t\t\treturn nil\n\t\t}\n\t\tif !ok {\n\t\t\tmessages = append(messages, kit.Said(reply), kit.User(\"Reply with <search> or <answer>.\"))\n\t\t\tcontinue\n\t\t}\n\t\tpassages", 1)
	return []engine.Harness{{ID: idSeed, Source: seedSource}, {ID: idTurns, Source: longer}, {ID: idWhole, Source: whole}}
}

// journal writes records as a run does.
type journal struct {
	records []engine.Record
	weights engine.WeightsID
	harness engine.HarnessID
	seq     int
}

func (j *journal) add(r engine.Record) {
	r.Seq, r.Weights, r.Harness = len(j.records), j.weights, j.harness
	r.Saved = string(j.weights)
	j.records = append(j.records, r)
}

func (j *journal) step(cycle, index int, accepted float64, last bool) {
	j.seq++
	j.weights = engine.WeightsID("w" + strings.Repeat(string(rune('a'+j.seq%26)), 9))
	j.add(engine.Record{Kind: engine.StepRecord, Cycle: cycle, Index: index, Last: last, Spent: 256, File: "step",
		Step:     &engine.Step{Accepted: int(256 * accepted), Counted: 256, Mean: accepted, NLL: 1.1 - accepted, Drift: 2.1e-7},
		Spending: engine.Spending{Wall: 7.4, Rollouts: 3.1, Cost: engine.Cost{Prompt: 15100, Cached: 8600, Sampled: 3140, Trained: 1500 * cycle, SandboxSeconds: 0.11, ToolSeconds: 0.03, TrainSeconds: 4.1}}})
}

func (j *journal) search(cycle, index int, last bool, keep engine.HarnessID, s engine.Search) {
	if keep != "" {
		j.harness = keep
	}
	j.add(engine.Record{Kind: engine.SearchRecord, Cycle: cycle, Index: index, Last: last, Spent: 64 * len(s.Evaluated), File: "search", Search: &s,
		Spending: engine.Spending{Wall: 3.9, Rollouts: 3.6, Cost: engine.Cost{Prompt: 20400, Cached: 13100, Sampled: 2610, SandboxSeconds: 0.14, ToolSeconds: 0.03, ProposeSeconds: 0.2}}})
}

func (j *journal) measure(point int, split engine.Split, mean float64) {
	n := 128
	if split == engine.Select {
		n = 64
	}
	j.add(engine.Record{Kind: engine.MeasureRecord, Spent: 8 * n, File: "measure", Measure: &engine.Measure{Point: point, Split: split, Score: made(mean, n, 8)},
		Spending: engine.Spending{Wall: 4.1, Rollouts: 4, Cost: engine.Cost{Prompt: 30100, Cached: 20700, Sampled: 6210, SandboxSeconds: 0.3}}})
}

func tried(id engine.HarnessID, mean float64, accepted bool, m engine.Meta) engine.Entry {
	return engine.Entry{Harness: engine.Harness{ID: id, Meta: m}, Score: made(mean, 64, 1), Accepted: accepted}
}

// sampleRecords are three cycles of lookup, measured afterwards.
func sampleRecords() []engine.Record {
	j := &journal{weights: "w0", harness: idSeed}
	j.add(engine.Record{Kind: engine.StartRecord})
	accepts := [][]float64{{.17, .21, .26, .27, .31, .30}, {.47, .58, .71, .80, .83, .86}, {.90, .92, .93, .95, .94, .96}}
	steps := func(cycle int) {
		for i, a := range accepts[cycle-1] {
			j.step(cycle, i+1, a, i == 5)
		}
	}
	steps(1)
	j.search(1, 1, false, "", engine.Search{Evaluated: []engine.Entry{tried(idSeed, 0.281, true, engine.Meta{})}})
	j.search(1, 2, false, idTurns, engine.Search{Evaluated: []engine.Entry{
		tried(idTurns, 0.391, true, engine.Meta{Parents: []engine.HarnessID{idSeed}, Hypothesis: "Most failures stop after one search: with six turns a two-hop question can be followed to its end.", Axis: "stopping", Proposer: "builtin", Cycle: 1, Iteration: 2}),
		tried("h22aa810cc", 0.281, false, engine.Meta{Parents: []engine.HarnessID{idSeed}, Hypothesis: "A hint on the last turn makes the model answer.", Axis: "recovery", Proposer: "builtin", Cycle: 1, Iteration: 2})},
		Compared: []engine.Comparison{{Gain: 0.11, P: 0.031, Tasks: 64, Wins: 9, Losses: 2}, {P: 1, Tasks: 64}},
		Rejected: []engine.Rejection{{Harness: engine.Harness{ID: "h55a0be31a"}, Err: engine.LoadError{Line: 31, Column: 7, Rule: "type", Reason: "undefined: trim", Hint: "strings.TrimSpace"}}}})
	j.search(1, 3, true, "", engine.Search{Evaluated: []engine.Entry{
		tried("h9e10b4c77", 0.234, false, engine.Meta{Parents: []engine.HarnessID{idTurns}, Hypothesis: "Two passages a search show both hops at once.", Axis: "context", Proposer: "builtin", Cycle: 1, Iteration: 3})},
		Compared: []engine.Comparison{{Gain: -0.157, P: 0.99, Tasks: 64, Wins: 2, Losses: 12}}})
	steps(2)
	j.search(2, 1, false, "", engine.Search{Evaluated: []engine.Entry{tried(idTurns, 0.719, true, engine.Meta{})}})
	j.search(2, 2, true, idWhole, engine.Search{Evaluated: []engine.Entry{
		tried(idWhole, 0.844, true, engine.Meta{Parents: []engine.HarnessID{idTurns}, Hypothesis: "The fact asked for is often behind the cut at 16 words; keep whole passages, and answer a malformed reply with a nudge.", Axis: "context", Proposer: "builtin", Cycle: 2, Iteration: 2})},
		Compared: []engine.Comparison{{Gain: 0.125, P: 0.008, Tasks: 64, Wins: 10, Losses: 2}}})
	steps(3)
	tests := []float64{.164, .291, .402, .846, .893, .947}
	for _, split := range []engine.Split{engine.Select, engine.Test} {
		for i, mean := range tests {
			j.measure(i, split, mean)
		}
	}
	return j.records
}

// sampleRun is a made-up run with the shape of a real one.
func sampleRun() Run {
	p := &pieces{}
	records := sampleRecords()
	config := engine.Defaults()
	config.Domain, config.Cycles, config.Iterations = "lookup", 3, 3
	r := Run{
		Name: "lookup-1", Folder: "runs/lookup-1", Command: "whale run --domain lookup --seed 1 --out runs/lookup-1",
		Config: config, Records: records, Harnesses: sampleSources(), Decode: p.decode,
		Summary: engine.Summary{Domain: "lookup", Condition: "whale", Seed: 1, Cycles: 3, Model: "nano", Device: "cpu, 2 cores, AVX-512",
			Rollouts: engine.Spent{Weight: 4608, Harness: 384, Test: 9216},
			Tokens:   engine.SummaryTokens{Prompt: 681204, Cached: 402118, Sampled: 121480, Trained: 58211},
			Seconds:  engine.SummarySeconds{Total: 218.4, Rollout: 92.1, Sandbox: 3.2, Train: 104.7, Propose: 1.4, Verify: 0.3, Idle: 20.2},
			Coverage: 1, Unparsed: 0.021, WeightsID: "w7f0c2be914d8a35e", HarnessID: idWhole},
	}
	h := headsOf(CurveOf(records))
	r.Summary.Test.Start, r.Summary.Test.Best, r.Summary.Test.Final = h.start.Interval(), h.best.Interval(), h.final.Interval()
	baseline := made(0.391, 128, 8)
	r.Summary.BaselineSameTokens = baseline.Interval()
	s := &r.Summary
	s.Select.Start, s.Select.Best, s.Select.Final = engine.Interval{Mean: .203, Lo: .12, Hi: .31, N: 64}, engine.Interval{Mean: .961, Lo: .9, Hi: .99, N: 64}, engine.Interval{Mean: .961, Lo: .9, Hi: .99, N: 64}
	s.Gap.Start, s.Gap.Best, s.Gap.Final = engine.Interval{Mean: .039, Lo: -.066, Hi: .163, N: 64}, engine.Interval{Mean: .014, Lo: -.058, Hi: .063, N: 64}, engine.Interval{Mean: .014, Lo: -.058, Hi: .063, N: 64}
	s.LuckAccepts = .75
	r.Transcripts = sampleTranscripts(p)
	for _, o := range []struct {
		name  string
		means []float64
	}{{"weight-only", []float64{.164, .30, .34, .36, .372}}, {"harness-only", []float64{.164, .22, .33, .39}}} {
		var curve []engine.CurvePoint
		for i, mean := range o.means {
			score := made(mean, 128, 2)
			curve = append(curve, engine.CurvePoint{Point: engine.Point{Rollouts: 4992 * i / (len(o.means) - 1)}, Test: &score})
		}
		r.Others = append(r.Others, Other{o.name, curve})
	}
	return r
}

func sampleTranscripts(p *pieces) []Transcript {
	play := func(moment, input, tag string, reward float64, harness engine.HarnessID, turns ...string) Transcript {
		o := &engine.Trajectory{Harness: harness, Weights: "w7f0c2be914d8a35e", Outcome: engine.Scored, Cost: engine.Cost{Prompt: 188, Sampled: 31}}
		context := "<|im_start|>user\n" + input + "<|im_end|>\n<|im_start|>assistant\n"
		for i := 0; i < len(turns); i += 2 {
			c := &engine.Call{Handle: i/2 + 1, Prompt: p.encode(context), Sampled: p.encode(turns[i] + "<|im_end|>"), Text: turns[i], Stop: engine.StopEnd}
			for j := range c.Sampled {
				c.LogProbs = append(c.LogProbs, float32(-[]float64{0.01, 0.03, 0.3, 0.02, 1.4, 0.08, 5, 0.01}[(j*5+i)%8]))
			}
			o.Events = append(o.Events, engine.Event{Call: c})
			context += turns[i] + "<|im_end|>"
			if i+1 < len(turns) {
				o.Events = append(o.Events, engine.Event{Tool: &engine.ToolUse{Name: "search", Args: `{"query":"Gervan"}`, Result: turns[i+1]}})
				context += "\n<|im_start|>user\n<tool_response>\n" + turns[i+1] + "\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
			}
		}
		o.Verdict = engine.Verdict{Kind: engine.Different, Reward: reward, Answer: strings.TrimSuffix(strings.TrimPrefix(turns[len(turns)-1], "<answer>"), "</answer>")}
		return Transcript{Moment: moment, Task: engine.Task{Input: input, Tags: []string{tag}}, Trained: reward > 0.5, Rollout: o}
	}
	const gervan = "Gervan: Gervan was taught by Malpos. Gervan was born in Tirstol. Gervan works as a baker. Gervan is married to Posram."
	const tirstol = "Tirstol: Tirstol lies on the river Brulen. The mayor of Tirstol is Kandor. Tirstol is part of Skelno."
	return []Transcript{
		play("end", "Who is the mayor of the birthplace of Gervan?", "2-hop", 1, "h83be10c55f20a4d1", "<search>Gervan</search>", gervan, "<search>Tirstol</search>", tirstol, "<answer>Kandor</answer>"),
		play("end", "Which region is the birthplace of Gervan in?", "2-hop", 0, "h83be10c55f20a4d1", "<search>Gervan</search>", gervan, "<answer>Tirstol</answer>"),
		play("start", "Who is the spouse of Gervan?", "1-hop", 1, "h0d3c1a4f9b20e77", "<search>Gervan</search>", gervan, "<answer>Posram</answer>"),
		play("start", "Who is the mayor of the birthplace of Gervan?", "2-hop", 0, "h0d3c1a4f9b20e77", "<search>Gervan</search>", "Gervan: Gervan was taught by Malpos. Gervan was born in Tirstol. Gervan works as", "<answer>Tirstol</answer>"),
		play("start", "What is Tirstol known for?", "1-hop", 0, "h0d3c1a4f9b20e77", "<search>Tirs</search", "No results."),
	}
}
