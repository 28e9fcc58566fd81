package engine

import (
	"fmt"
	"testing"
)

// keeper is a World that knows reference answers by task.
type keeper struct {
	World
	answers map[TaskID][]string
}

func (k keeper) References(t Task) []string { return k.answers[t.ID] }

func mentionDomain() *Domain {
	d := &Domain{Name: "d", Names: []string{"HotpotQA", "natural questions"},
		Seed:  "package harness\n\nconst hint = \"Ask about Gervan first.\"\n",
		Skill: "hotpotqa: say Paris, not Paris, France. `Where was Gervan born?`",
		Train: []Task{{ID: "t0123abc", Input: "Where was Gervan born?"}, {ID: "t4", Input: "Who is the mayor of the birthplace of Oldo?"}},
		Test:  []Task{{ID: "t-99", Input: "7+5"}},
		World: keeper{answers: map[TaskID][]string{"t0123abc": {"Kelmo", "Paris", "yes"}, "t4": {"the red House", "green", "12"}, "t-99": {"Zorba Lo"}}},
	}
	for i := range 2 * fewAnswers { // so many that they are no labels
		id := TaskID(fmt.Sprint("more", i))
		d.Train = append(d.Train, Task{ID: id})
		d.World.(keeper).answers[id] = []string{fmt.Sprint("Filler", i)}
	}
	return d
}

func TestTaboo(t *testing.T) {
	taboo := newTaboo(mentionDomain())
	for i, c := range []struct {
		line string
		want int // line; 0 = fine
	}{
		{`const a = "Say it in a few words."`, 0},
		{`const a = "Think of Kelmo."`, 3},
		{`const a = "Think of " + ("Kel" + "mo.")`, 3},
		{"const a = `x\nin the Red house, there`", 3},
		{`const a = "green"`, 3},
		{`const a = "a green light"`, 0},
		{`const a = "kelmo is lower case and a word by chance"`, 0},
		{`const a = "Paris, like Gervan"`, 0},
		{`const a = "yes" + "12"`, 0},
		{`const n = 12 // as for Kelmo`, 3},
		{`const a = "who is the mayor of the birthplace of Oldo"`, 3},
		{`const a = "Where was Gervan born?"`, 0},
		{`const t0123abc = 1`, 3},
		{`// t-99`, 3},
		{`const hotpotQA = 1`, 3},
		{`const a = "as in Natural Questions"`, 3},
		{`const a = "Zorba" + "x" + "Lo"`, 0},
		{`const a = "Zorba lo"`, 3},
		{`const a = "broken`, 0},
	} {
		got := 0
		refused := taboo.refuse("package harness\n\n" + c.line + "\n")
		if refused != nil {
			got = refused.Line
			if refused.Rule != mentionRule || refused.Reason == "" || refused.Hint == "" {
				t.Errorf("%d: %+v", i, refused)
			}
		}
		if got != c.want {
			t.Errorf("%d: %s: refused in line %d, want %d: %v", i, c.line, got, c.want, refused)
		}
	}
}

// A few answers that all tasks share are labels, which a harness may name.
func TestTaboo_labels(t *testing.T) {
	d := mentionDomain()
	d.World = keeper{answers: map[TaskID][]string{"t4": {"Positive"}, "t-99": {"negative", "not sure"}}}
	if refused := newTaboo(d).refuse("package harness\nconst a = \"Positive, negative or not sure\"\n"); refused != nil {
		t.Error(refused)
	}
}

// Refusals do not tell what they found, but for names that are no secret.
func TestTaboo_tellsNothing(t *testing.T) {
	taboo := newTaboo(mentionDomain())
	a := taboo.refuse("package harness\nconst a = \"Kelmo\"\n")
	b := taboo.refuse("package harness\nconst a = \"who is the mayor of the birthplace of Oldo\"\n")
	if a == nil || b == nil || *a != *b {
		t.Errorf("%v, %v", a, b)
	}
}

func FuzzTaboo(f *testing.F) {
	f.Add("package harness\nconst a = \"Kel\" + `mo`\n")
	f.Add("\"\\xff\" + // x\n")
	taboo := newTaboo(mentionDomain())
	f.Fuzz(func(t *testing.T, source string) {
		taboo.refuse(source)
		if taboo.refuse(source+"\n;var _ = \"Kelmo\"\n") == nil && taboo.refuse(fmt.Sprintf("var _ = %q", "Kelmo "+source)) == nil {
			t.Error("the answer is not found")
		}
	})
}
