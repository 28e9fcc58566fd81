package bench

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// The pattern that LastPair stands for: it takes 70 ms for a megabyte.
var pair = regexp.MustCompile(`<answer>([^<]*)</answer>`)

func byPattern(text string) (string, bool) {
	pairs := pair.FindAllStringSubmatch(text, -1)
	if len(pairs) == 0 {
		return "", false
	}
	return pairs[len(pairs)-1][1], true
}

var texts = []string{"", "x", "<answer>", "</answer>", "<answer></answer>", "<answer>a</answer>", "<answer>a</answer><answer>b</answer> c",
	"<answer>a</answer><answer>b", "<answer><answer>a</answer></answer>", "<answer>a<b</answer>", "<answer>a</answer></answer>", "</answer><answer>",
	"<answer>a\n</answer>", "<answer>1 < 2</answer>", "<answer>a</answer><answer>b<</answer>", "<<answer>\xff</answer>"}

func TestLastPair(t *testing.T) {
	for _, text := range texts {
		got, ok := LastPair(text, "<answer>", "</answer>")
		if want, found := byPattern(text); got != want || ok != found {
			t.Errorf("%q: %q %v, want %q %v", text, got, ok, want, found)
		}
	}
	if got, ok := Answer("<answer> Ida\n</answer> "); got != "ida" || !ok {
		t.Errorf("%q %v", got, ok)
	}
}

func FuzzLastPair(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := LastPair(text, "<answer>", "</answer>")
		if want, found := byPattern(text); got != want || ok != found {
			t.Errorf("%q: %q %v, want %q %v", text, got, ok, want, found)
		}
	})
}

// Answers of a megabyte.
func BenchmarkLastPair(b *testing.B) {
	for name, part := range map[string]string{"brackets": "(", "openings": "<answer>", "closings": "</answer>", "less": "<"} {
		text := strings.Repeat(part, 1<<20/len(part))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Answer(text)
			}
		})
	}
}

// The split by hash is part of what a run's tasks are: a change of it breaks every archive.
func TestIsTest(t *testing.T) {
	n := 0
	for i := range 2560 {
		if IsTest(TaskID("x", fmt.Sprint(i))) {
			n++
		}
	}
	if n < 200 || n > 320 {
		t.Errorf("%d of 2560 are test, want about 260", n)
	}
	if !IsTest("t0000000000000019") || IsTest("t000000000000001a") || IsTest("t00000000000000ff") {
		t.Error("the boundary has moved")
	}
}

// Ids are in archives: the hash is of the parts in their order, each by itself.
func TestTaskID(t *testing.T) {
	if got := TaskID("lookup", "1", "Where?"); got != "td7587e24762875f9" {
		t.Errorf("got %s", got)
	}
	if TaskID("ab", "c") == TaskID("a", "bc") {
		t.Error("two lists of parts have one id")
	}
}
