package cuda

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// bed is a device under test with the helpers that every operator test uses. It frees what it
// reserved and fails the test on any error.
type bed struct {
	*Device
	t *testing.T
}

var isas = []string{"avx512", "avx2", "portable"}

// openBed opens the CPU with an instruction set, or simt, "simt" followed by a way of running.
func openBed(t *testing.T, isa string, threads int) *bed {
	t.Helper()
	kind := "cpu"
	if way, ok := strings.CutPrefix(isa, "simt"); ok {
		kind, isa = "simt", strings.TrimSpace(way)
	}
	d, err := Open(kind, threads, WithISA(isa))
	if errors.Is(err, NoDevice) {
		t.Skipf("this machine lacks %s %s: %v", kind, isa, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return &bed{d, t}
}

// onAll runs f on every instruction set that the machine has, and on simt.
func onAll(t *testing.T, f func(b *bed)) {
	onEvery(t, f)
	t.Run("simt", func(t *testing.T) { f(openBed(t, "simt", 2)) })
}

// slow reports whether a shape of this work is too much for this device and a quick test.
func (b *bed) slow(work int) bool { return b.Kind() == "simt" && work > simtWork() }

// same fails unless both are the same floats: bit for bit on the CPU, where the order of all
// operations is fixed, and within rounding elsewhere.
func (b *bed) same(name string, got, want []float32) {
	b.t.Helper()
	if b.Kind() == "cpu" {
		sameBits(b.t, name, got, want)
		return
	}
	near(b.t, name, got, wide(want), 4e-6)
}

// onEvery runs f on every instruction set that the machine has.
func onEvery(t *testing.T, f func(b *bed)) {
	for _, isa := range isas {
		t.Run(isa, func(t *testing.T) { f(openBed(t, isa, 1)) })
	}
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) put(x []float32) Floats {
	b.t.Helper()
	f, err := b.Device.Floats(len(x))
	b.must(err)
	b.t.Cleanup(f.Free)
	b.must(f.Upload(x))
	return f
}

// pack is the packed copy of a weight, in room that held something else.
func (b *bed) pack(p Precision, w Floats, N, M int) Floats {
	packed := b.poison(b.PackedFloats(p, N, M))
	b.must(b.PackWeight(Pack{N: N, M: M, Precision: p, W: w, Packed: packed}))
	return packed
}

func (b *bed) ints(x []int32) Ints {
	b.t.Helper()
	f, err := b.Device.Ints(len(x))
	b.must(err)
	b.t.Cleanup(f.Free)
	b.must(f.Upload(x))
	return f
}

func (b *bed) get(f Floats) []float32 {
	b.t.Helper()
	x := make([]float32, f.Len())
	b.must(f.Download(x))
	return x
}

// poison reserves n floats that are not numbers: what is not overwritten shows.
func (b *bed) poison(n int) Floats { return b.put(spread(nil, 1, n, n)) }

var nan = float32(math.NaN())

// spread lays dense rows of the given width ld apart, with poison between them; no data gives
// poison only.
func spread(x []float32, rows, width, ld int) []float32 {
	out := make([]float32, max(0, (rows-1)*ld+width))
	for i := range out {
		out[i] = nan
	}
	for r := range rows {
		if x != nil {
			copy(out[r*ld:r*ld+width], x[r*width:(r+1)*width])
		}
	}
	return out
}

// gather undoes spread and fails if the gaps were written to.
func (b *bed) gather(f Floats, rows, width, ld int) []float32 {
	b.t.Helper()
	x, out := b.get(f), []float32{}
	for r := range rows {
		out = append(out, x[r*ld:r*ld+width]...)
		for i := r*ld + width; i < min((r+1)*ld, len(x)); i++ {
			if x[i] == x[i] {
				b.t.Fatalf("row %d: column %d beyond the width was written", r, i-r*ld)
			}
		}
	}
	return out
}

func random(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = float64(x[i])
	}
	return out
}

func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i := range x {
		out[i] = float32(x[i])
	}
	return out
}

