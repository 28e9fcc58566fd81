package engine

import "testing"

// The first round of all is not counted, and of the others the half that took least for a
// rollout.
func TestFaster(t *testing.T) {
	all := []round{{rollouts: 8, seconds: .1}, {rollouts: 8, seconds: 3}, {rollouts: 4, seconds: 1}, {rollouts: 8, seconds: 1}, {rollouts: 8, seconds: 9}, {rollouts: 8, seconds: 4}}
	got := faster(all)
	if len(got) != 3 || got[0].seconds != 1 || got[0].rollouts != 8 || got[1].rollouts != 4 || got[2].seconds != 3 {
		t.Errorf("%+v", got)
	}
	if one := faster([]round{{rollouts: 2, seconds: 5}}); len(one) != 1 {
		t.Errorf("of a single round %+v", one)
	}
}
