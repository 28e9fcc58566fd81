package tokenizer

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const nanoPattern = `[a-h][1-8]|[A-Z][a-z]+|[A-Z]+| ?[a-z]+|[0-9]|\n| ?[^A-Za-z0-9\s]+|\s`

var nanoAdded = []AddedToken{
	{Content: "<|endoftext|>", Special: true}, {Content: "<|im_start|>", Special: true}, {Content: "<|im_end|>", Special: true},
	{Content: "<search>"}, {Content: "</search>"},
}

// texts are sentences over a few hundred made-up names, always the same.
func texts() []string {
	r := rand.New(rand.NewPCG(1, 2))
	name := func() string {
		s := ""
		for range 2 + r.IntN(2) {
			s += string("bdfgklmnprst"[r.IntN(12)]) + string("aeiou"[r.IntN(5)])
		}
		return strings.ToUpper(s[:1]) + s[1:]
	}
	var list []string
	for range 300 {
		list = append(list, "The mayor of "+name()+" is "+name()+".\n<search>"+name()+"</search><|im_end|>")
	}
	return list
}

func trained(t testing.TB, merges int) *Tokenizer {
	t.Helper()
	tok, err := Train(slices.Values(texts()), TrainSpec{Merges: merges, Pattern: nanoPattern, Added: nanoAdded})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// Ensure that training gives exactly the ids asked for, and the same
// vocabulary from the same texts in another order.
func TestTrainIsDeterministic(t *testing.T) {
	tok := trained(t, 200)
	if want := 256 + 200 + len(nanoAdded); tok.Size() != want {
		t.Fatalf("size %d, want %d", tok.Size(), want)
	}
	if id, _ := tok.ID("<|endoftext|>"); id != 456 {
		t.Fatalf("the first added token has id %d, want 456", id)
	}
	reversed := texts()
	slices.Reverse(reversed)
	other, err := Train(slices.Values(reversed), TrainSpec{Merges: 200, Pattern: nanoPattern, Added: nanoAdded})
	if err != nil {
		t.Fatal(err)
	}
	var a, b strings.Builder
	if err := errors.Join(tok.Write(&a), other.Write(&b)); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Fatal("the order of the texts changed the vocabulary")
	}
}

// Ensure that ties go to the lowest pair: with one word "abc" the pair a,b is
// merged before b,c, then ab,c.
func TestTrainTies(t *testing.T) {
	tok, err := Train(slices.Values([]string{"abc"}), TrainSpec{Merges: 2, Pattern: `\w+`})
	if err != nil {
		t.Fatal(err)
	}
	if got := pieces(tok, []int32{256, 257}); !slices.Equal(got, []string{"ab", "abc"}) {
		t.Fatalf("merged tokens %q", got)
	}
	_, err = Train(slices.Values([]string{"abc"}), TrainSpec{Merges: 3, Pattern: `\w+`})
	if !errors.Is(err, ErrFormat) {
		t.Fatalf("three merges of one word: %v", err)
	}
}

// Ensure that a trained tokenizer encodes the same after save and load.
func TestTrainedSurvivesTheDisk(t *testing.T) {
	tok := trained(t, 300)
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := tok.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts() {
		if got, want := again.Encode(text), tok.Encode(text); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, want %v", text, got, want)
		}
	}
}

// Ensure that a name has the same pieces wherever it stands (spec/nano.md 1).
func TestNamesAreCutTheSameEverywhere(t *testing.T) {
	tok := trained(t, 300)
	name := tok.Encode("Gatero")
	for _, before := range []string{" ", ">", "\n", "is "} {
		ids := tok.Encode(before + "Gatero")
		if !slices.Equal(ids[len(ids)-len(name):], name) {
			t.Errorf("after %q: %q, want %q at the end", before, pieces(tok, ids), pieces(tok, name))
		}
	}
}

// Ensure that the heap merges as the definition says: lowest rank first,
// leftmost on equal rank, checked against the definition itself.
func TestMergesFollowTheDefinition(t *testing.T) {
	tok := fixture(t, "qwen3")
	r := rand.New(rand.NewPCG(3, 4))
	letters := "aeornst hw"
	for range 300 {
		word := make([]byte, 1+r.IntN(60))
		for i := range word {
			word[i] = letters[r.IntN(len(letters))]
		}
		if got, want := tok.model.apply(string(word)), naive(&tok.model, string(word)); !slices.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", word, pieces(tok, got), pieces(tok, want))
		}
	}
}

// naive is BPE as it is defined (spec/models.md section 5).
func naive(m *bpe, word string) []int32 {
	var ids []int32
	for i := range len(word) {
		ids = append(ids, m.single[word[i]])
	}
	for {
		at, best := -1, merge{}
		for i := 1; i < len(ids); i++ {
			if found, ok := m.merges[pair(ids[i-1], ids[i])]; ok && (at < 0 || found.rank < best.rank) {
				at, best = i-1, found
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = best.id
		ids = slices.Delete(ids, at+1, at+2)
	}
}

// Ensure that many goroutines get what one gets, and that a full cache, long
// words and long runs of spaces change nothing.
func TestConcurrentUse(t *testing.T) {
	tok := fixture(t, "qwen3")
	text := strings.Join(texts(), "") + strings.Repeat("x", 1000) + strings.Repeat(" ", 300000) + "y"
	want := tok.Encode(text)
	if got := string(tok.Bytes(want)); got != text {
		t.Fatal("encoding lost text")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := tok.Encode(text); !slices.Equal(got, want) {
				t.Error("a concurrent call returned other ids")
			}
		})
	}
	wg.Wait()
}
