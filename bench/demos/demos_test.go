package demos

import (
	"reflect"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench"
)

// The mixture has its shares and repeats itself for the same seed.
func TestMix(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
		n       int
		want    map[string]float64
	}{
		{"clean, drills", Clean(), 7000, map[string]float64{"drill": 0.70, "lookup": 0.18, "sums": 0.12}},
		{"sloppy", Sloppy(), 4000, map[string]float64{"drill": 0, "lookup": 0.6, "sums": 0.4}},
	} {
		a, b := New(1, c.options), New(1, c.options)
		count := map[string]float64{}
		for i := range c.n {
			episode := a.Next(0)
			if i < 200 && !reflect.DeepEqual(episode, b.Next(0.5)) {
				t.Fatalf("%s: episode %d differs", c.name, i)
			}
			count[episode.Kind]++
		}
		for kind, want := range c.want {
			if got := count[kind] / float64(c.n); got < want-0.02 || got > want+0.02 {
				t.Errorf("%s: %.3f are %s, want %.2f", c.name, got, kind, want)
			}
		}
		if c.options.Drills > 0 {
			for range 500 {
				if a.Next(0).Kind == "drill" {
					t.Fatalf("%s: a drill after the first %d episodes", c.name, c.options.Drills)
				}
			}
		}
	}
	if reflect.DeepEqual(first(1), first(2)) {
		t.Error("two seeds make the same episodes")
	}
}

func first(seed uint64) []bench.Episode {
	var list []bench.Episode
	for mix := New(seed, Sloppy()); len(list) < 5; {
		list = append(list, mix.Next(0))
	}
	return list
}
