package lower

import (
	"cmp"
	"slices"
	"strings"
)

// Text is a source after some rounds of rewriting.
type Text struct {
	Source string
	origin []int32 // of each byte and of the end: the offset in the first source
}

// New is a source as it was written.
func New(source string) Text { return Text{Source: source} }

// Origin is the offset in the first source of what is now at an offset.
func (t Text) Origin(offset int) int {
	if t.origin == nil {
		return offset
	}
	return int(t.origin[min(max(offset, 0), len(t.origin)-1)])
}

// edit puts text in the place of what lies between two offsets. Line breaks that it
// deletes are put behind the text, which must end where Go allows them.
type edit struct {
	from, to int
	text     string
}

// rewrite is a set of edits that only mean the same together, and what it adds at the end
// of the source.
type rewrite struct {
	edits  []edit
	helper string
}

// places are edits that don't touch one another, in the order of the text.
type places []edit

// collides says whether a rewrite touches one of the places. Insertions at one place do, as
// their order would matter.
func (p places) collides(r rewrite) bool {
	return slices.ContainsFunc(r.edits, func(e edit) bool {
		i, _ := slices.BinarySearchFunc(p, e.from, func(taken edit, from int) int { return cmp.Compare(taken.to, from) })
		return i < len(p) && p[i].from <= e.to
	})
}

func (p *places) add(r rewrite) {
	for _, e := range r.edits {
		i, _ := slices.BinarySearchFunc(*p, e, func(a, b edit) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
		*p = slices.Insert(*p, i, e)
	}
}

// choose takes, in order, each rewrite that collides with none before it.
func choose(list []rewrite) (chosen []rewrite) {
	var taken places
	for _, r := range list {
		if !taken.collides(r) {
			taken.add(r)
			chosen = append(chosen, r)
		}
	}
	return chosen
}

// apply makes the text that rewrites lead to.
func (t Text) apply(list []rewrite) Text {
	var edits []edit
	helpers := ""
	for _, r := range list {
		edits = append(edits, r.edits...)
		if !strings.Contains(t.Source, r.helper) && !strings.Contains(helpers, r.helper) {
			helpers += r.helper
		}
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	var origin []int32
	at := 0
	copyTo := func(end int) {
		for ; at < end; at++ {
			b.WriteByte(t.Source[at])
			origin = append(origin, int32(t.Origin(at)))
		}
	}
	put := func(text string) {
		b.WriteString(text)
		for range len(text) {
			origin = append(origin, int32(t.Origin(at)))
		}
	}
	for _, e := range edits {
		copyTo(e.from)
		put(e.text + strings.Repeat("\n", max(0, strings.Count(t.Source[e.from:e.to], "\n")-strings.Count(e.text, "\n"))))
		at = e.to
	}
	copyTo(len(t.Source))
	if helpers != "" {
		put("\n" + helpers)
	}
	return Text{b.String(), append(origin, int32(t.Origin(len(t.Source))))}
}
