package schedule_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/engine/schedule"
)

// moody is a queue that is full at every other look.
type moody struct {
	mu    sync.Mutex
	looks int
}

func (m *moody) Load() schedule.Load {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	return schedule.Load{Waiting: 1, Used: 100 * (m.looks % 2), Room: 100}
}

// A run is the same run whatever admission and advice make of it.
func TestAdmission_changesNoResult(t *testing.T) {
	journal := func(a *schedule.Admission) string {
		t.Helper()
		parts := enginetest.Parts(enginetest.NewStore(t.TempDir()))
		parts.Admission = a
		if _, err := engine.Run(t.Context(), enginetest.Config(), parts); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(parts.Store.Records())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	want := journal(schedule.New(schedule.Limits{}))
	troubled := schedule.NewQueued(schedule.Limits{Rollouts: 8, Tokens: 300}, &moody{})
	stop := make(chan struct{})
	var advisor sync.WaitGroup
	advisor.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				troubled.Advise(schedule.Trouble(i * i % 4))
			}
		}
	})
	got := journal(troubled)
	close(stop)
	advisor.Wait()
	if got != want {
		t.Error("the journals differ")
	}
}
