package lookup

import (
	"math/rand/v2"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// Drills makes copy drills, which teach a fresh model to copy a name from the context:
// 2 to 6 names to be repeated, or 2 to 6 sentences of one relation to be written as
// search and answer pairs in another order (spec/nano.md section 4).
type Drills struct{ rng *rand.Rand }

// NewDrills makes a generator.
func NewDrills(seed uint64) *Drills { return &Drills{rng: bench.Rand(seed, "copy drills")} }

// Next makes one drill.
func (d *Drills) Next(float64) bench.Episode {
	n := 2 + d.rng.IntN(5)
	context, reply := d.repeat(n)
	if d.rng.IntN(2) == 0 {
		context, reply = d.pairs(n)
	}
	return bench.Episode{Kind: "drill", Messages: []bench.Message{
		{Role: kit.User, Content: context},
		{Role: kit.Assistant, Content: reply, Trained: true},
	}}
}

func (d *Drills) repeat(n int) (context, reply string) {
	list := strings.Join(names(d.rng, n, map[string]bool{}), " ")
	return list, list
}

// drilled are the relations of the drills. Jobs and goods come three times: they are words
// that stand with a space before them in a passage and without one in an answer, other
// tokens, so that copying alone does not answer them; without the extra drills the model
// knows that a job is asked for and names any. The region comes twice: its question shares
// no word with its sentence and is rare.
var drilled = []int{born, job, job, job, spouse, teacher, mayor, river, goods, goods, goods, region, region}

func (d *Drills) pairs(n int) (context, reply string) {
	rel := drilled[d.rng.IntN(len(drilled))]
	taken := map[string]bool{}
	entities := names(d.rng, n, taken)
	var values, sentences []string
	switch rel {
	case job:
		values = some(d.rng, jobs, n)
	case goods:
		values = some(d.rng, wares, n)
	default:
		values = names(d.rng, n, taken)
	}
	for i := range entities {
		sentences = append(sentences, sentence(rel, entities[i], values[i]))
	}
	for _, i := range d.rng.Perm(n) {
		reply += "<search>" + entities[i] + "</search><answer>" + values[i] + "</answer>"
	}
	return strings.Join(sentences, " "), reply
}

// some draws n different entries of a list.
func some(rng *rand.Rand, list []string, n int) []string {
	var drawn []string
	for _, i := range rng.Perm(len(list))[:n] {
		drawn = append(drawn, list[i])
	}
	return drawn
}
