package chess

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/engine"
)

// Errors of a puzzle's row, beside ErrFEN and ErrIllegal.
var (
	ErrOdd  = errors.New("odd number of moves")
	ErrMate = errors.New("a mate puzzle that does not end in mate")
)

// puzzle is one problem from the solver's point of view.
type puzzle struct {
	id     engine.TaskID
	fen    string   // the solver is to move
	line   []string // UCI: solver, opponent, solver, ...; ends with the solver
	mate   bool     // the last move mates, so any mate is right
	rating int      // 0 = unknown
	themes []string
	row    int // line of its file, 0 = generated
}

// newPuzzle replays a Lichess row: fen is the position before the opponent's first move,
// moves start with that move (shared/data/README.md).
func newPuzzle(fen, moves string, rating int, themes []string) (*puzzle, error) {
	line := strings.Fields(moves)
	if len(line) == 0 || len(line)%2 != 0 {
		return nil, fmt.Errorf("%w: %d", ErrOdd, len(line))
	}
	pos, err := parse(fen)
	if err != nil {
		return nil, err
	}
	p := &puzzle{line: line[1:], rating: rating, themes: themes}
	for i, uci := range line {
		move, err := legal(pos, uci)
		if err != nil {
			return nil, fmt.Errorf("move %d: %w", i+1, err)
		}
		if i == len(line)-1 {
			p.mate = mates(pos, move)
			break
		}
		pos = pos.Update(&move)
		if i == 0 {
			p.fen = pos.String()
		}
	}
	for _, theme := range themes {
		if strings.HasPrefix(theme, "mateIn") && !p.mate {
			return nil, ErrMate
		}
	}
	p.id = id(p.fen)
	return p, nil
}

// id names a puzzle by its position alone: proposers see ids, and with the solution in the
// hash a mate in one could be found by trying the legal moves.
func id(fen string) engine.TaskID { return bench.TaskID(Name, fen) }

// ratingBand is the width of the rating tags.
const ratingBand = 500

// tags are what reports count by: the aim of the puzzle and its rating band.
func (p *puzzle) tags() []string {
	aim := "other"
	for _, theme := range p.themes {
		switch {
		case theme == "mateIn1" || theme == "mateIn2":
			aim = theme
		case strings.HasPrefix(theme, "mateIn"):
			aim = "mateIn3+"
		case theme == "crushing" || theme == "advantage" || theme == "equality":
			aim = theme
		}
	}
	list := []string{aim}
	if p.rating > 0 {
		from := p.rating / ratingBand * ratingBand
		list = append(list, "rating "+strconv.Itoa(from)+"-"+strconv.Itoa(from+ratingBand-1))
	}
	return list
}

// has reports whether a puzzle has one of the themes; no themes = every puzzle has.
func (p *puzzle) has(themes []string) bool {
	if len(themes) == 0 {
		return true
	}
	for _, theme := range p.themes {
		for _, wanted := range themes {
			if theme == wanted {
				return true
			}
		}
	}
	return false
}

func (p *puzzle) task() engine.Task {
	return engine.Task{ID: p.id, Domain: Name, Input: p.fen, Tags: p.tags()}
}
