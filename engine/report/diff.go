package report

import (
	"fmt"
	"strings"
)

// Edit says what happens to a line on the way from one text to another.
type Edit byte

// A line is kept, removed or added.
const (
	Keep   Edit = ' '
	Remove Edit = '-'
	Add    Edit = '+'
)

// Line is one line of a comparison, without its line feed.
type Line struct {
	Edit Edit
	Text string
}

// Hunk is a stretch of a comparison with a few kept lines around its changes.
type Hunk struct {
	From, To int // 1-based first line in the old and the new text
	Lines    []Line
}

// Header is the hunk's position in the usual notation.
func (h Hunk) Header() string {
	removed, added := 0, 0
	for _, l := range h.Lines {
		if l.Edit != Add {
			removed++
		}
		if l.Edit != Remove {
			added++
		}
	}
	return fmt.Sprintf("@@ -%d,%d +%d,%d @@", h.From, removed, h.To, added)
}

// diffCells bounds the table of the comparison; above it the differing middle of two
// texts is shown as removed and added in whole, which is still a true comparison.
const diffCells = 4 << 20

// Compare returns the lines of both texts in order: those without Add are the old text,
// those without Remove the new one. Common lines are a longest common subsequence.
func Compare(before, after string) []Line {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	lines := make([]Line, 0, len(a)+len(b))
	add := func(e Edit, texts []string) {
		for _, t := range texts {
			lines = append(lines, Line{e, t})
		}
	}
	add(Keep, a[:head])
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	if (len(x)+1)*(len(y)+1) > diffCells {
		add(Remove, x)
		add(Add, y)
	} else {
		lines = appendMiddle(lines, x, y)
	}
	add(Keep, a[len(a)-tail:])
	return lines
}

// appendMiddle compares two stretches by the table of common lengths: cell (i, j) is the
// length of a longest common subsequence of x[i:] and y[j:].
func appendMiddle(lines []Line, x, y []string) []Line {
	width := len(y) + 1
	table := make([]int32, (len(x)+1)*width)
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				table[i*width+j] = table[(i+1)*width+j+1] + 1
			} else {
				table[i*width+j] = max(table[(i+1)*width+j], table[i*width+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(x) && j < len(y) {
		switch {
		case x[i] == y[j]:
			lines = append(lines, Line{Keep, x[i]})
			i, j = i+1, j+1
		case table[(i+1)*width+j] >= table[i*width+j+1]:
			lines = append(lines, Line{Remove, x[i]})
			i++
		default:
			lines = append(lines, Line{Add, y[j]})
			j++
		}
	}
	for ; i < len(x); i++ {
		lines = append(lines, Line{Remove, x[i]})
	}
	for ; j < len(y); j++ {
		lines = append(lines, Line{Add, y[j]})
	}
	return lines
}

// Hunks cuts a comparison into its changes, each with up to around kept lines on both
// sides. Changes that are closer than that share a hunk.
func Hunks(lines []Line, around int) []Hunk {
	var hunks []Hunk
	before, after := 1, 1 // position of lines[i]
	end := 0              // lines[:end] are in hunks already
	for i, l := range lines {
		if l.Edit != Keep {
			first := max(end, i-around)
			if len(hunks) == 0 || first > end {
				back := i - first // kept lines only, so both texts move alike
				hunks = append(hunks, Hunk{From: before - back, To: after - back})
			}
			last := min(len(lines), i+around+1)
			h := &hunks[len(hunks)-1]
			h.Lines = append(h.Lines, lines[max(first, end):last]...)
			end = last
		}
		if l.Edit != Add {
			before++
		}
		if l.Edit != Remove {
			after++
		}
	}
	return hunks
}
