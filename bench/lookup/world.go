package lookup

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// relation is one kind of fact with the wordings of spec/nano.md section 3.1.
type relation struct {
	sentence string // %e entity, %v value
	question string // %x what is asked about
	keyword  string // the word a second search adds
	bridge   string // how a two-hop question names the value; "" = it can't be passed through
}

// The relations, first those of people, then those of towns.
const (
	born = iota
	job
	spouse
	teacher
	mayor
	river
	goods
	region
)

var relations = []relation{
	born:    {"%e was born in %v.", "Where was %x born?", "born", "the birthplace of %e"},
	job:     {"%e works as a %v.", "What is the job of %x?", "works", ""},
	spouse:  {"%e is married to %v.", "Who is the spouse of %x?", "married", "the spouse of %e"},
	teacher: {"%e was taught by %v.", "Who taught %x?", "taught", "the teacher of %e"},
	mayor:   {"The mayor of %e is %v.", "Who is the mayor of %x?", "mayor", "the mayor of %e"},
	river:   {"%e lies on the river %v.", "Which river is %x on?", "river", ""},
	goods:   {"%e is known for %v.", "What is %x known for?", "known", ""},
	region:  {"%e is part of %v.", "Which region is %x in?", "part", ""},
}

var (
	personRelations = []int{born, job, spouse, teacher}
	townRelations   = []int{mayor, river, goods, region}
	personBridges   = []int{born, spouse, teacher}

	jobs = []string{"baker", "smith", "weaver", "miller", "farmer", "potter", "tailor", "mason",
		"fisher", "hunter", "painter", "singer"}
	wares = []string{"wine", "salt", "wool", "honey", "iron", "silk", "cheese", "amber", "glass",
		"pepper", "timber", "pearls"}
)

func fill(pattern, entity, value string) string {
	return strings.NewReplacer("%e", entity, "%v", value, "%x", entity).Replace(pattern)
}

// sentence states one fact.
func sentence(rel int, entity, value string) string {
	return fill(relations[rel].sentence, entity, value)
}

// world is a closed set of facts about invented people and towns. It is never changed
// after newWorld.
type world struct {
	people, towns []string
	facts         map[string]map[int]string // entity, relation -> value
	passages      []string                  // one for each person, then one for each town
	index         *index
}

// size is the number of things in a world. People must be even: they marry in pairs.
type size struct{ people, towns, rivers, regions int }

// newWorld draws a world.
func newWorld(rng *rand.Rand, n size) *world {
	taken := map[string]bool{}
	w := &world{facts: map[string]map[int]string{}}
	w.people = names(rng, n.people, taken)
	w.towns = names(rng, n.towns, taken)
	rivers := names(rng, n.rivers, taken)
	regions := names(rng, n.regions, taken)

	married := rng.Perm(n.people)
	for i := 0; i < n.people; i += 2 {
		a, b := w.people[married[i]], w.people[married[i+1]]
		w.facts[a] = map[int]string{spouse: b}
		w.facts[b] = map[int]string{spouse: a}
	}
	for i, person := range w.people {
		facts := w.facts[person]
		facts[born] = pick(rng, w.towns)
		facts[job] = pick(rng, jobs)
		facts[teacher] = w.people[(i+1+rng.IntN(n.people-1))%n.people]
	}
	for _, town := range w.towns {
		w.facts[town] = map[int]string{
			mayor:  pick(rng, w.people),
			river:  pick(rng, rivers),
			goods:  pick(rng, wares),
			region: pick(rng, regions),
		}
	}
	for _, person := range w.people {
		w.passages = append(w.passages, w.passage(rng, person, personRelations))
	}
	for _, town := range w.towns {
		w.passages = append(w.passages, w.passage(rng, town, townRelations))
	}
	w.index = newIndex(w.passages)
	return w
}

// passage is `Name: ` and the sentences about one entity in random order.
func (w *world) passage(rng *rand.Rand, entity string, rels []int) string {
	var sentences []string
	for _, i := range rng.Perm(len(rels)) {
		sentences = append(sentences, sentence(rels[i], entity, w.facts[entity][rels[i]]))
	}
	return entity + ": " + strings.Join(sentences, " ")
}

// isTown tells towns from people.
func (w *world) isTown(entity string) bool {
	_, ok := w.facts[entity][river]
	return ok
}

// relationsOf are the relations that an entity has.
func (w *world) relationsOf(entity string) []int {
	if w.isTown(entity) {
		return townRelations
	}
	return personRelations
}

// bridgesOf are the relations of an entity that lead to an entity with facts.
func (w *world) bridgesOf(entity string) []int {
	if w.isTown(entity) {
		return []int{mayor}
	}
	return personBridges
}

// question asks for the end of a path of one or two relations from an entity.
type question struct {
	entity string
	path   []int
	text   string
	answer string
}

// ask words a question and looks up its answer.
func (w *world) ask(entity string, path ...int) question {
	q := question{entity: entity, path: path}
	last := path[len(path)-1]
	subject, at := entity, entity
	if len(path) == 2 {
		subject = fill(relations[path[0]].bridge, entity, "")
		at = w.facts[entity][path[0]]
	}
	q.text = fill(relations[last].question, subject, "")
	q.answer = w.facts[at][last]
	return q
}

// hops is the tag of a question: "1-hop" or "2-hop".
func (q question) hops() string { return fmt.Sprintf("%d-hop", len(q.path)) }

// fair is false for a two-hop question that leads back to where it starts: its answer
// stands in the question.
func (q question) fair() bool { return q.answer != q.entity }
