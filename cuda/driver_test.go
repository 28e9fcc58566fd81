package cuda

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/cuda/fakecard"
)

// fakeCard leads the device "cuda" to libraries that only look like NVIDIA's.
func fakeCard(t *testing.T, gone ...string) *fakecard.Card {
	t.Helper()
	kernels, err := SIMTKernels()
	if err != nil {
		t.Skip(err)
	}
	return fakecard.Use(t, kernels, gone...)
}

// cardBed opens the device "cuda"; it fails the test if it can't.
func cardBed(t *testing.T, way string) *bed {
	t.Helper()
	d, err := Open("cuda", 1, WithISA(way))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return &bed{d, t}
}

// runTable runs cases on one device.
func runTable(t *testing.T, d *Device, cases []opCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, o := range c.run(&bed{d, t}) {
				near(t, o.name, o.got, o.want, c.tol)
			}
		})
	}
}

// The one table through all of the driver's backend, with products by the fake's cuBLASLt.
func TestOpsOnAFakeCard(t *testing.T) {
	card := fakeCard(t)
	b := cardBed(t, "")
	if b.ISA() != "sm_90, cuBLASLt" {
		t.Errorf("the device is %q", b.ISA())
	}
	runTable(t, b.Device, opCases(simtWork()))
	room, err := b.Room()
	b.must(err)
	if limit := int64(32<<20 + 8<<20); room.Used > limit || room.Peak < room.Used || room.Held > 256<<20 {
		t.Errorf("after the table the card has %+v, want no more in use than workspace and scratch", room)
	}
	if n, _ := card.Happened("alloc"); n > 4 {
		t.Errorf("%d pieces of memory from the driver, want few large ones", n)
	}
	if n, _ := card.Happened("heuristic"); n > 2*len(matmulCases(simtWork()))*3 {
		t.Errorf("cuBLASLt was asked %d times how to multiply", n)
	}
	b.Close()
	if n, left := card.Happened("release with bytes left"); n != 1 || left != 0 {
		t.Errorf("%d releases with %d bytes left, want 1 with 0", n, left)
	}
}

// A machine with a card runs the whole table on it, and every test that runs on all devices:
// bench/runs/gpu_check.sh sets CARD_TESTS.
func TestOpsOnTheCard(t *testing.T) {
	if os.Getenv("CARD_TESTS") == "" {
		t.Skip("CARD_TESTS is not set: for machines with a card")
	}
	for _, way := range []string{"", "own"} {
		t.Run("products "+way, func(t *testing.T) { runTable(t, cardBed(t, way).Device, opCases(everything)) })
	}
}

// Everything that can be wrong with a machine has a line of its own, and opening leaves nothing.
func TestCardsThatWillNotDo(t *testing.T) {
	cases := []struct {
		name, env, value string
		lose             int // 1 + the number of a library
		status           Status
		says             string
	}{
		{name: "no driver", lose: 1, status: NoDevice, says: "the NVIDIA driver (libcuda) is in none of the usual places"},
		{name: "no compiler", lose: 2, status: NoDevice, says: "NVRTC (libnvrtc) is in none of the usual places"},
		{name: "old driver", env: "FAKE_VERSION", value: "11020", status: NoDevice, says: "the driver is for CUDA 11.2, this program needs 11.4"},
		{name: "no card", env: "FAKE_CARDS", value: "0", status: NoDevice, says: "the driver shows 0 cards"},
		{name: "other card", env: CardEnv, value: "3", status: NoDevice, says: "there is no card 3"},
		{name: "no number", env: CardEnv, value: "x", status: NoDevice, says: `WHALE_CUDA_CARD is "x"`},
		{name: "no bfloat16", env: "FAKE_SM", value: "75", status: NoDevice, says: "sm_75, which has no bfloat16: sm_80 or newer is needed"},
		{name: "old compiler", env: "FAKE_NVRTC", value: "11010", status: NoDevice, says: "NVRTC is 11.1, the kernels need 11.4"},
		{name: "compiler older than the card", env: "FAKE_ARCHS", value: "80", status: NoDevice, says: "does not know sm_90: a newer NVRTC is needed"},
		{name: "compiler fails", env: "FAKE_COMPILE", value: "1", status: NoDevice, says: "attention.cu(1): error: as asked for"},
		{name: "full", env: "FAKE_OTHERS", value: "1073741824", status: NoMemory, says: "is full: not even a context fits"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			card := fakeCard(t)
			if c.env != "" {
				t.Setenv(c.env, c.value)
			}
			if c.lose > 0 {
				card.Lose(c.lose - 1)
			}
			_, err := Open("cuda", 1)
			if !errors.Is(err, c.status) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %v in one line with %q", err, c.status, c.says)
			}
		})
	}
}

