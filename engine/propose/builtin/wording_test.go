package builtin

import (
	"context"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Ensure that a search over prompts fills all slots, for 5 cycles of 5 proposing iterations
// in lookup and for one in every domain: nothing twice, nothing refused, nothing but texts.
func TestPropose_PromptsOnlyNeverRunsDry(t *testing.T) {
	for domain, cycles := range map[string]int{"lookup": 5, "sums": 1, "chess": 1, "math": 1, "searchqa": 1, "own": 1} {
		c := seed(t, domain)
		b := briefOf(t, domain, c)
		b.PromptsOnly, b.Entries, b.Incumbent = true, nil, ""
		first := engine.NewHarness(c.text, engine.Meta{Proposer: "seed"})
		b.Entries, b.Incumbent = []engine.Entry{{Harness: first, Accepted: true}}, first.ID
		seen := map[engine.HarnessID]bool{first.ID: true}
		for b.Cycle = 1; b.Cycle <= cycles; b.Cycle++ {
			for b.Iteration = 2; b.Iteration <= 6; b.Iteration++ {
				b.Slots, b.Seed = 3, uint64(b.Cycle*100+b.Iteration)
				made, err := Proposer{}.Propose(context.Background(), b)
				if err != nil || len(made) != 3 {
					t.Fatalf("%s %d.%d: %d candidates, %v", domain, b.Cycle, b.Iteration, len(made), err)
				}
				for _, h := range made {
					if refused := engine.PromptsOnly(c.text, h.Source); refused != nil || seen[h.ID] || h.Meta.Hypothesis == "" || len(h.Meta.Edits) == 0 {
						t.Fatalf("%s: %v, %+v", domain, refused, h.Meta)
					}
					seen[h.ID] = true
					hash := fnv.New32a()
					hash.Write([]byte(h.ID))
					mean := float64(hash.Sum32()%100) / 100
					b.Entries = append(b.Entries, engine.Entry{Harness: h, Score: engine.Score{Mean: mean}})
					if mean > .9 {
						b.Incumbent = h.ID
					}
				}
			}
		}
	}
}

// Ensure that instructions keep what the task says, and that other runs see none of this.
func TestWording(t *testing.T) {
	c := seed(t, "chess")
	d := &diagnosis{skill: skillOf(t, "chess"), promptsOnly: true}
	n := 0
	for _, m := range (wordingOperator{}).moves(c, d) {
		if !strings.HasPrefix(m.name, "text (taskText)") {
			continue
		}
		n++
		if !strings.Contains(m.step, `-> "Find the mate.`) {
			t.Errorf("%s loses the task", m.step)
		}
	}
	if n == 0 {
		t.Error("no rewording of taskText")
	}
	if got := (wordingOperator{}).moves(c, &diagnosis{skill: d.skill}); len(got) != 0 {
		t.Errorf("%d rewordings where code may change", len(got))
	}
	if got := sentences("One. Two two!  Three? v1.5 is no end"); !slices.Equal(got, []string{"One.", "Two two!", "Three?", "v1.5 is no end"}) {
		t.Errorf("%q", got)
	}
}
