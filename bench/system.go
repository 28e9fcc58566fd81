package bench

import (
	"math/rand/v2"
	"strings"
)

// systemSentences are system messages that a harness might use.
var systemSentences = []string{
	"You are a helpful assistant.",
	"Answer the question.",
	"You can search before you answer.",
	"Search first, then answer.",
	"Think about the question and give a short answer.",
	"Use the tools and answer in the right format.",
}

// systemWords make up the random ones, so that a model does not lean on the sentences.
var systemWords = strings.Fields(`you are an agent who works with care and answers every question
	use the tool when a fact is missing read the passage find the name do not guess be short say only
	what you know check it again one step at a time then stop write the result in the tags first last
	always never before after if not sure search more look at each line keep going good luck`)

// RandomSystem draws the system message of a demonstration: none 50 %, a sentence 35 %,
// 2 to 12 random words 15 % (spec/nano.md section 4).
func RandomSystem(rng *rand.Rand) string {
	switch x := rng.Float64(); {
	case x < 0.5:
		return ""
	case x < 0.85:
		return systemSentences[rng.IntN(len(systemSentences))]
	}
	var list []string
	for n := 2 + rng.IntN(11); n > 0; n-- {
		list = append(list, systemWords[rng.IntN(len(systemWords))])
	}
	return strings.Join(list, " ")
}
