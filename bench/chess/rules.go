package chess

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"

	rules "github.com/corentings/chess/v2"
)

// Errors of a position or a line of moves, told apart with errors.Is.
var (
	ErrFEN     = errors.New("bad FEN")
	ErrIllegal = errors.New("illegal move")
)

// decoding guards the FEN decoder of the rules package: it keeps the ranks in a package
// variable, so two at a time would mix their positions.
var decoding sync.Mutex

// decode reads a FEN. The decoder indexes a table of 128 pieces by byte, so foreign bytes
// are kept from it.
func decode(fen string) (*rules.Position, error) {
	for i := range len(fen) {
		if fen[i] < ' ' || fen[i] > '~' {
			return nil, fmt.Errorf("%w: byte %d is not ASCII", ErrFEN, i)
		}
	}
	decoding.Lock()
	defer decoding.Unlock()
	pos := &rules.Position{}
	if err := pos.UnmarshalText([]byte(fen)); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFEN, err)
	}
	return pos, nil
}

// parse reads a FEN and checks what the rules package leaves open: one king a side, no
// pawn on the first or last rank, castling rights with king and rook at home, a pawn to
// take en passant, and the side that is not to move not in check.
func parse(fen string) (*rules.Position, error) {
	pos, err := decode(fen)
	if err != nil {
		return nil, err
	}
	kings := map[rules.Piece]int{}
	enemyKing := rules.NoSquare
	for square := rules.A1; square <= rules.H8; square++ {
		piece := pos.Board().Piece(square)
		switch piece.Type() {
		case rules.King:
			kings[piece]++
			if piece.Color() != pos.Turn() {
				enemyKing = square
			}
		case rules.Pawn:
			if square.Rank() == rules.Rank1 || square.Rank() == rules.Rank8 {
				return nil, fmt.Errorf("%w: pawn on %s", ErrFEN, square)
			}
		}
	}
	if kings[rules.WhiteKing] != 1 || kings[rules.BlackKing] != 1 {
		return nil, fmt.Errorf("%w: %d white and %d black kings", ErrFEN, kings[rules.WhiteKing], kings[rules.BlackKing])
	}
	if err := checkCastling(pos); err != nil {
		return nil, err
	}
	if err := checkEnPassant(pos); err != nil {
		return nil, err
	}
	for _, move := range pos.ValidMoves() {
		if move.S2() == enemyKing {
			return nil, fmt.Errorf("%w: the side that is not to move is in check", ErrFEN)
		}
	}
	return pos, nil
}

// checkCastling wants king and rook on their squares for each castling right.
func checkCastling(pos *rules.Position) error {
	homes := []struct {
		right      string
		king, rook rules.Square
		pieces     [2]rules.Piece
	}{
		{"K", rules.E1, rules.H1, [2]rules.Piece{rules.WhiteKing, rules.WhiteRook}},
		{"Q", rules.E1, rules.A1, [2]rules.Piece{rules.WhiteKing, rules.WhiteRook}},
		{"k", rules.E8, rules.H8, [2]rules.Piece{rules.BlackKing, rules.BlackRook}},
		{"q", rules.E8, rules.A8, [2]rules.Piece{rules.BlackKing, rules.BlackRook}},
	}
	for _, home := range homes {
		if !strings.Contains(string(pos.CastleRights()), home.right) {
			continue
		}
		if pos.Board().Piece(home.king) != home.pieces[0] || pos.Board().Piece(home.rook) != home.pieces[1] {
			return fmt.Errorf("%w: castling right %s without king and rook at home", ErrFEN, home.right)
		}
	}
	return nil
}

// checkEnPassant wants the pawn that has just passed the en passant square.
func checkEnPassant(pos *rules.Position) error {
	square := pos.EnPassantSquare()
	if square == rules.NoSquare {
		return nil
	}
	pawn, from, to := rules.BlackPawn, rules.Rank6, rules.Rank5
	if pos.Turn() == rules.Black {
		pawn, from, to = rules.WhitePawn, rules.Rank3, rules.Rank4
	}
	if square.Rank() != from || pos.Board().Piece(rules.NewSquare(square.File(), to)) != pawn {
		return fmt.Errorf("%w: nothing to take en passant on %s", ErrFEN, square)
	}
	return nil
}

// legal finds a move in UCI (e2e4, e7e8q) among the legal moves. The UCI decoder of the
// rules package is not used: it accepts moves that no piece can make.
func legal(pos *rules.Position, uci string) (rules.Move, error) {
	for _, move := range pos.ValidMoves() {
		if move.String() == uci {
			return move, nil
		}
	}
	return rules.Move{}, fmt.Errorf("%w: %s", ErrIllegal, clip(uci))
}

// clip shortens foreign text for an error line.
func clip(text string) string {
	if len(text) > 24 {
		text = text[:24] + "..."
	}
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\n", " "), "?")
}

// mates reports whether a legal move gives mate.
func mates(pos *rules.Position, move rules.Move) bool {
	return move.HasTag(rules.Check) && pos.Update(&move).Status() == rules.Checkmate
}

// row is one legal move of a listing.
type row struct {
	uci  string
	san  string
	mate bool
}

// text is the row as a model reads it (spec/nano.md section 8).
func (r row) text() string { return "- [" + r.uci + "] SAN=" + r.san }

// legalRows are all legal moves, ordered by UCI.
func legalRows(pos *rules.Position) []row {
	var list []row
	for _, move := range pos.ValidMoves() {
		san := rules.AlgebraicNotation{}.Encode(pos, &move)
		list = append(list, row{uci: move.String(), san: san, mate: strings.HasSuffix(san, "#")})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].uci < list[j].uci })
	return list
}

// listing is the text of rows, one a line.
func listing(list []row) string {
	var lines []string
	for _, r := range list {
		lines = append(lines, r.text())
	}
	return strings.Join(lines, "\n")
}
