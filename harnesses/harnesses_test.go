package harnesses

import (
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"
)

// Every seed comes with its advice and imports nothing but what a candidate may.
func TestSeeds(t *testing.T) {
	allowed := map[string]bool{`"strings"`: true, `"strconv"`: true, `"github.com/seed-7c27e6b8/whale/harnesses/kit"`: true}
	for _, name := range Names() {
		source, err := Source(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		if file.Name.Name != "harness" {
			t.Errorf("%s is package %s", name, file.Name.Name)
		}
		for _, spec := range file.Imports {
			if !allowed[spec.Path.Value] {
				t.Errorf("%s imports %s", name, spec.Path.Value)
			}
		}
		skill, err := Skill(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"## What the model writes", "## What counts", "## Levers, by axis", "## Slots and hypotheses", "## Against overfitting", "## Forbidden"} {
			if !strings.Contains(skill, part) {
				t.Errorf("SKILL.md of %s has no %q", name, part)
			}
		}
	}
	if _, err := Source("nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unknown domain: %v", err)
	}
}
