package engine

import (
	"reflect"
	"testing"
)

// fill sets every number in a struct to another one, from n on, and returns the next.
func fill(v reflect.Value, n int) int {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			n = fill(f, n)
		case reflect.Int:
			f.SetInt(int64(n))
			n++
		case reflect.Float64:
			f.SetFloat(float64(n))
			n++
		default:
			panic("no number: " + f.Kind().String())
		}
	}
	return n
}

// numbers are all numbers of a struct in order, by their names.
func numbers(v reflect.Value, path string) (names []string, values []float64) {
	for i := range v.NumField() {
		name := path + v.Type().Field(i).Name
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			n, x := numbers(f, name+".")
			names, values = append(names, n...), append(values, x...)
		case reflect.Int:
			names, values = append(names, name), append(values, float64(f.Int()))
		case reflect.Float64:
			names, values = append(names, name), append(values, f.Float())
		}
	}
	return names, values
}

// sums checks that a method adds (or with -1 takes away) every number of a struct.
func sums[T any](t *testing.T, do func(a, b T) T, sign float64) {
	t.Helper()
	var a, b T
	fill(reflect.ValueOf(&a).Elem(), 1000)
	fill(reflect.ValueOf(&b).Elem(), 7)
	got := do(a, b)
	names, x := numbers(reflect.ValueOf(a), reflect.TypeFor[T]().Name()+".")
	_, y := numbers(reflect.ValueOf(b), "")
	_, z := numbers(reflect.ValueOf(got), "")
	for i, name := range names {
		if want := x[i] + sign*y[i]; z[i] != want {
			t.Errorf("%s is %v, want %v", name, z[i], want)
		}
	}
}

// No cost is lost in a sum: whoever adds a field to one of these has to add it up too.
func TestSums(t *testing.T) {
	sums(t, Cost.Add, 1)
	sums(t, Spending.Add, 1)
	sums(t, Idle.Add, 1)
	sums(t, Energy.Add, 1)
	sums(t, Energy.Minus, -1)
	sums(t, ProposalCost.Add, 1)
	sums(t, ProposalCost.Minus, -1)
}

// A proposer sees the worst failures and the best successes, otherwise in the order of tasks.
func TestContrast(t *testing.T) {
	_, ts := graded(7, 1, func(task, _ int) float64 { return []float64{.5, .9, 0, 1, .2, 0, .9}[task] })
	ts[6].Outcome = Infra
	failures, successes := contrast(ts)
	want := [][]*Trajectory{{ts[2], ts[5], ts[4], ts[0]}, {ts[3], ts[1]}}
	if got := [][]*Trajectory{failures, successes}; !reflect.DeepEqual(got, want) {
		t.Errorf("failures %v, successes %v", failures, successes)
	}
	_, many := graded(99, 1, func(task, _ int) float64 { return float64(task % 2) })
	if failures, successes = contrast(many); len(failures) != shownFailures || len(successes) != shownSuccesses {
		t.Errorf("%d failures, %d successes", len(failures), len(successes))
	}
}

// What is idle is in none of the stages by the clock; work that overlaps takes nothing off.
func TestSpending_seconds(t *testing.T) {
	s := Spending{Wall: 10, Rollouts: 4, Cost: Cost{TrainSeconds: 2, ProposeSeconds: 1, SandboxSeconds: 9, VerifySeconds: 3}}
	if got, want := s.Seconds(), (SummarySeconds{Total: 10, Rollout: 4, Train: 2, Propose: 1, Sandbox: 9, Verify: 3, Idle: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if s.Wall = 6; s.Seconds().Idle != 0 {
		t.Errorf("idle %v", s.Seconds().Idle)
	}
}
