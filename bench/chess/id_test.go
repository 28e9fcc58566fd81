package chess

import "testing"

// A proposer sees ids; they must not say which move is right.
func TestIDHasNoSolution(t *testing.T) {
	const fen = "6k1/5ppp/8/8/8/8/5PPP/R3R1K1 b - - 0 1"
	first, err := newPuzzle(fen, "h7h6 a1a8", 1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newPuzzle(fen, "h7h6 e1e8", 1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	if first.id != second.id {
		t.Errorf("same position, other solution: ids %s and %s", first.id, second.id)
	}
}

// Ids are in archives, and splits and order go by them.
func TestIDStays(t *testing.T) {
	if got := id(startFEN); got != "ta0335ca4dc25665e" {
		t.Errorf("got %s", got)
	}
}