// near fails unless every got is within tol of want, relative to the larger of 1 and |want|.
func near(t *testing.T, name string, got []float32, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", name, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(float64(got[i])-want[i]) <= tol*max(1, math.Abs(want[i]))) {
			t.Fatalf("%s[%d] is %v, want %v within %g", name, i, got[i], want[i], tol)
		}
	}
}

// sameBits fails unless both are the same floats, bit for bit.
func sameBits(t *testing.T, name string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", name, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s[%d] is %v, want the bits of %v", name, i, got[i], want[i])
		}
	}
}

func TestOpenRefusesWhatIsNotThere(t *testing.T) {
	for _, c := range []struct {
		kind, isa string
		threads   int
		want      Status
	}{
		{"abacus", "", 1, NoDevice},
		{"cpu", "avx1024", 1, NoDevice},
		{"cpu", "", 0, BadShape},
		{"cpu", "", 1 << 20, BadShape},
	} {
		d, err := Open(c.kind, c.threads, WithISA(c.isa))
		var e *Error
		if d != nil || !errors.Is(err, c.want) || !errors.As(err, &e) || e.Op != "open" {
			t.Errorf("Open(%q, %d, %q) gives %v, want %v", c.kind, c.threads, c.isa, err, c.want)
		}
	}
}

func TestMemoryIsZeroedAndBounded(t *testing.T) {
	b := openBed(t, "", 1)
	f, err := b.Device.Floats(5)
	b.must(err)
	t.Cleanup(f.Free)
	sameBits(t, "fresh", b.get(f), make([]float32, 5))
	b.must(f.Slice(1, 3).Upload([]float32{7, 8}))
	sameBits(t, "slice", b.get(f), []float32{0, 7, 8, 0, 0})
	if err := f.Slice(1, 3).Upload(make([]float32, 3)); !errors.Is(err, BadShape) {
		t.Errorf("upload past the end gives %v", err)
	}
	if err := f.Download(make([]float32, 6)); !errors.Is(err, BadShape) {
		t.Errorf("download past the end gives %v", err)
	}
	if _, err := b.Device.Floats(1 << 60); !errors.Is(err, NoMemory) {
		t.Errorf("reserving 4 EiB gives %v", err)
	}
	if _, err := b.Device.Ints(-1); !errors.Is(err, BadShape) {
		t.Errorf("reserving -1 gives %v", err)
	}
}

func TestClosedDeviceAnswersBroken(t *testing.T) {
	d, err := Open("cpu", 2)
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Floats(4)
	if err != nil {
		t.Fatal(err)
	}
	f.Free()
	d.Close()
	d.Close()
	for name, err := range map[string]error{"fill": d.Fill(f, 1), "upload": f.Upload([]float32{1})} {
		if !errors.Is(err, Broken) {
			t.Errorf("%s on a closed device gives %v", name, err)
		}
	}
}

func TestThreadsComeAndGo(t *testing.T) {
	for threads := 1; threads <= 4; threads++ {
		for range 20 {
			b := openBed(t, "portable", threads)
			b.Close()
		}
		b := openBed(t, "", threads)
		x := b.put(make([]float32, 100_000))
		for i := range 50 { // many short jobs: late workers must not touch the next one
			b.must(b.Fill(x, float32(i)))
			if got := b.get(x.Slice(99_000, 99_001)); got[0] != float32(i) {
				t.Fatalf("threads %d: fill %d left %v", threads, i, got[0])
			}
		}
	}
}

func ExampleError() {
	d, _ := Open("cpu", 1)
	defer d.Close()
	x, _ := d.Floats(12)
	defer x.Free()
	fmt.Println(d.MatMul(MatMul{T: 4, N: 1, M: 4, LdX: 4, LdY: 1, X: x, W: x, Y: x}))
	// Output: device cpu: matmul: X holds 12 elements, needs 16
}
