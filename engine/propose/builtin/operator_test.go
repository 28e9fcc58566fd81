package builtin

import (
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/vet"
)

// briefOf is a brief without traces, as at the very start.
func briefOf(t testing.TB, domain string, c *source) engine.Brief {
	h := engine.NewHarness(c.text, engine.Meta{})
	return engine.Brief{
		Domain: domain, Skill: skillOf(t, domain), Cycle: 1, Iteration: 1, Slots: 3, Seed: 1,
		Incumbent: h.ID, Entries: []engine.Entry{{Harness: h, Accepted: true}},
	}
}

// lookupDiagnosis knows the tags of lookup and which of them calls the tool.
func lookupDiagnosis() *diagnosis {
	return &diagnosis{marks: markup{reply: []string{"search", "answer"}, tool: []string{"search"}}}
}

func TestKitDeclarations_MatchKit(t *testing.T) {
	real, err := compiler().Import(kitPath)
	if err != nil {
		t.Fatal(err)
	}
	stub := kitStubs().kit
	for _, name := range stub.Scope().Names() {
		want, got := real.Scope().Lookup(name), stub.Scope().Lookup(name)
		if want == nil {
			t.Errorf("kit has no %s", name)
			continue
		}
		if _, isVar := got.(*types.Var); !isVar && name != "Session" &&
			types.ObjectString(want, nil) != types.ObjectString(got, nil) {
			t.Errorf("kit has %v, the declarations %v", want, got)
		}
		a, b := types.NewMethodSet(types.NewPointer(want.Type())), types.NewMethodSet(types.NewPointer(got.Type()))
		if a.Len() != b.Len() {
			t.Errorf("%s has %d methods, the declarations %d", name, a.Len(), b.Len())
			continue
		}
		for i := range a.Len() {
			if a.At(i).String() != b.At(i).String() {
				t.Errorf("kit has %v, the declarations %v", a.At(i), b.At(i))
			}
		}
	}
}

// Ensure that every move on every source gives a formatted harness that the Go compiler
// accepts, differs from its source, and can be made only within bounds.
func TestMoves_GiveHarnesses(t *testing.T) {
	sources := all(t)
	for _, domain := range names {
		c := sources[domain]
		d := diagnose(briefOf(t, domain, c), c)
		d.marks.tool = lookupDiagnosis().marks.tool
		moves := movesOf(c, d)
		if len(moves) < 5 {
			t.Errorf("%s: only %d moves", domain, len(moves))
		}
		seen := map[string]bool{}
		for _, m := range moves {
			t.Run(domain+"/"+m.label(), func(t *testing.T) {
				made, err := c.apply(m.edits)
				if err != nil {
					t.Fatal(err)
				}
				if made.text == c.text || seen[made.text] {
					t.Error("not a new source")
				}
				seen[made.text] = true
				if m.why == "" || m.axis == "" || m.trust <= 0 || m.share <= 0 {
					t.Errorf("incomplete move %+v", m)
				}
				compiles(t, made.text)
				obeysDialect(t, made.text)
				for _, again := range movesOf(made, d) {
					if again.name == m.name && !strings.Contains(m.step, "->") {
						t.Errorf("applies twice: %s", again.label())
					}
				}
			})
		}
	}
}

// obeysDialect asks the sandbox's vet and looks for constructs of spec/interpreter.md
// that a template could bring in and that are only refused in some contexts.
func obeysDialect(t *testing.T, text string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if refused := vet.Check(text); refused != nil {
		t.Errorf("%v\n%s", refused, text)
	}
	for _, word := range []string{"defer ", "go func", "range ", "func(", ", ok :="} {
		if strings.Contains(text, word) {
			t.Errorf("%s holds %q", file.Name.Name, word)
		}
	}
}

func TestLimits_ByUse(t *testing.T) {
	type found struct {
		name  string
		role  role
		value int
	}
	for domain, want := range map[string][]found{
		"lookup": {{"maxTurns", turnsRole, 2}, {"maxNudges", retriesRole, 0}, {"passages", argRole, 1}, {"passageWords", cutRole, 16}},
		"sums":   {{"maxTurns", turnsRole, 1}, {"maxNudges", retriesRole, 0}, {"samples", samplesRole, 1}},
		"chess":  {{"maxMoves", turnsRole, 9}, {"formatRetries", retriesRole, 1}, {"illegalRetries", retriesRole, 1}, {"keptMessages", cutRole, 0}},
		"plain":  {{"turns in Run", turnsRole, 2}, {"tokens a call in Run", tokensRole, 28}, {"tool argument in Run", argRole, 1}, {"length kept in Run", cutRole, 16}},
	} {
		got := all(t)[domain].limits()
		if len(got) != len(want) {
			t.Errorf("%s: %d limits, want %d: %+v", domain, len(got), len(want), got)
			continue
		}
		for i, l := range got {
			if (found{l.name, l.role, l.value}) != want[i] {
				t.Errorf("%s: found %q role %d value %d, want %+v", domain, l.name, l.role, l.value, want[i])
			}
		}
	}
}

func TestZeroMeansAll(t *testing.T) {
	for domain, want := range map[string]string{"lookup": "0", "plain": "1000"} {
		c := all(t)[domain]
		for _, m := range (limitOperator{}).moves(c, lookupDiagnosis()) {
			if strings.HasPrefix(m.name, "length kept") && strings.HasSuffix(m.step, "-> all") && m.edits[0].text != want {
				t.Errorf("%s: all is written %s, want %s", domain, m.edits[0].text, want)
			}
		}
	}
}

// Ensure that raising again and again ends.
func TestLimits_StayInBounds(t *testing.T) {
	for _, domain := range names {
		c := all(t)[domain]
		for range 30 {
			moved := false
			for _, m := range (limitOperator{}).moves(c, lookupDiagnosis()) {
				if m.cures == 0 {
					continue
				}
				next, err := c.apply(m.edits)
				if err != nil {
					t.Fatal(err)
				}
				c, moved = next, true
				break
			}
			if !moved {
				break
			}
		}
		for _, l := range c.limits() {
			if rung := ladders[l.role]; l.value > rung.high || l.value < rung.low {
				t.Errorf("%s: %s grew to %d", domain, l.name, l.value)
			}
		}
	}
}
