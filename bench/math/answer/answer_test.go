package answer

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

func TestBoxed(t *testing.T) {
	for _, c := range []struct {
		message string
		want    []string
		err     error
	}{
		{`It is \boxed{5}.`, []string{"5"}, nil},
		{`\boxed{ \frac{1}{2} }`, []string{`\frac{1}{2}`}, nil},
		{`\boxed{1} and \boxed{2}`, []string{"1", "2"}, nil},
		{`\boxed{\{1,2\}}`, []string{`\{1,2\}`}, nil},
		{`\boxed{\boxed{5}}`, []string{`\boxed{5}`}, nil},
		{`I write \boxed{} as asked: \boxed{5}`, []string{"5"}, nil},
		{`<think>\boxed{1</think> \boxed{5}`, []string{"5"}, nil},
		{`\boxed{5`, nil, ErrNoBox},
		{`\boxed{5} or \boxed{6`, nil, ErrNoBox},
		{`\boxed{5\}`, nil, ErrNoBox},
		{`boxed{5}`, nil, ErrNoBox},
		{`\boxed 5`, nil, ErrNoBox},
		{`<think>\boxed{5}</think>`, nil, ErrNoBox},
		{`5`, nil, ErrNoBox},
		{``, nil, ErrNoBox},
		{`\boxed{ }`, nil, ErrEmpty},
	} {
		got, err := Boxed(c.message)
		if !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.message, got, err)
		}
	}
}

func TestJudge(t *testing.T) {
	many := strings.Repeat(`\boxed{5}`, maxBoxes+1)
	for _, c := range []struct {
		message, reference string
		want               engine.VerdictKind
		read               string
	}{
		{`so \boxed{0.5}`, `\frac12`, engine.Equal, "1/2"},
		{`\boxed{5}, that is \boxed{5.0}`, "5", engine.Equal, "5"},
		{`\boxed{4}, no, \boxed{5}`, "5", engine.Different, "5"},
		{`\boxed{5}, no, \boxed{4}`, "5", engine.Different, "4"},
		{`\boxed{5}, or \boxed{\foo}`, "5", engine.Unparsed, `\foo`},
		{`\boxed{\foo}, or \boxed{4}`, "5", engine.Different, "4"},
		{`\boxed{4}, or \boxed{\foo}`, "5", engine.Different, `\foo`},
		{many, "5", engine.Different, "5"},
		{`\boxed{}`, "5", engine.Unparsed, ""},
		{`5`, "5", engine.Unparsed, ""},
		{`\boxed{\fancy{x}}`, `\fancy{x}`, engine.Equal, `\fancy{x}`},
		{`\boxed{ \fancy {x}. }`, `\fancy{x}`, engine.Equal, `\fancy{x}`},
		{`\boxed{5}`, `\fancy{x}`, engine.Unparsed, "5"},
	} {
		got, read := Judge(c.message, c.reference)
		if got != c.want || read != c.read {
			t.Errorf("%.60s against %s: %s %q, want %s %q", c.message, c.reference, got, read, c.want, c.read)
		}
	}
}

// hostile answers are larger or deeper than any honest one. All of them are unparsed
// against 5; BenchmarkHostile says what they cost.
var hostile = map[string]string{
	"tower":           "9^9^9^9",
	"brackets":        strings.Repeat("(", 1<<20),
	"braces":          strings.Repeat("{", maxBytes),
	"closed brackets": strings.Repeat("(", 2000) + "5" + strings.Repeat(")", 2000),
	"digits":          strings.Repeat("9", 10000),
	"digits that fit": strings.Repeat("9", maxBytes-1) + "!",
	"fractions":       strings.Repeat(`\frac{1}{`, 400) + "2" + strings.Repeat("}", 400),
	"roots":           strings.Repeat(`\sqrt`, 800) + "2",
	"signs":           strings.Repeat("-", maxBytes-1) + "5",
	"factorials":      "3" + strings.Repeat("!", 4000),
	"sum":             "1" + strings.Repeat("+3000!", 600),
	"product":         "2" + strings.Repeat("^{9}^{9}", 100),
	"squares":         strings.Repeat("(", 30) + "1.0000001" + strings.Repeat(")^9", 30),
	"fonts":           strings.Repeat(`\text{`, 600) + "5" + strings.Repeat("}", 600),
	"money":           strings.Repeat(`\$1+`, 1000) + "1",
	"sines":           strings.Repeat(`\sin(`, 40) + "x" + strings.Repeat(")", 40) + strings.Repeat(`+\sin x^{99}\log(x+7)`, 100),
	"powers":          "x" + strings.Repeat(`+x^{1/3}`, 180),
	"arcs":            "x" + strings.Repeat(`+\arctan x^{0.3}`, 200),
	"list":            strings.Repeat(`\sqrt{2},`, 99) + `\sqrt{3}`,
	"either":          strings.Repeat(`\pm 1,`, 99) + "1",
	"binomials":       strings.Repeat(`\binom{3000}{1500}+`, 180) + "1",
	"matrix":          `\begin{pmatrix}` + strings.Repeat(`1&`, 1000) + `1\end{pmatrix}`,
	"exponents":       "1e9999+1e-9999",
	"big exponent":    "1.5e4000",
}

