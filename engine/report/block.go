package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/engine"
)

// block lays the live display out in three lines of fewer than width columns, so that
// nothing wraps and the cursor finds its way back. What does not fit is left out from
// the right, the least important part.
func block(s snapshot, st style, width int) [3]string {
	if width <= 0 {
		width = 80 // a terminal that does not tell its size
	}
	width-- // some terminals wrap when the last column is written
	p := s.progress
	name, head := s.head()
	if whole := strings.Join(append([]string{name}, head...), "  "); utf8.RuneCountInString(whole) > width {
		name = strings.TrimSuffix(name, " phase")
		for i := range head {
			head[i] = strings.TrimPrefix(head[i], "accuracy ")
		}
	}
	first := fit(width, append([]string{name}, head...)...)
	if st.color && strings.HasPrefix(first, name) {
		first = "\x1b[1m" + name + "\x1b[0m" + first[len(name):]
	}
	tail := []string{"elapsed " + clock(s.elapsed)}
	if s.left > 0 {
		tail = append(tail, "left "+clock(s.left))
	}
	switch {
	case p.Jobs > 0 && p.Done >= p.Jobs && p.Stage == engine.StageWeight:
		tail = append(tail, "training")
	case p.TokensPerSecond > 0:
		tail = append(tail, compact(p.TokensPerSecond)+" tokens/s")
	}
	return [3]string{first, s.bar(st, width), fit(width, tail...)}
}

// head is the first line in fields: the phase, where in it, and how well it goes.
func (s snapshot) head() (name string, fields []string) {
	p := s.progress
	switch p.Stage {
	case engine.StageWeight, engine.StageHarness:
		name = string(p.Stage) + " phase"
		unit := "step "
		if p.Stage == engine.StageHarness {
			unit = "iteration "
		}
		fields = append(fields, "cycle "+of(p.Unit.Cycle, p.Cycles), unit+of(p.Unit.Index, p.Unit.Of))
	case engine.StageMeasure:
		name = "measuring"
		fields = append(fields, "point "+of(p.Point, p.Points))
	case engine.StageDone:
		return "done", nil
	default:
		return "starting", nil
	}
	switch {
	case p.Done > 0:
		fields = append(fields, "accuracy "+share(p.Mean))
	case s.rate >= 0:
		fields = append(fields, "accuracy "+share(s.rate))
	}
	return name, fields
}

// bar is the share of the budget that is spent, with the counts behind it; while
// measuring, the share of the points.
func (s snapshot) bar(st style, width int) string {
	p := s.progress
	done, all, name := p.Spent.Weight+p.Spent.Harness, p.Budget, " rollouts"
	switch p.Stage {
	case engine.StageWeight, engine.StageHarness:
		done += p.Done
	case engine.StageMeasure:
		done, all, name = p.Done, p.Jobs, " rollouts of this point"
	}
	counts := count(done) + name
	if all > 0 {
		counts = count(done) + "/" + count(all) + name
	}
	room := min(width-utf8.RuneCountInString(counts)-2, 48)
	if all <= 0 || room < 8 {
		return fit(width, counts)
	}
	full := min(room, max(0, int(float64(room)*float64(done)/float64(all))))
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

// StatusOf is the bar of a live page for a progress.
func StatusOf(p engine.Progress) Bar {
	s := snapshot{latest: latest{progress: p, rate: -1}}
	name, fields := s.head()
	b := Bar{Now: strings.Join(append([]string{name}, fields...), " · ")}
	if p.Stage == engine.StageDone {
		return b
	}
	if p.Jobs > 0 {
		b.Done = float64(p.Done) / float64(p.Jobs)
		b.Now += fmt.Sprintf(" · %s of %s rollouts", count(p.Done), count(p.Jobs))
	}
	if p.TokensPerSecond > 0 {
		b.Now += " · " + compact(p.TokensPerSecond) + " tokens/s"
	}
	if p.Left > 0 {
		b.Now += " · " + clock(p.Left) + " left"
	}
	return b
}
