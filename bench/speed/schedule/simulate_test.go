package schedule

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/engine/ledger"
	admission "github.com/seed-7c27e6b8/whale/engine/schedule"
)

// Times of the default run outside of the device: harness code between two calls, a tool,
// a proposal.
const (
	guestTime   = 150 * time.Microsecond
	toolTime    = 5 * time.Microsecond
	proposeTime = 70 * time.Millisecond
)

// shape is how a rollout goes about its tokens: calls of a rollout, each so many times as
// long as recorded.
type shape struct{ turns, scale int }

// Both write as much. The default run has seven short calls a rollout; a single long one is
// what reasoning looks like, and hit by stragglers much harder.
var shapes = []shape{{7, 1}, {1, 7}}

// sandbox runs one harness whatever the source: turns of a call and a tool.
type sandbox struct{ turns int }

func (b sandbox) Load(context.Context, engine.Harness) (engine.Program, error) {
	return enginetest.Func(func(ctx context.Context, s engine.Start, host engine.Host) error {
		for range b.turns {
			time.Sleep(guestTime)
			if _, err := host.Generate(ctx, []engine.Message{{Role: "user", Content: s.Input}}, engine.GenerateOptions{}); err != nil {
				return err
			}
			time.Sleep(toolTime)
		}
		return nil
	}), nil
}

// proposer takes its time and writes something new.
type proposer struct {
	n      int
	device *device
}

func (p *proposer) Propose(_ context.Context, b engine.Brief) ([]engine.Harness, error) {
	p.device.unit()
	p.device.least += proposeTime
	time.Sleep(proposeTime)
	var out []engine.Harness
	for range b.Slots {
		p.n++
		out = append(out, engine.NewHarness(fmt.Sprintf("hint=%d turns=1", p.n), engine.Meta{}))
	}
	return out, nil
}

// outcome is a simulated run of two cycles with the default sizes, measuring left out.
type outcome struct {
	cycle    float64 // seconds
	least    float64 // of them, on any schedule with the same results
	playing  float64 // of these, with rollouts in flight
	idle     float64 // share of the cycle
	drain    float64 // share of the cycle, after the last admission of a unit
	by       string  // the largest cause
	journal  string
	rollouts int
}

func simulate(t *testing.T, c card, s shape, every int, limits admission.Limits) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(c, s.scale, every)
		defer d.close()
		config := engine.Defaults()
		config.Domain, config.Cycles, config.CurveSamples = "squares", 2, 0
		domain := enginetest.Domain(256)
		domain.Test, domain.Select = nil, domain.Select[:64]
		domain.Budget = engine.Budget{Tokens: 1000, CallTokens: 100, Turns: s.turns, Tools: s.turns, LogBytes: 100}
		store := enginetest.NewStore(t.TempDir())
		if _, err := engine.Run(t.Context(), config, engine.Parts{Domain: domain, Sandbox: sandbox{s.turns}, Policy: d, Learner: d,
			Proposer: &proposer{device: d}, Store: store, Admission: admission.New(limits)}); err != nil {
			t.Fatal(err)
		}
		d.unit()
		p := ledger.NewProfile("", store.Records())
		wall := p.Phases.Spending.Wall
		o = outcome{cycle: wall / 2, least: d.least.Seconds() / 2, playing: p.Phases.Spending.Rollouts / 2, idle: 1 - p.Phases.Device()/wall,
			drain: p.Phases.Spending.Drain / wall, rollouts: p.Phases.Rollouts}
		worst := 0.0
		for _, cause := range p.Phases.Idle() {
			if cause.Seconds > worst {
				worst, o.by = cause.Seconds, cause.Name
			}
		}
		state := engine.Fold(store.Records())
		o.journal = fmt.Sprint(state.Weights, state.Harness, state.Spent)
	})
	return o
}

// With one call in a hundred twenty times as long as the others, the device stands still
// for less than 5 % of a cycle, and a cycle takes less than 1.3 times the one without. Where
// a rollout is one long call on a card whose steps hardly depend on the batch, no schedule can
// do that, for a step of the weight phase waits for its last rollout, and that one alone takes
// longer than all the others: then the cycle is within 15 % of the least that any schedule
// with the same results takes.
func TestStragglers(t *testing.T) {
	t.Logf("%-4s %5s %9s | %8s %8s %6s | %8s %8s %6s %6s | %5s %5s %5s | %s", "card", "turns", "in flight", "cycle, s", "playing", "idle", "cycle, s", "playing", "idle", "drain", "ratio", "plays", "least", "most idle by")
	for _, c := range cards {
		for _, s := range shapes {
			var want string
			for _, limit := range []int{16, 64, 256} {
				free, hit := simulate(t, c, s, 0, admission.Limits{Rollouts: limit}), simulate(t, c, s, 100, admission.Limits{Rollouts: limit})
				ratio := hit.cycle / free.cycle
				t.Logf("%-4s %5d %9d | %8.1f %8.1f %6.3f | %8.1f %8.1f %6.3f %6.3f | %5.2f %5.2f %5.2f | %s", c.name, s.turns, limit, free.cycle, free.playing, free.idle,
					hit.cycle, hit.playing, hit.idle, hit.drain, ratio, hit.playing/free.playing, hit.least/free.cycle, hit.by)
				possible := hit.least/free.cycle < 1.3
				if limit == 64 && (hit.idle >= .05 || possible && ratio >= 1.3 || !possible && hit.cycle > 1.15*hit.least) {
					t.Errorf("%s, %d turns, %d in flight: idle %.3f, cycle %.2f times the one without stragglers, %.2f times the least", c.name, s.turns, limit, hit.idle, ratio, hit.cycle/hit.least)
				}
				if free.cycle < free.least || hit.cycle < hit.least {
					t.Errorf("%s, %d turns, %d in flight: less than the least", c.name, s.turns, limit)
				}
				if want == "" {
					want = free.journal
				}
				if free.journal != want || hit.journal != want {
					t.Errorf("%s, %d in flight: results depend on the schedule", c.name, limit)
				}
			}
		}
	}
}
