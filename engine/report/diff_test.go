package report

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// sides puts the two texts of a comparison together again.
func sides(lines []Line) (before, after string) {
	var a, b []string
	for _, l := range lines {
		if l.Edit != Add {
			a = append(a, l.Text)
		}
		if l.Edit != Remove {
			b = append(b, l.Text)
		}
	}
	return strings.Join(a, "\n"), strings.Join(b, "\n")
}

// apply replaces each hunk's old lines in a text by its new ones, as patch does.
func apply(t *testing.T, before string, hunks []Hunk) string {
	t.Helper()
	old := strings.Split(before, "\n")
	var out []string
	at := 0
	for _, h := range hunks {
		if h.From-1 < at || h.From-1 > len(old) {
			t.Fatalf("hunk at %d after %d of %d", h.From-1, at, len(old))
		}
		out = append(out, old[at:h.From-1]...)
		at = h.From - 1
		if h.To != len(out)+1 {
			t.Fatalf("hunk says line %d of the new text, it is %d", h.To, len(out)+1)
		}
		for _, l := range h.Lines {
			if l.Edit != Add {
				if old[at] != l.Text {
					t.Fatalf("line %d is %q, the hunk says %q", at+1, old[at], l.Text)
				}
				at++
			}
			if l.Edit != Remove {
				out = append(out, l.Text)
			}
		}
	}
	return strings.Join(append(out, old[at:]...), "\n")
}

func check(t *testing.T, before, after string) []Line {
	t.Helper()
	lines := Compare(before, after)
	if a, b := sides(lines); a != before || b != after {
		t.Fatalf("%q, %q: the comparison holds %q, %q", before, after, a, b)
	}
	for around := range 5 {
		hunks := Hunks(lines, around)
		if got := apply(t, before, hunks); got != after {
			t.Fatalf("%q with %d lines around: got %q, want %q", before, around, got, after)
		}
		if before == after && len(hunks) > 0 {
			t.Fatal("hunks between equal texts")
		}
	}
	return lines
}

func TestCompare(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"", "", " "},
		{"a\nb\nc", "a\nb\nc", "   "},
		{"a\nb\nc", "a\nx\nc", " -+ "},
		{"a\nb", "a\nb\nc", "  +"},
		{"a\nb\nc", "b\nc", "-  "},
		{"a\na\na", "a\na", "  -"},
		{"a\nb\nc\nd", "b\nx\nd", "- -+ "},
	} {
		got := ""
		for _, l := range check(t, c.before, c.after) {
			got += string(l.Edit)
		}
		if got != c.want {
			t.Errorf("%q → %q: %q, want %q", c.before, c.after, got, c.want)
		}
	}
}

// The kept lines of random pairs are as many as the longest common subsequence found by
// trying all subsequences.
func TestCompareKeepsAsMuchAsCanBe(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func() []string {
		s := make([]string, 1+random.IntN(8))
		for i := range s {
			s[i] = strconv.Itoa(random.IntN(3))
		}
		return s
	}
	for range 300 {
		a, b := draw(), draw()
		kept := 0
		for _, l := range check(t, strings.Join(a, "\n"), strings.Join(b, "\n")) {
			if l.Edit == Keep {
				kept++
			}
		}
		if want := longest(a, b); kept != want {
			t.Errorf("%v, %v: %d kept, want %d", a, b, kept, want)
		}
	}
}

func longest(a, b []string) int {
	best := 0
	for subset := range 1 << len(a) {
		n, j := 0, 0
		for i := range a {
			if subset>>i&1 == 0 {
				continue
			}
			for j < len(b) && b[j] != a[i] {
				j++
			}
			if j == len(b) {
				n = -1
				break
			}
			n, j = n+1, j+1
		}
		best = max(best, n)
	}
	return best
}

func TestCompareOfHugeTexts(t *testing.T) {
	var a, b []string
	for i := range 3000 {
		a, b = append(a, "a"+strconv.Itoa(i)), append(b, "b"+strconv.Itoa(i))
	}
	check(t, "head\n"+strings.Join(a, "\n")+"\ntail", "head\n"+strings.Join(b, "\n")+"\ntail")
}

func TestHunkHeader(t *testing.T) {
	hunks := Hunks(Compare("1\n2\n3\n4\n5\n6\n7\n8\n9", "1\n2\n3\n4\nx\n6\n7\n8\n9\n10"), 1)
	if len(hunks) != 2 || hunks[0].Header() != "@@ -4,3 +4,3 @@" || hunks[1].Header() != "@@ -9,1 +9,2 @@" {
		t.Errorf("%+v", hunks)
	}
}

func FuzzCompare(f *testing.F) {
	f.Add("a\nb\nc", "a\nc\nd")
	f.Add("", "\n\n")
	f.Fuzz(func(t *testing.T, before, after string) { check(t, before, after) })
}
