package ledger

import (
	"reflect"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

func line(seq, cycle int, kind engine.RecordKind, rollouts int) Line {
	return NewLine(engine.Record{Seq: seq, Cycle: cycle, Kind: kind, Spent: rollouts,
		Spending: engine.Spending{Cost: engine.Cost{Sampled: 10 * rollouts}, Wall: 1}})
}

func TestGroups(t *testing.T) {
	lines := []Line{line(0, 0, "start", 0), line(1, 1, "step", 8), line(2, 1, "step", 8), line(3, 1, "search", 4), line(4, 2, "step", 8), line(5, 0, "measure", 3)}
	type row struct{ cycle, units, rollouts, sampled int }
	rows := func(ts []Total) (rows []row) {
		for _, t := range ts {
			rows = append(rows, row{t.Cycle, t.Units, t.Rollouts, t.Spending.Cost.Sampled})
		}
		return rows
	}
	if got := rows(Phases(lines)); !reflect.DeepEqual(got, []row{{0, 1, 0, 0}, {1, 2, 16, 160}, {1, 1, 4, 40}, {2, 1, 8, 80}, {0, 1, 3, 30}}) {
		t.Errorf("phases %v", got)
	}
	if got := rows(Cycles(lines)); !reflect.DeepEqual(got, []row{{0, 2, 3, 30}, {1, 3, 20, 200}, {2, 1, 8, 80}}) {
		t.Errorf("cycles %v", got)
	}
	if got := rows([]Total{Sum(lines)}); got[0] != (row{0, 6, 31, 310}) {
		t.Errorf("sum %v", got)
	}
}

func FuzzParse(f *testing.F) {
	text, err := line(0, 1, "step", 8).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)-2])
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		lines, whole, err := Parse(b)
		if whole > len(b) || whole > 0 && b[whole-1] != '\n' {
			t.Fatalf("whole = %d of %d", whole, len(b))
		}
		if err != nil {
			return
		}
		var again []byte
		for _, l := range lines {
			one, err := l.Encode()
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, one...)
		}
		if back, _, err := Parse(again); err != nil || !reflect.DeepEqual(back, lines) {
			t.Fatalf("%v became %v, %v", lines, back, err)
		}
	})
}
