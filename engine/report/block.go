package report

import (
	"strings"
	"unicode/utf8"
)

// block lays the live display out in three lines of fewer than width columns, so that
// nothing wraps and the cursor finds its way back. What does not fit is left out from
// the right, the least important part.
func block(s snapshot, st style, width int) [3]string {
	if width <= 0 {
		width = 80 // a terminal that does not tell its size
	}
	width-- // some terminals wrap when the last column is written
	if s.Kind == "" {
		return [3]string{fit(width, "starting"), "", ""}
	}
	head := []string{string(s.Kind) + " phase"}
	if s.Kind == TestWork {
		head[0] = "test"
	}
	if s.Cycle > 0 && s.Kind != TestWork {
		head = append(head, "cycle "+of(s.Cycle, s.Cycles))
	}
	if s.Unit > 0 {
		head = append(head, s.unit()+" "+of(s.Unit, s.Units))
	}
	if s.Rate >= 0 {
		head = append(head, rateName(s.Kind)+" "+share(s.Rate))
	}
	if s.Score >= 0 {
		head = append(head, "score "+share(s.Score))
	}
	tail := []string{"elapsed " + clock(s.elapsed)}
	if s.leftOK {
		tail = append(tail, "left "+clock(s.left))
	}
	tail = append(tail, compact(s.speed)+" tokens/s")
	first := fit(width, head...)
	if name := head[0]; st.color && strings.HasPrefix(first, name) {
		first = "\x1b[1m" + name + "\x1b[0m" + first[len(name):]
	}
	return [3]string{first, s.bar(st, width), fit(width, tail...)}
}

func rateName(k PhaseKind) string {
	if k == WeightPhase {
		return "accepted"
	}
	return "best"
}

// bar is the share of the planned rollouts that is done, with the counts behind it.
func (s snapshot) bar(st style, width int) string {
	done, all := s.Done.Total(), s.Plan.Total()
	counts := count(done) + " rollouts"
	if all > 0 {
		counts = count(done) + "/" + count(all) + " rollouts"
	}
	room := min(width-len(counts)-2, 48)
	if all <= 0 || room < 8 {
		return fit(width, counts)
	}
	full := min(room, max(0, int(int64(room)*int64(done)/int64(all))))
	on, off := "#", "."
	if st.unicode {
		on, off = "━", "─"
	}
	line, rest := strings.Repeat(on, full), strings.Repeat(off, room-full)
	if st.color {
		line, rest = "\x1b[34m"+line+"\x1b[0m", "\x1b[2m"+rest+"\x1b[0m"
	}
	return line + rest + "  " + counts
}

// fit joins as many fields as fit into width columns.
func fit(width int, fields ...string) string {
	line, used := "", 0
	for i, f := range fields {
		n := utf8.RuneCountInString(f)
		if i > 0 {
			n += 2
		}
		if used+n > width {
			break
		}
		if i > 0 {
			line += "  "
		}
		line += f
		used += n
	}
	return line
}