func TestDriverWithoutASymbol(t *testing.T) {
	fakeCard(t, "cuGraphLaunch")
	_, err := Open("cuda", 1)
	if !errors.Is(err, NoDevice) || !strings.Contains(err.Error(), "lacks cuGraphLaunch: it is older than this program needs") {
		t.Errorf("%v, want NoDevice that names the symbol", err)
	}
}

// Without cuBLASLt, or with one that fails, and for shapes that it refuses, our kernels multiply.
func TestProductsWithoutCuBLASLt(t *testing.T) {
	product := func(b *bed, M int) {
		const T, N = 3, 5
		x, w := random(1, T*M), random(2, N*M)
		y := b.poison(T * N)
		b.must(b.MatMul(MatMul{T: T, N: N, M: M, LdX: M, LdY: N, X: b.put(x), W: b.put(w), Y: y}))
		want := make([]float64, T*N)
		for i := range want {
			for k := range M {
				want[i] += float64(x[i/N*M+k]) * float64(w[i%N*M+k])
			}
		}
		near(b.t, "y", b.get(y), want, 1e-5)
	}
	card := fakeCard(t)
	b := cardBed(t, "")
	product(b, 13) // the fake has no way for sums of 13
	product(b, 50)
	product(b, 50)
	if n, _ := card.Happened("heuristic"); n != 2 {
		t.Errorf("cuBLASLt was asked %d times, want once a shape", n)
	}
	b.Close()
	t.Setenv("FAKE_BLAS", "fails")
	b = cardBed(t, "")
	if b.ISA() != "sm_90, own products" {
		t.Errorf("the device is %q", b.ISA())
	}
	product(b, 50)
	b.Close()
	card.Lose(2)
	product(cardBed(t, ""), 50)
}

