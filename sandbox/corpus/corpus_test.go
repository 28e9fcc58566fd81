package corpus

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/sandbox/vet"
)

// tally is the table of numbers of one set of programs.
type tally struct {
	set      string
	outside  int // imports what a harness may not, or doesn't compile
	programs int // the others
	right    int // that the interpreter runs right as they are
	kept     int // of these: refused after lowering
	wrong    int // that it does not
	repaired int // of these: run right after lowering
	refused  int // of these: refused after lowering
	late     int // vet-clean, and refused by the interpreter
	silent   int // vet-clean after lowering, and different
	rules    map[string]int
}

// known are programs whose difference no vet sees: they print what the standard library
// says about types of the source.
var known = map[string]string{
	"json_unmarshal_err": "text of a json error",
	"flow_recover_msg":   "text of a runtime panic",
}

// compare runs programs in all ways. A silent difference fails the test.
func compare(t *testing.T, set string, list []program) tally {
	sum := tally{set: set, rules: map[string]int{}}
	lowered, clean, why := make([]program, len(list)), make([]bool, len(list)), make([]string, len(list))
	for i, p := range list {
		text, err := vet.Prepare(p.source)
		if lowered[i] = (program{p.name, text}); err == nil {
			clean[i] = true
		} else {
			lowered[i].source, why[i] = "", err.Error()
		}
	}
	want, as, low := native(t, list), interpreted(t, list), interpreted(t, lowered)
	for i, p := range list {
		if want[i].End == "no build" || want[i].End == "hang" || strings.Contains(why[i], "contract: ") {
			sum.outside++
			continue
		}
		sum.programs++
		right := as[i].same(want[i])
		rule := strings.SplitN(why[i]+": : ", ": ", 3)[1]
		if right {
			sum.right++
		} else {
			sum.wrong++
		}
		switch {
		case !clean[i] && right:
			sum.kept++
			sum.rules[rule]++
			t.Logf("kept: %s: %s", p.name, why[i])
		case !clean[i]:
			sum.refused++
		case low[i].End == "refused":
			sum.late++
			t.Logf("refused by the interpreter: %s: %s", p.name, low[i].Why)
		case low[i].same(want[i]) && !right:
			sum.repaired++
		case !low[i].same(want[i]) && known[strings.TrimSuffix(strings.TrimSuffix(p.name, "_loop"), "_closure")] == "":
			sum.silent++
			t.Errorf("%s: silent difference\nGo:          %+v\ninterpreter: %+v\nas written:  %v\n%s", p.name, want[i], low[i], right, lowered[i].source)
		}
	}
	return sum
}

func (c tally) String() string {
	text := fmt.Sprintf("| %s | %d | %d | %d (%.1f %%) | %d | %d | %d | %d | %d |", c.set, c.programs, c.right, c.kept,
		100*float64(c.kept)/float64(max(c.right, 1)), c.wrong, c.repaired, c.refused, c.late, c.silent)
	for _, r := range slices.Sorted(maps.Keys(c.rules)) {
		text += fmt.Sprintf(" %s %d", r, c.rules[r])
	}
	return text
}

func harnesses(list []program) (out []program) {
	for _, p := range list {
		out = append(out, harness(p))
	}
	return out
}

func TestMeasure(t *testing.T) {
	if os.Getenv("WHALE_CORPUS") == "" {
		t.Skip()
	}
	for _, set := range []string{"natural.txt", "programs_*.txt"} {
		t.Log(compare(t, set, harnesses(readShared(t, set))))
	}
}
