package benchtest_test

import (
	"errors"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// The budget is that of the engine: a call of the model is a turn whatever its samples, and
// what comes beyond the last one is refused.
func TestPlay_budget(t *testing.T) {
	d := enginetest.Domain(4)
	turns, tools := 0, 0
	r, err := benchtest.Play(d, d.Train[1], func(s *kit.Session) error {
		for {
			if _, err := s.Tool("echo", "x"); err == nil {
				tools++
			} else if !errors.Is(err, kit.ErrBudget) {
				return err
			}
			if _, err := s.Generate([]kit.Message{{Role: "user", Content: "q"}}, kit.Options{Samples: 2}); err != nil {
				return err
			}
			turns++
		}
	}, func([]kit.Message) string { return "1" })
	if err != nil || !errors.Is(r.Err, kit.ErrBudget) {
		t.Fatalf("%v, the harness ended with %v", err, r.Err)
	}
	if turns != d.Budget.Turns || tools != d.Budget.Tools || len(r.Trajectory.Calls()) != 2*turns || len(r.Trajectory.Tools()) != tools {
		t.Errorf("%d turns, %d uses of tools, budget %+v", turns, tools, d.Budget)
	}
}
