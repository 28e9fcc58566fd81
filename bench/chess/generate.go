package chess

import (
	"math/rand/v2"

	rules "github.com/corentings/chess/v2"
	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/engine"
)

const (
	playoutPlies = 200     // a random game is given up after so many
	captureShare = 1.0 / 3 // of the moves prefer a capture

	generatedTrain = 400

	startFEN = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
)

// randomMate plays random games until one comes to a position with a mate in one, and
// returns that position (spec/nano.md section 8). About two games in five do; a position
// takes about 3 ms.
func randomMate(rng *rand.Rand) *rules.Position {
	start, err := decode(startFEN)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for {
		pos := start
		for range playoutPlies {
			moves := pos.ValidMoves()
			if len(moves) == 0 {
				break
			}
			for _, move := range moves {
				if mates(pos, move) {
					return pos
				}
			}
			move := randomMove(rng, moves)
			pos = pos.Update(&move)
		}
	}
}

func randomMove(rng *rand.Rand, moves []rules.Move) rules.Move {
	if rng.Float64() < captureShare {
		var captures []rules.Move
		for _, move := range moves {
			if move.HasTag(rules.Capture) {
				captures = append(captures, move)
			}
		}
		if len(captures) > 0 {
			moves = captures
		}
	}
	return moves[rng.IntN(len(moves))]
}

// Generated builds the domain from mate-in-one positions of random games, for machines
// without a puzzle file. All splits are drawn in one go, no two alike.
func Generated(seed uint64, o Options) (*engine.Domain, error) {
	o = o.withDefaults()
	if o.Train == 0 {
		o.Train = generatedTrain
	}
	rng := bench.Rand(seed, "chess tasks")
	seen := map[engine.TaskID]bool{}
	draw := func(n int) []*puzzle {
		var list []*puzzle
		for len(list) < n {
			if p := mateInOne(randomMate(rng)); !seen[p.id] {
				seen[p.id] = true
				list = append(list, p)
			}
		}
		return list
	}
	test := draw(o.Test)
	return build(draw(o.Select+max(o.Train, o.Select)), test, o)
}

// mateInOne makes a puzzle of a position with a mate in one.
func mateInOne(pos *rules.Position) *puzzle {
	p := &puzzle{fen: pos.String(), mate: true, themes: []string{"mate", "mateIn1", "oneMove"}}
	for _, r := range legalRows(pos) {
		if r.mate {
			p.line = []string{r.uci}
			break
		}
	}
	p.id = id(p.fen)
	return p
}
