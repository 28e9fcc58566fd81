package ledger

import (
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"github.com/seed-7c27e6b8/whale/engine"
)

// WritePprof writes profiles for `go tool pprof`. A stack is run / cycle / phase / unit /
// stage; the values are nanoseconds by the clock, tokens, and nanoseconds of work, which
// is added over rollouts and so may be more than the clock's.
func WritePprof(w io.Writer, runs []Profile) error {
	b := builder{functions: map[string]*profile.Location{}}
	b.out.SampleType = []*profile.ValueType{{Type: "seconds", Unit: "nanoseconds"}, {Type: "tokens", Unit: "count"}, {Type: "work", Unit: "nanoseconds"}}
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
	for _, s := range t.Stages() {
		b.sample(stack, s.Name, nanoseconds(s.Seconds), 0, 0)
	}
	rollouts := append(stack[:len(stack):len(stack)], b.at("rollouts"))
	k, c := t.Kinds(), l.Spending.Cost
	b.sample(rollouts, "prefill", 0, k.Prefill, 0)
	b.sample(rollouts, "cached", 0, k.Cached, 0)
	b.sample(rollouts, "decode", 0, k.Sampled, 0)
	b.sample(stack, "train", 0, k.Trained, 0)
	b.sample(rollouts, "policy", 0, 0, nanoseconds(c.PolicySeconds))
	b.sample(rollouts, "sandbox", 0, 0, nanoseconds(c.SandboxSeconds))
	b.sample(rollouts, "tools", 0, 0, nanoseconds(c.ToolSeconds))
	b.sample(rollouts, "verify", 0, 0, nanoseconds(c.VerifySeconds))
}

func (b *builder) sample(stack []*profile.Location, leaf string, clock int64, tokens int, work int64) {
	if clock == 0 && tokens == 0 && work == 0 {
		return
	}
	s := &profile.Sample{Value: []int64{clock, int64(tokens), work}, Location: []*profile.Location{b.at(leaf)}}
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
