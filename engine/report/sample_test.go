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

// sampleRun is a made-up run with the shape of a real one: three cycles of lookup.
func sampleRun() Run {
	p := &pieces{}
	baseline := made(0.391, 128, 8)
	r := Run{
		Name: "lookup-1", Folder: "runs/lookup-1", Command: "whale run --domain lookup --seed 1 --out runs/lookup-1",
		Seed: "h0d3c1a4f9b20e77", Decode: p.decode,
		Summary: Summary{Domain: "lookup", Condition: "whale", Seed: 1, Cycles: 3, Model: "nano", Device: "cpu, 2 cores, AVX-512",
			Test:     Tests{Start: made(0.164, 128, 8), Best: made(0.951, 128, 8), Final: made(0.947, 128, 8)},
			Baseline: &baseline, Rollouts: Rollouts{4608, 3072, 4096},
			Tokens:   Tokens{Prompt: 681204, Cached: 402118, Sampled: 121480, Trained: 58211},
			Seconds:  Seconds{Total: 218.4, Rollout: 92.1, Sandbox: 3.2, Train: 104.7, Propose: 1.4, Verify: 0.3, Idle: 6.1},
			Coverage: 1, Unparsed: 0.021, WeightsID: "w7f0c2be914d8a35e", HarnessID: "h83be10c55f20a4d1"},
		Settings: []Setting{{"phases", "E = 6 steps, I = 3 iterations"}, {"rollouts", "32 prompts × 8 a step, 64 select tasks × 3 candidates"},
			{"optimizer", "AdamW, rate 5e-4, clip 1.0, mini-batch 64"}, {"sampling", "temperature 1, top-p 1, top-k off"}},
	}
	accepts := [][]float64{{.17, .21, .26, .27, .31, .30}, {.47, .58, .71, .80, .83, .86}, {.90, .92, .93, .95, .94, .96}}
	tests := []float64{.164, .291, .402, .846, .893, .951, .947}
	harnesses := []engine.HarnessID{"h1c93f0a277be0411", "h83be10c55f20a4d1", ""}
	spent := 0
	r.Points = append(r.Points, Point{0, 0, made(tests[0], 128, 8), r.Seed, "w0"})
	for cycle := 1; cycle <= 3; cycle++ {
		from := spent
		for i, a := range accepts[cycle-1] {
			spent += 256
			r.Steps = append(r.Steps, Step{spent, a, 1.1 - a + float64(i)*0.01})
		}
		r.Spans = append(r.Spans, Span{Kind: WeightPhase, Cycle: cycle, From: from, To: spent, Units: 6, First: accepts[cycle-1][0], Last: accepts[cycle-1][5],
			Cost: engine.Cost{Prompt: 91000 * cycle, Cached: 52000 * cycle, Sampled: 18400 + 900*cycle, Trained: 9000 * cycle, Seconds: 31.2 + 9*float64(cycle), PolicySeconds: 240, SandboxSeconds: 0.61, ToolSeconds: 0.2, TrainSeconds: 18.4 + 6*float64(cycle)}})
		r.Points = append(r.Points, Point{spent, cycle, made(tests[2*cycle-1], 128, 8), r.Seed, "w1"})
		from, spent = spent, spent+1024
		r.Spans = append(r.Spans, Span{Kind: HarnessPhase, Cycle: cycle, From: from, To: spent, Units: 3, First: tests[2*cycle-1], Last: tests[2*cycle], Accepted: harnesses[cycle-1],
			Cost: engine.Cost{Prompt: 60400 * cycle, Cached: 41000 * cycle, Sampled: 12200, Seconds: 14.9, PolicySeconds: 101, SandboxSeconds: 0.43, ToolSeconds: 0.1, ProposeSeconds: 0.5}})
		r.Points = append(r.Points, Point{spent, cycle, made(tests[2*cycle], 128, 8), harnesses[cycle-1], "w1"})
	}
	r.Entries = sampleEntries(r.Seed, harnesses)
	r.Rejected = []engine.Rejection{{Harness: engine.Harness{ID: "h55a0"}, Err: engine.LoadError{Line: 31, Column: 7, Rule: "type", Reason: "undefined: trim", Hint: "strings.TrimSpace"}}}
	r.Transcripts = sampleTranscripts(p)
	return r
}

func sampleEntries(seed engine.HarnessID, accepted []engine.HarnessID) []engine.Entry {
	longer := strings.Replace(seedSource, "turns = 2  // replies", "turns = 6  // replies", 1)
	whole := strings.Replace(longer, "words = 16 //", "words = 99 //", 1)
	whole = strings.Replace(whole, "\t\tif !ok {\n\t\t\treturn nil\n\t\t}\n\t\tpassages", "\t\tif !ok && strings.Contains(reply.Text, \"<answer>\") {\n\t\t\treturn nil\n\t\t}\n\t\tif !ok {\n\t\t\tmessages = append(messages, kit.Said(reply), kit.User(\"Reply with <search> or <answer>.\"))\n\t\t\tcontinue\n\t\t}\n\t\tpassages", 1)
	entry := func(id engine.HarnessID, source string, taken bool, mean float64, m engine.Meta) engine.Entry {
		return engine.Entry{Harness: engine.Harness{ID: id, Source: source, Meta: m}, Score: made(mean, 64, 1), Accepted: taken}
	}
	return []engine.Entry{
		entry(seed, seedSource, true, 0.281, engine.Meta{}),
		entry(accepted[0], longer, true, 0.391, engine.Meta{Parents: []engine.HarnessID{seed}, Hypothesis: "Most failures stop after one search: with six turns a two-hop question can be followed to its end.", Axis: "stopping", Proposer: "builtin", Cycle: 1, Iteration: 2}),
		entry("h22aa", longer+"\n", false, 0.281, engine.Meta{Parents: []engine.HarnessID{seed}, Hypothesis: "A hint on the last turn makes the model answer.", Axis: "recovery", Proposer: "builtin", Cycle: 1, Iteration: 2}),
		entry("h9e10", longer, false, 0.234, engine.Meta{Parents: []engine.HarnessID{seed}, Hypothesis: "Two passages a search show both hops at once.", Axis: "context", Proposer: "builtin", Cycle: 1, Iteration: 3}),
		entry(accepted[1], whole, true, 0.844, engine.Meta{Parents: []engine.HarnessID{accepted[0]}, Hypothesis: "The fact asked for is often behind the cut at 16 words; keep whole passages, and answer a malformed reply with a nudge.", Axis: "context", Proposer: "builtin", Cycle: 2, Iteration: 2}),
	}
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
		return Transcript{Moment: moment, Input: input, Tags: []string{tag}, Trained: reward > 0.5, Rollout: o}
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