// Kernels are compiled once; what the cache holds is used only if it is whole.
func TestCubinsAreKept(t *testing.T) {
	card := fakeCard(t)
	units, err := fs.Glob(sources, "*.cu")
	if err != nil {
		t.Fatal(err)
	}
	open := func(what string, compiled int) {
		t.Helper()
		before, _ := card.Happened("compile")
		cardBed(t, "").Close()
		if after, _ := card.Happened("compile"); after-before != compiled {
			t.Errorf("%s: %d files compiled, want %d", what, after-before, compiled)
		}
	}
	open("first", len(units))
	open("again", 0)
	found, err := filepath.Glob(filepath.Join(card.Cache(), "cuda-sm_90-*", "*.cubin"))
	if err != nil || len(found) != len(units) {
		t.Fatalf("the cache holds %v, %v", found, err)
	}
	if err := os.WriteFile(found[0], []byte("FAKE"), 0o644); err != nil {
		t.Fatal(err)
	}
	open("a file cut short", len(units))
	if err := os.Remove(found[1]); err != nil {
		t.Fatal(err)
	}
	open("a file gone", len(units))
	t.Setenv("FAKE_VERSION", "13000")
	open("another driver", len(units))
	t.Setenv("FAKE_NVRTC", "13000")
	open("another compiler", len(units))
	t.Setenv("FAKE_SM", "80")
	open("another card", len(units))
	left, err := filepath.Glob(filepath.Join(card.Cache(), "cuda-build-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("folders of unfinished builds are left: %v %v", left, err)
	}
}

// A card that is lost in the middle of the work is lost for every later call, and its memory is
// given back all the same.
func TestALostCard(t *testing.T) {
	card := fakeCard(t)
	t.Setenv("FAKE_LAUNCH", "3")
	b := cardBed(t, "")
	x := b.put(random(1, 100))
	var err error
	for range 5 { // launches return before they are done, so the loss shows later
		err = errors.Join(err, b.Add(x, x))
	}
	err = errors.Join(err, x.Download(make([]float32, 100)))
	if !errors.Is(err, Broken) || !strings.Contains(err.Error(), "lost card 0: cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure") {
		t.Errorf("%v, want Broken that names the call and the reason", err)
	}
	for name, call := range map[string]func() error{
		"fill": func() error { return b.Fill(x, 1) }, "reserve": func() error { _, err := b.Device.Floats(5); return err },
		"room": func() error { _, err := b.Room(); return err }, "sync": b.Sync, "download": func() error { return x.Download(make([]float32, 1)) },
	} {
		if err := call(); !errors.Is(err, Broken) || !strings.Contains(err.Error(), "lost card 0") {
			t.Errorf("then %s gives %v, want Broken with the first reason", name, err)
		}
	}
	b.Close()
	if n, _ := card.Happened("release with bytes left"); n != 1 {
		t.Errorf("%d releases of the context, want 1", n)
	}
	t.Setenv("FAKE_LAUNCH", "")
	b = cardBed(t, "")
	b.must(b.Fill(b.put(random(1, 10)), 1)) // a new start works
}

// The arena: a plan that does not fit says who holds the card; blocks are used again, neighbours
// join, and memory that is given back and got again does not grow.
func TestArena(t *testing.T) {
	card := fakeCard(t)
	t.Setenv("FAKE_TOTAL", strconv.Itoa(300<<20))
	t.Setenv("FAKE_OTHERS", strconv.Itoa(100<<20))
	b := cardBed(t, "")
	err := b.Reserve(250 << 20)
	if !errors.Is(err, NoMemory) || !strings.Contains(err.Error(), "card 0 (Fake card 0) has no room for 0.26 GB more: 0.21 of 0.31 GB are free, this process holds 0.00: another process is on the card") {
		t.Errorf("%v, want NoMemory that says what is free", err)
	}
	b.must(b.Reserve(150 << 20))
	b.must(b.Reserve(100 << 20)) // holds more already
	if n, _ := card.Happened("alloc"); n != 1 {
		t.Errorf("%d pieces, want one", n)
	}
	var list []Floats
	for range 10 {
		f, err := b.Device.Floats(15 << 20 / elem)
		b.must(err)
		list = append(list, f)
	}
	if _, err := b.Device.Floats(60 << 20 / elem); !errors.Is(err, NoMemory) {
		t.Errorf("%v, want NoMemory", err)
	}
	room, err := b.Room()
	b.must(err)
	if room.Used != 150<<20 || room.Peak != 150<<20 || room.Held != 150<<20 || room.CardFree != 50<<20 || room.CardTotal != 300<<20 || room.Bandwidth != 16e6 {
		t.Errorf("%+v", room)
	}
	for _, i := range []int{3, 5, 4, 0, 9, 1, 2, 8, 7, 6} { // in any order the pieces join
		list[i].Free()
	}
	all, err := b.Device.Floats(150 << 20 / elem)
	b.must(err)
	got := make([]float32, 8)
	b.must(all.Slice(all.Len()-8, all.Len()).Download(got))
	if slices.ContainsFunc(got, func(x float32) bool { return x != 0 }) {
		t.Errorf("new memory holds %v, want zeros", got)
	}
	all.Free()
	big, err := b.Device.Floats(180 << 20 / elem) // fits only once the first piece is given back
	b.must(err)
	big.Free()
	b.Close()
	if _, left := card.Happened("release with bytes left"); left != 0 {
		t.Errorf("%d bytes were left at the end", left)
	}
}

// A graph does what was recorded with what memory holds by then, until the device's own memory
// moves; what has no place in it is refused, and the device goes on.
func TestGraphs(t *testing.T) {
	card := fakeCard(t)
	b := cardBed(t, "")
	x, y, w := b.put(random(1, 6)), b.put(make([]float32, 6)), b.put([]float32{1, 1, 1})
	out := b.put(make([]float32, 1))
	g, err := b.Record(func() error {
		return errors.Join(b.Add(y, x), b.MatMul(MatMul{T: 1, N: 1, M: 3, LdX: 3, LdY: 1, X: y, W: w, Y: out}))
	})
	b.must(err)
	if got := b.get(y); slices.ContainsFunc(got, func(v float32) bool { return v != 0 }) {
		t.Errorf("recording already did it: %v", got)
	}
	b.must(x.Upload([]float32{1, 2, 3, 4, 5, 6}))
	b.must(g.Replay())
	b.must(g.Replay())
	if got := b.get(y); !slices.Equal(got, []float32{2, 4, 6, 8, 10, 12}) {
		t.Errorf("two replays give %v", got)
	}
	if got := b.get(out); got[0] != 12 {
		t.Errorf("the product gives %v, want 12", got)
	}
	if n, ops := card.Happened("graph of"); n != 1 || ops != 2 {
		t.Errorf("%d graphs, the last of %d calls, want 1 of 2", n, ops)
	}
	if _, err := b.Record(func() error { return x.Upload([]float32{1}) }); !errors.Is(err, BadShape) || !strings.Contains(err.Error(), "no place in a recorded graph") {
		t.Errorf("%v, want an upload refused", err)
	}
	b.must(b.Fill(x, 1)) // not recorded any more
	const n = 3000       // a norm's backward needs more scratch than there is
	wide := b.put(random(1, 4*n))
	b.must(b.RMSNormBackward(RMSNormGrad{Rows: 4, N: n, Heads: 1, LdX: n, LdDY: n, LdDX: n, DY: wide, X: wide,
		W: b.put(random(2, n)), RStd: b.put(random(3, 4)), DX: b.poison(4 * n), DW: b.put(random(4, n))}))
	if err := g.Replay(); !errors.Is(err, BadShape) || !strings.Contains(err.Error(), "moved since the graph was recorded") {
		t.Errorf("%v, want the graph refused", err)
	}
	g.Drop()
	g.Drop()
	if n, _ := card.Happened("graph drop"); n != 2 { // the failed recording's too
		t.Errorf("%d graphs dropped, want 2", n)
	}
}

// Uploads larger than the staging memory arrive whole, although work waits before them.
func TestLargeUploads(t *testing.T) {
	fakeCard(t)
	b := cardBed(t, "")
	want := random(1, 5<<20)
	x, err := b.Device.Floats(len(want))
	b.must(err)
	defer x.Free()
	b.must(b.Fill(x, 3))
	b.must(x.Upload(want))
	sameBits(t, "upload", b.get(x), want)
}

// Libraries are looked for in the folders of the variable alone, or in the usual places: the
// dynamic linker's, then toolkits, then wheels, newest first.
func TestPlacesOfLibraries(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"toolkit/lib64", "venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib", "venv/lib/python3.12/site-packages/nvidia/cu13/lib"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for _, file := range []string{"toolkit/lib64/libnvrtc.so", "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
		"venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"} {
		path := filepath.Join(root, file)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		want = append(want, path)
	}
	t.Setenv("CUDA_HOME", filepath.Join(root, "toolkit"))
	t.Setenv("VIRTUAL_ENV", filepath.Join(root, "venv"))
	places := libraryPlaces(compilerLibrary)
	if !slices.Equal(places[:len(compilerLibrary.files)], compilerLibrary.files) {
		t.Errorf("first tried are %v, want what the linker finds", places)
	}
	at := -1
	for _, path := range want {
		next := slices.Index(places, path)
		if next <= at {
			t.Errorf("%s is number %d of %v, want it after %d", path, next, places, at)
		}
		at = next
	}
	t.Setenv(LibrariesEnv, filepath.Join(root, "toolkit/lib64")+string(filepath.ListSeparator)+filepath.Join(root, "nowhere"))
	if got := libraryPlaces(compilerLibrary); !slices.Equal(got, want[:1]) {
		t.Errorf("with the variable set %v, want %v", got, want[:1])
	}
}
