package lookup

import (
	"math/rand/v2"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// Faults are the probabilities of a sloppy player's mistakes, each rolled once a turn.
// The zero value is the clean player.
type Faults struct {
	Malformed float64 // a tag is missing or wrong
	Unread    float64 // answers before any search
	Query     float64 // searches a wrong or a cut name
	Wrong     float64 // answers with a wrong name in sight
	Bridge    float64 // two hops: answers with the bridge instead of searching it
}

// SloppyFaults are those of the last stage of pretraining, which leaves the skill latent
// (spec/nano.md section 4, stage 4).
var SloppyFaults = Faults{Malformed: 0.10, Unread: 0.15, Query: 0.10, Wrong: 0.12, Bridge: 0.45}

// afterNudge halves what a nudge warns of.
func (f Faults) afterNudge() Faults {
	f.Malformed /= 2
	f.Query /= 2
	f.Wrong /= 2
	return f
}

const (
	worldEpisodes = 60  // episodes before a new world
	keywordShare  = 0.5 // of the facts cut off are searched again with a keyword
)

// Demos plays demonstrations in the real search environment: random worlds, questions
// and harness shapes. It is not safe for use from several goroutines.
type Demos struct {
	rng    *rand.Rand
	faults Faults
	fixed  *Shape
	world  *world
	left   int // episodes left in this world
}

// NewDemos makes a generator; faults zero = the clean player.
func NewDemos(seed uint64, faults Faults) *Demos {
	return &Demos{rng: bench.Rand(seed, "lookup demonstrations"), faults: faults}
}

// Under plays every episode in one shape instead of random ones.
func (d *Demos) Under(s Shape) *Demos {
	d.fixed = &s
	return d
}

// Next plays one episode.
func (d *Demos) Next(float64) bench.Episode {
	if d.left == 0 {
		people := []int{20, 40, 60}[d.rng.IntN(3)]
		d.world = newWorld(d.rng, size{people: people, towns: 12, rivers: 8, regions: 5})
		d.left = worldEpisodes
	}
	d.left--
	shape := randomShape(d.rng)
	if d.fixed != nil {
		shape = *d.fixed
	}
	q := d.world.draw(d.rng)
	p := &player{rng: d.rng, world: d.world, shape: shape, question: q, faults: d.faults}
	return bench.Episode{Kind: Name, Messages: p.play()}
}

// draw asks a random question at the mix of the domain.
func (w *world) draw(rng *rand.Rand) question {
	for {
		list := w.towns
		if rng.Float64() < personShare {
			list = w.people
		}
		entity := pick(rng, list)
		var path []int
		if rng.Float64() < twoHopShare {
			bridges := w.bridgesOf(entity)
			first := bridges[rng.IntN(len(bridges))]
			rels := w.relationsOf(w.facts[entity][first])
			path = []int{first, rels[rng.IntN(len(rels))]}
		} else {
			rels := w.relationsOf(entity)
			path = []int{rels[rng.IntN(len(rels))]}
		}
		if q := w.ask(entity, path...); q.fair() {
			return q
		}
	}
}

// player plays one question under one shape. It only uses what stands in the messages.
type player struct {
	rng      *rand.Rand
	world    *world
	shape    Shape
	question question
	faults   Faults

	messages []bench.Message
	read     []string // search results as they entered the context
	asked    map[string]bool
	guessing bool // the fact is cut off and was not found again: the next turn guesses
}

// act is what a player wants to do in a turn.
type act struct {
	answer bool
	text   string
	bridge string // the name that a hasty player would answer with instead, "" = none
}

func (p *player) play() []bench.Message {
	p.messages = p.shape.opening(p.question.text)
	p.asked = map[string]bool{}
	for turn := 1; turn <= p.shape.Turns; turn++ {
		a := p.err(p.plan(p.shape.hintBefore(turn) != ""))
		text, broken := p.write(a)
		p.messages = append(p.messages, bench.Message{Role: kit.Assistant, Content: text, Trained: true})
		if turn == p.shape.Turns || !broken && a.answer {
			break
		}
		if broken {
			if p.shape.Nudge == "" {
				break
			}
			p.messages = append(p.messages, p.shape.nudgeBefore(turn+1))
			p.faults = p.faults.afterNudge()
			continue
		}
		p.messages = append(p.messages, p.shape.observation(p.search(a.text), turn+1))
	}
	return p.messages
}

// plan is what a careful player does: it answers when all hops are in sight, searches
// the name it needs next, and when that passage is cut before the fact searches once
// more with a keyword or guesses. Told to answer, it guesses what it does not know.
func (p *player) plan(told bool) act {
	at, bridge := p.question.entity, ""
	for i, rel := range p.question.path {
		value := p.world.facts[at][rel]
		if p.sees(sentence(rel, at, value)) {
			at = value
			if i == 0 && len(p.question.path) == 2 {
				bridge = value
			}
			continue
		}
		if told {
			return act{answer: true, text: p.guess(at)}
		}
		if !p.asked[at] {
			return act{text: at, bridge: bridge}
		}
		second := at + " " + relations[rel].keyword
		if !p.guessing && !p.asked[second] && p.rng.Float64() < keywordShare {
			return act{text: second}
		}
		p.guessing = true
		return act{answer: true, text: p.guess(at)}
	}
	return act{answer: true, text: at}
}

// err turns a plan into a mistake, now and then.
func (p *player) err(a act) act {
	switch {
	case len(p.read) == 0 && p.roll(p.faults.Unread):
		return act{answer: true, text: p.guess("")}
	case a.bridge != "" && p.roll(p.faults.Bridge):
		return act{answer: true, text: a.bridge}
	case !a.answer && p.roll(p.faults.Query):
		return act{text: p.wrongQuery(a.text)}
	case a.answer && p.roll(p.faults.Wrong):
		return act{answer: true, text: p.guess(a.text)}
	}
	return a
}

// roll draws only for a fault that can happen, so that a clean player's sequence does not
// depend on the faults there are.
func (p *player) roll(chance float64) bool { return chance > 0 && p.rng.Float64() < chance }

// write puts an act into markup; broken says that a tag went wrong.
func (p *player) write(a act) (text string, broken bool) {
	tag, other := "search", "answer"
	if a.answer {
		tag, other = other, tag
	}
	if !p.roll(p.faults.Malformed) {
		return "<" + tag + ">" + a.text + "</" + tag + ">", false
	}
	switch p.rng.IntN(4) {
	case 0:
		return "<" + tag + ">" + a.text, true
	case 1:
		return a.text, true
	case 2:
		return a.text + "</" + tag + ">", true
	}
	return "<" + tag + ">" + a.text + "</" + other + ">", true
}

// search is what the harness shows of a search.
func (p *player) search(query string) string {
	if p.asked[query] && p.shape.Repeat != "" {
		return p.shape.Repeat
	}
	p.asked[query] = true
	found := p.shape.cut(p.world.lookUp(query, p.shape.K))
	p.read = append(p.read, found)
	return found
}

// sees reports whether a sentence stands whole in what was read.
func (p *player) sees(sentence string) bool {
	for _, text := range p.read {
		if strings.Contains(text, sentence) {
			return true
		}
	}
	return false
}

// guess picks a name in sight other than the one given: from what was read, before any
// search the one in the question.
func (p *player) guess(other string) string {
	var seen []string
	for _, text := range p.read {
		for _, word := range strings.FieldsFunc(text, notLetter) {
			if capital(word) && word != "The" && word != "No" && word != other && word != p.question.entity {
				seen = append(seen, word)
			}
		}
	}
	if len(seen) == 0 {
		return p.question.entity
	}
	return pick(p.rng, seen)
}

// wrongQuery is a name cut in the middle, or another name.
func (p *player) wrongQuery(right string) string {
	if p.rng.IntN(2) == 0 {
		return right[:1+p.rng.IntN(len(right)-1)]
	}
	if wrong := p.guess(right); wrong != right {
		return wrong
	}
	return pick(p.rng, p.world.people)
}

func notLetter(r rune) bool { return (r < 'a' || r > 'z') && !capitalRune(r) }

func capital(word string) bool { return word != "" && capitalRune(rune(word[0])) }

func capitalRune(r rune) bool { return r >= 'A' && r <= 'Z' }
