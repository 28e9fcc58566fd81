package lookup

import "math/rand/v2"

// Every name is made of two fixed lists of syllables, so that a model that has seen the
// syllables can copy any name (spec/nano.md sections 3.1 and 9.2).
var (
	onsets = []string{"b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z",
		"br", "dr", "gr", "kr", "tr", "st", "pl", "sk", "th"}
	vowels = []string{"a", "e", "i", "o", "u"}
	codas  = []string{"", "", "n", "r", "l", "k", "m", "s"}

	firstSyllables, laterSyllables = drawSyllables()
)

const (
	syllables    = 80   // of each list
	syllableSeed = 1    // drawn once and for all: the embedded model knows these lists
	threeShare   = 0.15 // names of three syllables
)

// drawSyllables fills both lists; none of them holds a syllable twice.
func drawSyllables() (first, later []string) {
	rng := rand.New(rand.NewPCG(syllableSeed, 0))
	draw := func() []string {
		var list []string
		seen := map[string]bool{}
		for len(list) < syllables {
			s := pick(rng, onsets) + pick(rng, vowels) + pick(rng, codas)
			if !seen[s] {
				seen[s] = true
				list = append(list, s)
			}
		}
		return list
	}
	return draw(), draw()
}

func pick(rng *rand.Rand, list []string) string { return list[rng.IntN(len(list))] }

// name draws one name with a capital letter.
func name(rng *rand.Rand) string {
	first := pick(rng, firstSyllables)
	text := string(first[0]-'a'+'A') + first[1:] + pick(rng, laterSyllables)
	if rng.Float64() < threeShare {
		text += pick(rng, laterSyllables)
	}
	return text
}

// names draws names that differ from each other and from those in taken, and adds them
// there.
func names(rng *rand.Rand, n int, taken map[string]bool) []string {
	var list []string
	for len(list) < n {
		if next := name(rng); !taken[next] {
			taken[next] = true
			list = append(list, next)
		}
	}
	return list
}
