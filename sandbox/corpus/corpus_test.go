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

// results are what came of programs, each three times.
type results struct {
	list          []program
	lowered       []program
	why           []string  // it was refused; "" = it is clean
	want, as, low []outcome // by Go's compiler, by the interpreter, by it after lowering
}

func runAll(t *testing.T, list []program) results {
	r := results{list: list, lowered: make([]program, len(list)), why: make([]string, len(list))}
	for i, p := range list {
		text, err := vet.Prepare(p.source)
		if r.lowered[i] = (program{p.name, text}); err != nil {
			r.why[i] = err.Error()
		}
	}
	r.want, r.as, r.low = native(t, list), written(t, list), interpreted(t, r.lowered)
	return r
}

// written runs programs as they are written; those that are known to get stuck, where each
// costs the patience with it, only in the whole suite.
func written(t *testing.T, list []program) []outcome {
	out := make([]outcome, len(list))
	var run []program
	var at []int
	for i, p := range list {
		if strings.HasPrefix(p.name, "stuck_") && os.Getenv("WHALE_CORPUS") != "full" {
			out[i].End = "hang"
			continue
		}
		run, at = append(run, p), append(at, i)
	}
	for i, o := range interpreted(t, run) {
		out[at[i]] = o
	}
	return out
}

// compile runs what has an end by Go's compiler and may be a harness by the compile engine
// too, from one index to another: all must be the same.
func (r results) compile(t *testing.T, from, to int) {
	eligible := func(i int) bool {
		return i >= from && i < to && slices.Contains([]string{"", "panic", "error"}, r.want[i].End) && !strings.Contains(r.why[i], "contract: ")
	}
	ran := 0
	for i, got := range compiled(t, r.list, eligible) {
		if !eligible(i) {
			continue
		}
		if ran++; !got.same(r.want[i]) {
			t.Errorf("%s: compiled it differs\nGo:       %+v\ncompiled: %+v", r.list[i].name, r.want[i], got)
		}
	}
	t.Logf("%d ran compiled", ran)
}

// count compares what came of the programs from one index to another. A silent difference
// fails the test.
func (r results) count(t *testing.T, set string, from, to int) tally {
	sum := tally{set: set, rules: map[string]int{}}
	for i := from; i < to; i++ {
		p, want, as, low := r.list[i], r.want[i], r.as[i], r.low[i]
		clean := r.why[i] == ""
		if want.End == "no build" || want.End == "hang" || strings.Contains(r.why[i], "contract: ") {
			sum.outside++
			continue
		}
		sum.programs++
		right := as.same(want)
		rule := strings.SplitN(r.why[i]+": : ", ": ", 3)[1]
		if right {
			sum.right++
		} else {
			sum.wrong++
		}
		switch {
		case !clean && right:
			sum.kept++
			sum.rules[rule]++
			t.Logf("kept: %s: %s", p.name, r.why[i])
		case !clean:
			sum.refused++
		case low.End == "refused":
			sum.late++
			t.Logf("refused by the interpreter: %s: %s", p.name, low.Why)
		case low.same(want) && !right:
			sum.repaired++
		case !low.same(want) && known[strings.TrimSuffix(strings.TrimSuffix(p.name, "_loop"), "_closure")] == "":
			sum.silent++
			t.Errorf("%s: silent difference\nGo:          %+v\ninterpreter: %+v\nas written:  %v\n%s", p.name, want, low, right, r.lowered[i].source)
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

// set is one kind of programs.
type set struct {
	name string
	list []program
	most float64 // share of the right ones that may be kept from the interpreter
}

// sets are all programs; of those that are many, every n-th.
func sets(t *testing.T, every int) []set {
	small := readShared(t, "programs_*.txt")
	var varied, chance []program
	for _, p := range small {
		varied = append(varied, variants(p)...)
	}
	for seed := range uint64(randoms) {
		chance = append(chance, random(seed))
	}
	some := func(list []program) (taken []program) {
		for i := 0; i < len(list); i += every {
			taken = append(taken, list[i])
		}
		return taken
	}
	return []set{
		{"small", some(small), 0.03},
		{"small, in a loop and in a closure", some(varied), 0.03},
		{"random", some(chance), 0.03},
		{"natural", append(readShared(t, "natural.txt"), read(t, "testdata/natural.txt")...), 0.05},
		{"one for each rewrite", read(t, "testdata/small.txt"), 0},
	}
}

// randoms is how many programs the generator makes for the whole suite.
const randoms = 1000

// TestCorpus: programs run in all ways. WHALE_CORPUS=full takes all, else a sample.
func TestCorpus(t *testing.T) {
	full, every := os.Getenv("WHALE_CORPUS") == "full", 60
	if full {
		every = 1
	}
	all := sets(t, every)
	var list []program
	for _, s := range all {
		list = append(list, harnesses(s.list)...)
	}
	r, from := runAll(t, list), 0
	for _, s := range all {
		sum := r.count(t, s.name, from, from+len(s.list))
		from += len(s.list)
		t.Log(sum)
		if full && float64(sum.kept) > s.most*float64(sum.right) {
			t.Errorf("%s: %d of %d are kept from the interpreter", s.name, sum.kept, sum.right)
		}
		if s.most == 0 && sum.refused+sum.kept > 0 {
			t.Errorf("%s: some are refused", s.name)
		}
	}
	if full {
		r.compile(t, 0, len(list))
	} else {
		last := len(all[len(all)-1].list) + len(all[len(all)-2].list)
		r.compile(t, len(list)-last, len(list))
	}
}

// differed are seeds whose programs once differed after lowering.
var differed = []uint64{50328, 60310, 61786, 62282}

// TestSeeds: programs by the generator for the seeds of WHALE_SEEDS, "from,to"; without it
// those that once differed.
func TestSeeds(t *testing.T) {
	seeds := differed
	var from, to uint64
	if n, _ := fmt.Sscanf(os.Getenv("WHALE_SEEDS"), "%d,%d", &from, &to); n == 2 {
		seeds = nil
		for seed := from; seed < to; seed++ {
			seeds = append(seeds, seed)
		}
	}
	var list []program
	for _, seed := range seeds {
		list = append(list, harness(random(seed)))
	}
	t.Log(runAll(t, list).count(t, "seeds", 0, len(list)))
}
