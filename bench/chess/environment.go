package chess

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	rules "github.com/corentings/chess/v2"
	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/engine"
)

// States of a rollout; the first word of its record.
const (
	toMove = "open"   // the solver is to move
	solved = "solved" // the whole line was played, or a mate
	wrong  = "wrong"  // a legal move that is not the solution: final
)

var movesTool = engine.ToolSpec{
	Name:        "moves",
	Description: "All legal moves, one a line: - [h5f7] SAN=Qxf7#",
	Schema:      `{"type":"object","properties":{}}`,
}

var moveTool = engine.ToolSpec{
	Name: "move",
	Description: "Plays the move that the model wrote in its last <move>..</move>. Answers: solved; wrong (the puzzle is over); " +
		"over; illegal MOVE: REASON; or reply UCI and below it the new list of moves.",
	Schema: `{"type":"object","properties":{"move":{"type":"string","description":"UCI, like h5f7 or e7e8q"}},"required":["move"]}`,
}

// writtenMove is the move in the last complete pair of move tags of a text, "" when there
// is none.
func writtenMove(text string) string {
	move, _ := bench.LastPair(text, "<move>", "</move>")
	return bench.Fold(move)
}

// environment is the board of one rollout.
type environment struct {
	puzzle *puzzle
	pos    *rules.Position
	state  string
	played []string // solver's and opponent's moves from puzzle.fen on
}

func newEnvironment(p *puzzle) (*environment, error) {
	pos, err := parse(p.fen)
	if err != nil {
		return nil, engine.Fail(engine.AtTask, string(p.id), err)
	}
	return &environment{puzzle: p, pos: pos, state: toMove}, nil
}

// Tool runs `moves` or `move`.
func (e *environment) Tool(_ context.Context, call engine.ToolCall) (string, error) {
	switch call.Name {
	case movesTool.Name:
		if e.state != toMove {
			return "over", nil
		}
		return listing(legalRows(e.pos)), nil
	case moveTool.Name:
		var args struct {
			Move string `json:"move"`
		}
		if err := json.Unmarshal([]byte(call.Args), &args); err != nil {
			return "", fmt.Errorf("%w: arguments of move: %v", engine.ErrTool, err)
		}
		return e.move(strings.ToLower(strings.TrimSpace(args.Move)), call.Written), nil
	}
	return "", fmt.Errorf("%w: no tool %q, there are moves and move", engine.ErrTool, call.Name)
}

// move plays a move of the solver and the opponent's answer.
func (e *environment) move(uci, written string) string {
	if e.state != toMove {
		return "over"
	}
	if uci == "" || writtenMove(written) != uci {
		return "refused: the model's last reply does not hold <move>" + clip(uci) + "</move>"
	}
	move, err := legal(e.pos, uci)
	if err != nil {
		return "illegal " + clip(uci) + ": not a legal move here"
	}
	want := e.puzzle.line[len(e.played)]
	mate := mates(e.pos, move)
	e.played = append(e.played, uci)
	switch {
	case e.puzzle.mate && mate, uci == want && len(e.played) == len(e.puzzle.line):
		e.state = solved
		return "solved"
	case uci != want:
		e.state = wrong
		return "wrong"
	}
	e.pos = e.pos.Update(&move)
	answer := e.puzzle.line[len(e.played)]
	move, err = legal(e.pos, answer)
	if err != nil { // newPuzzle replayed the line
		panic("BUG: " + err.Error())
	}
	e.played = append(e.played, answer)
	e.pos = e.pos.Update(&move)
	return "reply " + answer + "\n" + listing(legalRows(e.pos))
}

// Record is the state and the moves played: `solved e4g5 e7f6 e3e8`.
func (e *environment) Record() string {
	return strings.Join(append([]string{e.state}, e.played...), " ")
}
