package trainer

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/cuda/fakecard"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// fakeCard is a card that is not there: everything but the card itself is the real thing.
func fakeCard(t *testing.T) *fakecard.Card {
	t.Helper()
	kernels, err := cuda.SIMTKernels()
	if err != nil {
		t.Skip(err)
	}
	return fakecard.Use(t, kernels)
}

func openCard(t *testing.T) *cuda.Device {
	t.Helper()
	dev, err := cuda.Open("cuda", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Close)
	return dev
}

// smallStep is one step of a small model on rows that fill one micro-batch.
func smallStep(t *testing.T, dev *cuda.Device, o Options) (step Step, grads, weights []float32, micro int, err error) {
	t.Helper()
	f := readFixture(t, "qwen3-untied")
	files, err := checkpoint.Open(f.files)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	config, err := files.Config()
	if err != nil {
		t.Fatal(err)
	}
	tr := bare(t, config, dev, o)
	if err := tr.InitNormal(1, 0.1); err != nil {
		t.Fatal(err)
	}
	before := host(t, tr.model.params)
	room, err := dev.Room()
	if err != nil {
		t.Fatal(err)
	}
	if free := room.Held - room.Used - 128<<10; free > 0 { // so that the tape is a piece of its own
		full, err := dev.Floats(int(free / floatBytes))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(full.Free)
	}
	rows := someRows(rand.New(rand.NewPCG(5, 6)), config.Vocab, 16, 16)
	step, err = tr.Step(t.Context(), rows, 1e-3)
	if err != nil {
		if after := host(t, tr.model.params); !slices.Equal(before, after) {
			t.Error("a step that failed changed the weights")
		}
		return step, nil, nil, 0, err
	}
	return step, host(t, tr.opt.grads), host(t, tr.model.params), tr.microTokens, nil
}

// Ensure that wherever the card runs out of memory, the step goes on in smaller micro-batches
// with the same gradient: before its forward, and when its backward has added part of it.
func TestOutOfMemoryInAStep(t *testing.T) {
	card := fakeCard(t)
	t.Setenv("FAKE_TOTAL", strconv.Itoa(56<<20)) // less than what the arena likes to grow by: each piece is got by itself
	dev := openCard(t)
	want, grads, weights, whole, err := smallStep(t, dev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	dev.Close()
	for _, n := range []int{4, 6} { // of the tape, of cuBLASLt's workspace; each is asked for twice, with more first
		t.Setenv("FAKE_ALLOC", strconv.Itoa(n))
		dev, err := cuda.Open("cuda", 1)
		if err != nil {
			t.Fatal(err)
		}
		got, g, w, micro, err := smallStep(t, dev, Options{})
		dev.Close()
		if _, left := card.Happened("release with bytes left"); left != 0 {
			t.Errorf("allocation %d failed: %d bytes are left at the end", n, left)
		}
		if err != nil {
			t.Fatalf("allocation %d failed: %v", n, err)
		}
		if got.Tokens != want.Tokens || got.Forward != want.Forward {
			t.Errorf("allocation %d failed: step %+v, want %+v", n, got, want)
		}
		alike(t, "gradient", g, grads, 1e-6)
		alike(t, "weight", w, weights, 3e-3)
		if micro >= whole {
			t.Errorf("allocation %d failed: micro-batches are still of %d", n, micro)
		}
	}
}

// Ensure that generating and training in turns leaves the card's memory as it was.
func TestPhasesLeaveMemoryFlat(t *testing.T) {
	card := fakeCard(t)
	dev := openCard(t)
	f := readFixture(t, "qwen3-tied")
	tr, err := Open(f.files, dev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	planned := tr.Memory().Total()
	rows := someRows(rand.New(rand.NewPCG(1, 1)), tr.Config().Vocab, 3, 12)
	var first cuda.Room
	for i := range 50 {
		if _, err := tr.Policy().Generate(t.Context(), engine.Request{Prompt: f.Prompt, MaxTokens: 2 + i%3,
			Sampling: engine.Sampling{Temperature: 1, TopP: 1}, Seed: uint64(i)}); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Step(t.Context(), rows, 1e-4); err != nil {
			t.Fatal(err)
		}
		room, err := dev.Room()
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			first = room
		}
		if i > 2 && (room.Used != first.Used || room.Held != first.Held || room.CardFree != first.CardFree) {
			t.Fatalf("after %d turns %+v, after 3 %+v", i+1, room, first)
		}
	}
	if first.Held < planned {
		t.Errorf("the card holds %d bytes, the plan of %d was to be reserved", first.Held, planned)
	}
	if n, _ := card.Happened("graph launch"); n < 40 {
		t.Errorf("%d decode steps were replayed from a graph", n)
	}
	tr.Close()
	dev.Close()
	if made, _ := card.Happened("graph of"); made == 0 {
		t.Error("no graph was made")
	} else if dropped, _ := card.Happened("graph drop"); dropped != made {
		t.Errorf("%d graphs made, %d dropped", made, dropped)
	}
	if _, left := card.Happened("release with bytes left"); left != 0 {
		t.Errorf("%d bytes are left at the end", left)
	}
}

// Ensure that a card lost in the middle of a step ends it, and that what was saved before is whole.
func TestCardLostInAStep(t *testing.T) {
	fakeCard(t)
	f := readFixture(t, "qwen3-tied")
	t.Setenv("FAKE_LAUNCH", "25")
	dev := openCard(t)
	tr, err := Open(f.files, dev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	dir := t.TempDir()
	id, err := tr.Learner().Save(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	rows := someRows(rand.New(rand.NewPCG(1, 1)), tr.Config().Vocab, 3, 12)
	if _, err := tr.Step(t.Context(), rows, 1e-4); !errors.Is(err, cuda.Broken) || !strings.Contains(err.Error(), "lost card 0") {
		t.Fatalf("%v, want a lost card", err)
	}
	if _, err := tr.Policy().Generate(t.Context(), engine.Request{Prompt: f.Prompt, MaxTokens: 2, Sampling: engine.Sampling{Temperature: 1, TopP: 1}}); !errors.Is(err, cuda.Broken) {
		t.Errorf("then Generate gives %v, want Broken", err)
	}
	again, err := OpenDir(dir, cpu(t, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := again.Policy().Weights(); got != id {
		t.Errorf("the checkpoint holds %s, saved was %s", got, id)
	}
}

// Ensure that a plan which the card has no room for is refused before anything is loaded, with
// the plan and what is free.
func TestPlanDoesNotFitTheCard(t *testing.T) {
	fakeCard(t)
	t.Setenv("FAKE_TOTAL", strconv.Itoa(64<<20))
	t.Setenv("FAKE_OTHERS", strconv.Itoa(60<<20))
	f := readFixture(t, "qwen3-tied")
	_, err := Open(f.files, openCard(t), Options{})
	if !errors.Is(err, cuda.NoMemory) || !strings.Contains(err.Error(), "another process is on the card") || !strings.Contains(err.Error(), "the plan is") {
		t.Errorf("%v, want a line with what is free and the plan", err)
	}
}
