package report

import (
	"net/url"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

func TestQueryComesBackFromItsAddress(t *testing.T) {
	for _, q := range []RolloutQuery{
		{}, {State: "wrong", Harness: "h1", Task: "t&=2", Phase: "select/2", Sort: "tokens", Down: true, Page: 3}, {Phase: "a b/ü"},
	} {
		u, err := url.Parse(q.path())
		if err != nil {
			t.Fatal(err)
		}
		if got := ParseRolloutQuery(u.Query()); got != q {
			t.Errorf("%s: got %+v, want %+v", q.path(), got, q)
		}
	}
	if got := ParseRolloutQuery(url.Values{"page": {"-4"}, "else": {"x"}}); got != (RolloutQuery{}) {
		t.Errorf("got %+v", got)
	}
}

// Foreign text in a list, a rollout or a harness stays text.
func TestPagesAreNotMovedByHostileText(t *testing.T) {
	const hostile = `"><script>alert(1)</script><a href="javascript:x`
	pages := map[string]func(b *strings.Builder, text string) error{
		"list": func(b *strings.Builder, text string) error {
			return WriteRollouts(b, RolloutList{Run: text, Bar: Bar{Now: text}, Query: RolloutQuery{State: text, Harness: text, Task: text, Phase: text, Sort: text},
				Rows: []RolloutRow{{File: text, State: text, Task: text, Harness: text, Phase: text}}, Found: 1, Of: 1})
		},
		"rollout": func(b *strings.Builder, text string) error {
			r := poisoned(text)
			return WriteRollout(b, Bar{Now: text}, r.Transcripts[0], r.Decode)
		},
		"harness": func(b *strings.Builder, text string) error {
			h := engine.Harness{ID: engine.HarnessID(text), Source: text, Meta: engine.Meta{Axis: text, Hypothesis: text}}
			parent := h
			parent.Source += "\n" + text
			return WriteHarness(b, Bar{Now: text}, h, parent, sampleRecords())
		},
	}
	for name, write := range pages {
		var want, got strings.Builder
		if err := write(&want, "harmless"); err != nil {
			t.Fatal(err)
		}
		if err := write(&got, hostile); err != nil {
			t.Fatal(err)
		}
		for _, c := range []string{"<script", "<a ", "<input", "href=\"javascript"} {
			if a, b := strings.Count(want.String(), c), strings.Count(got.String(), c); a != b {
				t.Errorf("%s: %q stands there %d times, %d without hostile text", name, c, b, a)
			}
		}
	}
}

func TestFamilyLinksParents(t *testing.T) {
	f := newFamily(sampleRecords(), func(id engine.HarnessID) string { return "#" + string(id) }, 960, 320)
	classes := map[string]int{}
	for _, n := range f.Nodes {
		classes[n.Class]++
	}
	// Two phases begin with the harness in use; four candidates, two of them taken.
	if classes["again"] != 2 || classes["taken"] != 2 || classes["refused"] != 2 {
		t.Errorf("nodes %v", classes)
	}
	edges := map[string]int{}
	for _, e := range f.Edges {
		edges[e.Class]++
	}
	if edges["taken"] != 2 || edges["born"] != 2 || edges["again"] != 1 {
		t.Errorf("edges %v", edges)
	}
	if last := f.Edges[len(f.Edges)-1]; last.Class != "taken" {
		t.Errorf("a line of class %s lies above what was taken", last.Class)
	}
	if f.Nodes[0].Y <= f.Nodes[1].Y {
		t.Error("a better score is not higher")
	}
}
