package builtin

import (
	"testing"

	"github.com/seed-7c27e6b8/whale/harnesses"
)

// Ensure that no source, whoever wrote it, breaks the operators: what they make of it
// either is a harness again or is dropped.
func FuzzMoves(f *testing.F) {
	f.Add(plain)
	for _, domain := range harnesses.Names() {
		text, err := harnesses.Source(domain)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add("package harness\n\nimport \"" + kitPath + "\"\n\nvar n, m = 3, \"4\"\n\nfunc Run(s *kit.Session) error {\n\tfor i := 0; i < n; {\n\t\t_, err := s.Generate(nil, kit.Options{Samples: n})\n\t\treturn err\n\t}\n\treturn nil\n}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := read(text)
		if err != nil {
			return
		}
		d := lookupDiagnosis()
		for _, m := range movesOf(c, d) {
			made, err := c.apply(m.edits)
			if err != nil {
				continue
			}
			if err := made.contract(); err != nil {
				t.Errorf("%s breaks the contract: %v", m.label(), err)
			}
		}
		for _, m := range crossovers(c, c, "h", 0) {
			t.Errorf("crossover with itself: %s", m.label())
		}
	})
}
