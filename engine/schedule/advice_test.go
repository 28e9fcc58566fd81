package schedule

import (
	"testing"

	"github.com/seed-7c27e6b8/whale/engine/schedule/sensor"
)

// fill admits rollouts until one has to wait and says how many came in.
func fill(t *testing.T, a *Admission) (in int, leave func()) {
	t.Helper()
	var releases []func()
	for range 200 {
		a.mu.Lock()
		w := &waiter{tokens: 10, ready: make(chan struct{})}
		a.waiting = append(a.waiting, w)
		a.admit()
		a.mu.Unlock()
		releases = append(releases, func() { a.leave(w) })
		select {
		case <-w.ready:
			in++
			continue
		default:
		}
		break
	}
	return in, func() {
		for _, release := range releases {
			release()
		}
	}
}

func TestAdvise(t *testing.T) {
	for _, c := range []struct {
		limits  Limits
		trouble Trouble
		least   int // after much of it
	}{
		{Limits{Rollouts: 64}, Quiet, 64}, {Limits{Rollouts: 64}, PowerCap, 48}, {Limits{Rollouts: 64}, Heat, 16},
		{Limits{Rollouts: 64}, Memory, 8}, {Limits{Rollouts: 2}, Memory, 1}, {Limits{Tokens: 640}, Memory, 8},
		{Limits{Rollouts: 64, Tokens: 320}, Heat, 8},
	} {
		a := New(c.limits)
		before, leave := fill(t, a)
		leave()
		for range 30 {
			a.Advise(c.trouble)
		}
		in, leave := fill(t, a)
		leave()
		if in != c.least {
			t.Errorf("%+v under %v: %d in flight, want %d", c.limits, c.trouble, in, c.least)
		}
		for range 30 {
			a.Advise(Quiet)
		}
		in, leave = fill(t, a)
		leave()
		if in != before {
			t.Errorf("%+v after %v: %d in flight, want %d", c.limits, c.trouble, in, before)
		}
		if s := a.Standing(); s.Rollouts != 0 || s.Waiting != 0 || s.Share != 1 {
			t.Errorf("%+v", s)
		}
	}
}

// Trouble takes a quarter at once, quiet gives a sixteenth of all back with each sample.
func TestAdvise_pace(t *testing.T) {
	a := New(Limits{Rollouts: 64})
	for _, step := range []struct {
		trouble Trouble
		share   float64
	}{{Memory, .75}, {Memory, .5625}, {Quiet, .625}, {Quiet, .6875}, {Heat, .515625}, {PowerCap, .515625}} {
		a.Advise(step.trouble)
		if got := a.Standing().Share; got != step.share {
			t.Errorf("after %v: %v, want %v", step.trouble, got, step.share)
		}
	}
}

// Without limits, trouble counts from what was in flight when it came.
func TestAdvise_noLimits(t *testing.T) {
	a := New(Limits{})
	releases := make([]func(), 40)
	for i := range releases {
		var err error
		if releases[i], err = a.Admit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	for range 30 {
		a.Advise(Heat)
	}
	for _, release := range releases {
		release()
	}
	if in, _ := fill(t, a); in != 10 {
		t.Errorf("%d in flight, want a quarter of 40", in)
	}
}

// Quiet samples let waiters in, not only rollouts that leave.
func TestAdvise_wakesWaiters(t *testing.T) {
	a := New(Limits{Rollouts: 8})
	for range 9 {
		a.Advise(Memory)
	}
	in, _ := fill(t, a)
	if s := a.Standing(); in != 1 || s.Waiting != 1 {
		t.Fatalf("%d in, %+v", in, s)
	}
	for range 3 {
		a.Advise(Quiet)
	}
	if s := a.Standing(); s.Rollouts != 2 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

type fixedLoad Load

func (l fixedLoad) Load() Load { return Load(l) }

func TestAdmit_queue(t *testing.T) {
	for name, c := range map[string]struct {
		load Load
		in   int
	}{
		"room":               {Load{Running: 10, Waiting: 3, Used: 100, Room: 1000}, 8},
		"full":               {Load{Running: 10, Waiting: 3, Used: 990, Room: 1000}, 1},
		"full, no one waits": {Load{Running: 10, Used: 990, Room: 1000}, 8},
		"grows":              {Load{Running: 10, Waiting: 3, Used: 990}, 8},
	} {
		if in, _ := fill(t, NewQueued(Limits{Rollouts: 8}, fixedLoad(c.load))); in != c.in {
			t.Errorf("%s: %d in flight, want %d", name, in, c.in)
		}
	}
}

func TestJudge(t *testing.T) {
	v := func(x float64) sensor.Reading { return sensor.Value(x, 0, 1e15) }
	card := func(used, others float64, throttle int) sensor.Card {
		return sensor.Card{MemoryTotal: v(100), MemoryUsed: v(used), Others: v(others), Throttle: v(float64(throttle))}
	}
	unknown := card(98, 0, 0)
	unknown.Others = sensor.Missing("not in the list")
	for name, c := range map[string]struct {
		sample sensor.Sample
		own    float64
		want   Trouble
	}{
		"nothing known":        {sensor.Sample{}, 0, Quiet},
		"all is well":          {sensor.Sample{Cards: []sensor.Card{card(50, 0, 0)}}, 50, Quiet},
		"full by ourselves":    {sensor.Sample{Cards: []sensor.Card{card(98, 1, 0)}}, 97, Quiet},
		"full by others":       {sensor.Sample{Cards: []sensor.Card{card(50, 0, 0), card(98, 30, 0)}}, 68, Memory},
		"full, by whom":        {sensor.Sample{Cards: []sensor.Card{unknown}}, 0, Quiet},
		"full, nearly all own": {sensor.Sample{Cards: []sensor.Card{unknown}}, 97, Quiet},
		"full, less own":       {sensor.Sample{Cards: []sensor.Card{unknown}}, 60, Memory},
		"garbage":              {sensor.Sample{Cards: []sensor.Card{{MemoryTotal: v(100), MemoryUsed: sensor.Broken("x"), Throttle: sensor.Broken("x")}}}, 0, Quiet},
		"hot":                  {sensor.Sample{Cards: []sensor.Card{card(50, 0, sensor.ThrottleHeat|sensor.ThrottleCap)}}, 0, Heat},
		"brake":                {sensor.Sample{Cards: []sensor.Card{card(50, 0, sensor.ThrottleBrake)}}, 0, Heat},
		"at its power limit":   {sensor.Sample{Cards: []sensor.Card{card(50, 0, sensor.ThrottleCap)}}, 0, PowerCap},
		"the host is full":     {sensor.Sample{Host: sensor.Host{MemoryTotal: v(100), MemoryFree: v(3)}}, 0, Memory},
		"the host has enough":  {sensor.Sample{Host: sensor.Host{MemoryTotal: v(100), MemoryFree: v(5)}}, 0, Quiet},
		"the host stalls":      {sensor.Sample{Host: sensor.Host{MemoryTotal: v(100), MemoryFree: v(50), Stalled: v(.3)}}, 0, Memory},
	} {
		if got := Judge(c.sample, c.own); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
