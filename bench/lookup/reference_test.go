package lookup_test

import (
	"testing"

	"github.com/seed-7c27e6b8/whale/bench/lookup"
	"github.com/seed-7c27e6b8/whale/engine"
)

// Every task has a reference, and it is what the verifier takes for right.
func TestReferences(t *testing.T) {
	d, err := lookup.New(1, lookup.Options{})
	if err != nil {
		t.Fatal(err)
	}
	keeper := d.World.(engine.Keeper)
	for _, split := range []engine.Split{engine.Train, engine.Select, engine.Test} {
		for _, task := range d.Tasks(split) {
			r := keeper.References(task)
			if len(r) != 1 {
				t.Fatalf("%s has references %q", task.ID, r)
			}
			call := &engine.Call{Handle: 1, Text: "<answer>" + r[0] + "</answer>"}
			v, err := d.World.Verify(task, &engine.Trajectory{Outcome: engine.Scored, Events: []engine.Event{{Call: call}}})
			if err != nil || v.Kind != engine.Equal {
				t.Fatalf("%s: %q is %s, %v", task.ID, r, v.Kind, err)
			}
		}
	}
}
