package ledger

import (
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"github.com/seed-7c27e6b8/whale/engine"
)

// WritePprof writes profiles for `go tool pprof`. A stack is run / cycle / phase / unit /
// what happened there: the device at work or, under idle, why it was not. The values are
// nanoseconds by the clock, tokens, nanoseconds of work, which is added over rollouts and
// so may be more than the clock's, and millijoules where they could be read.
func WritePprof(w io.Writer, runs []Profile) error {
	b := builder{functions: map[string]*profile.Location{}}
	b.out.SampleType = []*profile.ValueType{{Type: "seconds", Unit: "nanoseconds"}, {Type: "tokens", Unit: "count"}, {Type: "work", Unit: "nanoseconds"},
		{Type: "energy", Unit: "millijoules"}}
	b.out.DefaultSampleType = "seconds"
	for _, run := range runs {
		for _, l := range run.Lines {
			b.line(run.Name, l)
		}
	}
	if err := b.out.CheckValid(); err != nil {
		return err
	}
	return b.out.Write(w)
}

type builder struct {
	out       profile.Profile
	functions map[string]*profile.Location
}

func (b *builder) line(run string, l Line) {
	stack := []*profile.Location{b.at(run)}
	if l.Cycle > 0 {
		stack = append(stack, b.at(fmt.Sprintf("cycle %d", l.Cycle)))
	}
	stack = append(stack, b.at(phaseOf(l.Kind)), b.at(unitOf(l)))
	t := Total{Spending: l.Spending}
	device := append(stack[:len(stack):len(stack)], b.at("device"))
	b.sample(device, "generate", value{clock: nanoseconds(t.generating())})
	b.sample(device, "learn", value{clock: nanoseconds(l.Spending.Cost.LearnSeconds)})
	idle := append(stack[:len(stack):len(stack)], b.at("idle"))
	for _, cause := range t.Idle() {
		b.sample(idle, "for "+cause.Name, value{clock: nanoseconds(cause.Seconds)})
	}
	if taken := l.Spending.Energy.Total(); taken != nil {
		b.sample(stack, "energy", value{energy: int64(*taken * 1e3)})
	}
	rollouts := append(stack[:len(stack):len(stack)], b.at("rollouts"))
	k, c := t.Kinds(), l.Spending.Cost
	b.sample(rollouts, "prefill", value{tokens: k.Prefill})
	b.sample(rollouts, "cached", value{tokens: k.Cached})
	b.sample(rollouts, "decode", value{tokens: k.Sampled})
	b.sample(stack, "train", value{tokens: k.Trained})
	b.sample(rollouts, "policy", value{work: nanoseconds(c.PolicySeconds)})
	b.sample(rollouts, "sandbox", value{work: nanoseconds(c.SandboxSeconds)})
	b.sample(rollouts, "tools", value{work: nanoseconds(c.ToolSeconds)})
	b.sample(rollouts, "verify", value{work: nanoseconds(c.VerifySeconds)})
}

// value is what one sample counts.
type value struct {
	clock, work int64 // nanoseconds
	tokens      int
	energy      int64 // millijoules
}

func (b *builder) sample(stack []*profile.Location, leaf string, v value) {
	if v == (value{}) {
		return
	}
	s := &profile.Sample{Value: []int64{v.clock, int64(v.tokens), v.work, v.energy}, Location: []*profile.Location{b.at(leaf)}}
	for i := len(stack) - 1; i >= 0; i-- { // leaf first
		s.Location = append(s.Location, stack[i])
	}
	b.out.Sample = append(b.out.Sample, s)
}

// at is the place of a name, the same one for the same name.
func (b *builder) at(name string) *profile.Location {
	if l := b.functions[name]; l != nil {
		return l
	}
	f := &profile.Function{ID: uint64(len(b.out.Function) + 1), Name: name, SystemName: name}
	l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
	b.out.Function, b.out.Location = append(b.out.Function, f), append(b.out.Location, l)
	b.functions[name] = l
	return l
}

func nanoseconds(s float64) int64 { return int64(s * 1e9) }

func phaseOf(k engine.RecordKind) string {
	switch k {
	case engine.StepRecord:
		return "weight phase"
	case engine.SearchRecord:
		return "harness phase"
	case engine.MeasureRecord:
		return "measuring"
	}
	return string(k)
}

func unitOf(l Line) string {
	switch l.Kind {
	case engine.StepRecord:
		return fmt.Sprintf("step %d", l.Index)
	case engine.SearchRecord:
		return fmt.Sprintf("iteration %d", l.Index)
	}
	return fmt.Sprintf("record %d", l.Seq)
}