func TestHostile(t *testing.T) {
	for name, text := range hostile {
		if got := Compare(text, "5"); got == engine.Equal {
			t.Errorf("%s is equal to 5", name)
		}
		if got, _ := Judge(`\boxed{`+text+`}`, text); got == engine.Different {
			t.Errorf("%s is different from itself", name)
		}
	}
}

func BenchmarkHostile(b *testing.B) {
	for name, text := range hostile {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Compare(text, text+"+0")
			}
		})
	}
}

// messages are replies of a megabyte around the boxes.
func messages() map[string]string {
	fill := func(part string) string { return strings.Repeat(part, 1<<20/len(part)) }
	return map[string]string{
		"openings": fill(`\boxed{`), "boxes": fill(`\boxed{1}`), "other boxes": fill(`\boxed{1}\boxed{2}`), "thoughts": fill("</think>"),
		"braces": `\boxed{` + fill("{"), "closed": `\boxed{` + fill("}"), "escapes": `\boxed{` + fill(`\}`), "words": fill("so it is ") + `\boxed{5}`,
		"long box": `\boxed{` + fill("9") + `}`, "spaces": `\boxed{` + fill(" ") + `5}`,
	}
}

func TestMessages(t *testing.T) {
	for name, text := range messages() {
		if got, read := Judge(text, "5"); got == engine.Equal != (name == "words" || name == "spaces") || len(read) > 1<<20 {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func BenchmarkMessages(b *testing.B) {
	for name, text := range messages() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Judge(text, "5")
			}
		})
	}
}

// The same pairs from many goroutines give the same verdicts.
func TestSideBySide(t *testing.T) {
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for _, p := range equalPairs {
				if Compare(p[0], p[1]) != engine.Equal {
					t.Errorf("%q", p)
				}
			}
		})
	}
	wait.Wait()
}

// What can be read is equal to itself, the verdict is always the same, and no text breaks
// anything.
func FuzzCompare(f *testing.F) {
	for _, list := range [][][2]string{equalPairs, differentPairs} {
		for _, p := range list {
			f.Add(p[0], p[1])
		}
	}
	for _, text := range hostile {
		if len(text) < 5000 {
			f.Add(text, "5")
		}
	}
	f.Fuzz(func(t *testing.T, a, r string) {
		got := Compare(a, r)
		if again := Compare(a, r); again != got {
			t.Errorf("%s, then %s", got, again)
		}
		// Not by the text, which is the same, but as mathematics.
		if same, _, err := attempt(a, a, true); err == nil && !same {
			t.Errorf("%q is different from itself", a)
		}
		Judge(a, r)
	})
}

func BenchmarkJudge(b *testing.B) {
	pairs := append(slices.Clone(equalPairs), differentPairs...)
	for i, p := range pairs {
		pairs[i][0] = `So the answer is \boxed{` + p[0] + `}.`
	}
	i := 0
	for b.Loop() {
		Judge(pairs[i%len(pairs)][0], pairs[i%len(pairs)][1])
		i++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "verdicts/s")
}

// A comma between three digits and three is a list as well as a number: what agrees in one of
// the two readings is equal.
func TestCompare_commas(t *testing.T) {
	for _, c := range []struct {
		answer, reference string
		want              engine.VerdictKind
	}{
		{"100,200", `100 \text{ and } 200`, engine.Equal}, {"100,200", "200, 100", engine.Equal}, {"100,200", "100200", engine.Equal},
		{"100,200", "100", engine.Different}, {"100,200", "100, 300", engine.Different}, {"100,200", "100201", engine.Different},
	} {
		if got := Compare(c.answer, c.reference); got != c.want {
			t.Errorf("%s against %s: %s, want %s", c.answer, c.reference, got, c.want)
		}
	}
}
