package symbols

import (
	"path"
	"slices"
	"testing"

	"github.com/seed-7c27e6b8/whale/sandbox/vet"
)

// TestImports: what the vet lets a harness import is what the guest has.
func TestImports(t *testing.T) {
	var have []string
	for key := range Symbols {
		have = append(have, path.Dir(key))
	}
	want := vet.Imports()
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("the guest has %v\nthe vet allows %v", have, want)
	}
	for _, missing := range []string{"NewSession", "Host", "Start", "Note"} {
		if _, ok := Symbols["github.com/seed-7c27e6b8/whale/harnesses/kit/kit"][missing]; ok {
			t.Errorf("harnesses can reach kit.%s", missing)
		}
	}
}
