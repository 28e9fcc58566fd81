package math

import (
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench/math/answer"
	"github.com/seed-7c27e6b8/whale/engine"
)

// realData is the folder with the public data sets, beside the repository.
func realData(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "data", "math")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIPPED: no real data sets, the folder %s is missing", dir)
	}
	return dir
}

func TestRealFiles(t *testing.T) {
	d, reports, err := Open(realData(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		t.Log(r)
		if r.Good == 0 || r.Opaque > 0 || len(r.Bad) > 1 {
			t.Errorf("%s", r)
		}
	}
	t.Logf("%d train, %d select, %d test", len(d.Train), len(d.Select), len(d.Test))
}

// Every reference against itself as it is, with two decimals, as a fraction, with
// dollars, and as LaTeX with a unit: all are equal and none is unparsed.
func TestRealReferences(t *testing.T) {
	dir := realData(t)
	names, err := dataFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	total, unparsed := 0, 0
	for _, name := range names {
		problems, _, err := readFile(filepath.Join(dir, name), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			for _, spelled := range spellings(p.reference) {
				kind, _ := answer.Judge(`The answer is \boxed{`+spelled+`}.`, p.reference)
				total++
				switch kind {
				case engine.Unparsed:
					unparsed++
				case engine.Different:
					t.Errorf("%s:%d: %q is different from %q", name, p.row, spelled, p.reference)
				}
			}
		}
	}
	t.Logf("%d verdicts, %d unparsed", total, unparsed)
	if unparsed*100 >= total {
		t.Errorf("%d of %d are unparsed", unparsed, total)
	}
}

func spellings(reference string) []string {
	list := []string{reference, `\$` + reference, `$` + reference + `$`, reference + `\text{ units}`}
	plain := answer.Form(reference)
	if r, ok := new(big.Rat).SetString(plain); ok {
		doubled := new(big.Rat).Mul(r, big.NewRat(2, 1))
		list = append(list, r.FloatString(4), `\frac{`+doubled.RatString()+`}{2}`, `x = `+plain)
	}
	return list
}
