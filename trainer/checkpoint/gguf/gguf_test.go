package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// header writes GGUF bytes, true or not.
type header struct{ b []byte }

func (h *header) u32(n uint32) *header {
	h.b = binary.LittleEndian.AppendUint32(h.b, n)
	return h
}

func (h *header) u64(n uint64) *header {
	h.b = binary.LittleEndian.AppendUint64(h.b, n)
	return h
}

func (h *header) text(s string) *header {
	h.u64(uint64(len(s)))
	h.b = append(h.b, s...)
	return h
}

func (h *header) raw(b ...byte) *header {
	h.b = append(h.b, b...)
	return h
}

func start(version uint32, tensors, keys uint64) *header {
	return (&header{b: []byte("GGUF")}).u32(version).u64(tensors).u64(keys)
}

// tensor appends an entry; sizes are contiguous first.
func (h *header) tensor(name string, kind Type, offset uint64, sizes ...uint64) *header {
	h.text(name).u32(uint32(len(sizes)))
	for _, n := range sizes {
		h.u64(n)
	}
	return h.u32(uint32(kind)).u64(offset)
}

// data pads the header to the default alignment and appends n bytes.
func (h *header) data(n int) []byte {
	b := append(slices.Clone(h.b), make([]byte, (32-len(h.b)%32)%32)...)
	return append(b, make([]byte, n)...)
}

func read(b []byte) (*File, error) { return Read(bytes.NewReader(b), int64(len(b))) }

// Ensure that every lie of a header is refused, and named.
func TestReadRefusesLies(t *testing.T) {
	one := func(kind Type, offset uint64, sizes ...uint64) []byte {
		return start(3, 1, 0).tensor("w", kind, offset, sizes...).data(64)
	}
	pad := make([]byte, 64)
	cases := []struct {
		name string
		data []byte
		kind error
		says string
	}{
		{"empty", nil, ErrFormat, "magic"},
		{"another format", []byte("GGMLxxxxxxxxxxxxxxxxxxxx"), ErrFormat, "magic"},
		{"version 1", start(1, 0, 0).data(0), ErrUnsupported, "version 1"},
		{"version 4", start(4, 0, 0).data(0), ErrUnsupported, "version 4"},
		{"big-endian", start(3<<24, 0, 0).data(0), ErrUnsupported, "big-endian"},
		{"cut in the counts", start(3, 0, 0).b[:20], ErrFormat, "key count"},
		{"more keys than bytes", start(3, 0, 1<<60).data(100), ErrFormat, "keys"},
		{"more tensors than bytes", start(3, 1<<60, 0).data(100), ErrFormat, "tensors"},
		{"key beyond the file", start(3, 0, 1).u64(1 << 15).raw(pad...).b, ErrFormat, "key"},
		{"absurd key", start(3, 0, 1).u64(1 << 62).raw(pad...).b, ErrFormat, "limit"},
		{"unknown value type", start(3, 0, 1).text("k").u32(99).data(64), ErrFormat, "type 99"},
		{"text beyond the file", start(3, 0, 1).text("k").u32(8).u64(1 << 20).data(64), ErrFormat, "text"},
		{"absurd text", start(3, 0, 1).text("k").u32(8).u64(1 << 63).data(64), ErrFormat, "text"},
		{"array beyond the file", start(3, 0, 1).text("k").u32(9).u32(4).u64(1 << 40).data(64), ErrFormat, "numbers"},
		{"texts beyond the file", start(3, 0, 1).text("k").u32(9).u32(8).u64(1 << 40).data(64), ErrFormat, "texts"},
		{"array of arrays", start(3, 0, 1).text("k").u32(9).u32(9).u64(1).data(64), ErrUnsupported, "array of arrays"},
		{"truth value 2", start(3, 0, 1).text("k").u32(7).raw(2).data(64), ErrFormat, "truth"},
		{"key twice", start(3, 0, 2).text("k").u32(0).raw(1).text("k").u32(0).raw(1).data(64), ErrFormat, "twice"},
		{"alignment zero", start(3, 0, 1).text("general.alignment").u32(4).u32(0).data(64), ErrFormat, "alignment"},
		{"alignment as text", start(3, 0, 1).text("general.alignment").u32(8).text("32").data(64), ErrFormat, "alignment"},
		{"name too long", start(3, 1, 0).tensor(strings.Repeat("n", 65), F32, 0, 8).data(32), ErrFormat, "limit 64"},
		{"no dimensions", start(3, 1, 0).text("w").u32(0).u32(0).u64(0).data(64), ErrFormat, "0 dimensions"},
		{"five dimensions", start(3, 1, 0).tensor("w", F32, 0, 1, 1, 1, 1, 8).data(64), ErrFormat, "5 dimensions"},
		{"size zero", one(F32, 0, 0), ErrFormat, "size 0"},
		{"sizes overflow", one(F32, 0, 1<<40, 1<<40), ErrFormat, "size"},
		{"product beyond the file", one(F32, 0, 1<<30, 1<<30), ErrFormat, "larger than the file"},
		{"unknown block type", one(6, 0, 32), ErrUnsupported, "type 6"},
		{"row is no whole block", one(Q8_0, 0, 33), ErrFormat, "multiple of 32"},
		{"row is no whole K block", one(Q4_K, 0, 32, 8), ErrFormat, "multiple of 256"},
		{"offset not aligned", one(F32, 4, 8), ErrFormat, "aligned"},
		{"offset beyond the file", one(F32, 1<<40, 8), ErrFormat, "outside"},
		{"offset overflows", one(F32, 1<<63, 8), ErrFormat, "outside"},
		{"data truncated", start(3, 1, 0).tensor("w", F32, 0, 16).data(63), ErrFormat, "truncated"},
		{"data of nobody in front", one(F32, 32, 8), ErrFormat, "belong to none"},
		{"data of nobody behind", one(F32, 0, 8), ErrFormat, "belong to none"},
		{"overlap", start(3, 2, 0).tensor("a", F32, 0, 16).tensor("b", F32, 32, 16).data(96), ErrFormat, "overlaps"},
		{"name twice", start(3, 2, 0).tensor("a", F32, 0, 16).tensor("a", F32, 64, 16).data(128), ErrFormat, "twice"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := read(c.data)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %v naming %q", err, c.kind, c.says)
			}
		})
	}
}

// Ensure that no count or length makes the reader allocate more than a small
// multiple of the file.
func TestReadAllocatesByTheFile(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, b := range [][]byte{
		start(3, 1<<40, 0).data(1000), start(3, 0, 1<<40).data(1000),
		start(3, 0, 1).text("k").u32(9).u32(0).u64(1 << 40).data(1000),
		start(3, 0, 1).text("k").u32(9).u32(8).u64(1 << 40).data(1000),
		start(3, 0, 1).text("k").u32(8).u64(16 << 20).data(1000),
		start(3, 1, 0).tensor("w", F32, 0, 1<<20, 1<<20).data(1000),
	} {
		if _, err := read(b); !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 2<<20 {
		t.Fatalf("%d bytes allocated", grown)
	}
}

// Ensure that every kind of value is read, and as nothing else.
func TestMetadata(t *testing.T) {
	h := start(2, 0, 9)
	h.text("u8").u32(0).raw(200)
	h.text("i16").u32(3).raw(0xfe, 0xff)
	h.text("u64").u32(10).u64(1 << 63)
	h.text("f32").u32(6).u32(math.Float32bits(0.1))
	h.text("f64").u32(12).u64(math.Float64bits(0.1))
	h.text("yes").u32(7).raw(1)
	h.text("text").u32(8).text("é\x00")
	h.text("texts").u32(9).u32(8).u64(2).text("a").text("")
	h.text("ints").u32(9).u32(5).u64(2).u32(5).u32(math.MaxUint32)
	f, err := read(h.data(0))
	if err != nil {
		t.Fatal(err)
	}
	if n, ok, err := f.Uint("u8"); n != 200 || !ok || err != nil {
		t.Errorf("u8: %v %v %v", n, ok, err)
	}
	for _, key := range []string{"i16", "u64", "f32", "yes", "text", "ints"} {
		if _, _, err := f.Uint(key); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s as whole number: %v", key, err)
		}
	}
	if x, ok, err := f.Float("f32"); float32(x) != 0.1 || !ok || err != nil {
		t.Errorf("f32: %v %v %v", x, ok, err)
	}
	if x, ok, err := f.Float("f64"); x != 0.1 || !ok || err != nil {
		t.Errorf("f64: %v %v %v", x, ok, err)
	}
	if b, ok, err := f.Bool("yes"); !b || !ok || err != nil {
		t.Errorf("bool: %v %v %v", b, ok, err)
	}
	if s, ok, err := f.Text("text"); s != "é\x00" || !ok || err != nil {
		t.Errorf("text: %q %v %v", s, ok, err)
	}
	if s, ok, err := f.Texts("texts"); !slices.Equal(s, []string{"a", ""}) || !ok || err != nil {
		t.Errorf("texts: %q %v %v", s, ok, err)
	}
	if n, ok, err := f.Ints("ints"); !slices.Equal(n, []int64{5, -1}) || !ok || err != nil {
		t.Errorf("ints: %v %v %v", n, ok, err)
	}
	for key, ask := range map[string]func(string) error{
		"u8":   func(k string) error { _, _, err := f.Float(k); return err },
		"text": func(k string) error { _, _, err := f.Texts(k); return err },
		"ints": func(k string) error { _, _, err := f.Text(k); return err },
		"f32":  func(k string) error { _, _, err := f.Bool(k); return err },
		"yes":  func(k string) error { _, _, err := f.Ints(k); return err },
	} {
		if err := ask(key); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s as something else: %v", key, err)
		}
	}
	if _, ok, err := f.Text("absent"); ok || err != nil {
		t.Errorf("absent key: %v %v", ok, err)
	}
}

// golden opens the reference file of block formats and the floats of all its
// tensors, in order.
func golden(t testing.TB) (*File, []float32) {
	t.Helper()
	folder := filepath.Join("..", "..", "testdata", "gguf")
	b, err := os.ReadFile(filepath.Join(folder, "quants.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := read(b)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(folder, "quants.f32"))
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float32, len(raw)/4)
	decodeF32(raw, want)
	return f, want
}

// Ensure that every block format decodes to the bits of the reference library.
func TestBlocksAsReference(t *testing.T) {
	f, want := golden(t)
	if len(f.Tensors) != len(blocks) {
		t.Fatalf("%d tensors for %d formats", len(f.Tensors), len(blocks))
	}
	for _, tensor := range f.Tensors {
		if tensor.Name != tensor.Type.String() {
			t.Errorf("tensor %q has type %v", tensor.Name, tensor.Type)
		}
		got := make([]float32, tensor.Elements())
		if err := f.Floats(tensor, 0, got); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Errorf("%v: element %d is %v, want %v", tensor.Type, i, got[i], want[i])
				break
			}
		}
		// A part of a tensor is that part of the whole.
		half := make([]float32, 256)
		if err := f.Floats(tensor, 256, half); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(half, got[256:]) {
			t.Errorf("%v: second row differs when read alone", tensor.Type)
		}
		want = want[len(got):]
	}
}

// Ensure that elements outside a tensor or inside a block cannot be asked for.
func TestFloatsRange(t *testing.T) {
	f, _ := golden(t)
	tensor, ok := f.Tensor("Q8_0")
	if !ok {
		t.Fatal("no Q8_0")
	}
	for _, c := range []struct{ at, n int }{{1, 32}, {0, 31}, {512, 32}, {-32, 32}, {0, 544}} {
		if err := f.Floats(tensor, c.at, make([]float32, c.n)); !errors.Is(err, ErrFormat) {
			t.Errorf("%d elements at %d: %v", c.n, c.at, err)
		}
	}
	short := &File{data: bytes.NewReader(nil)}
	if err := short.Floats(tensor, 0, make([]float32, 32)); !errors.Is(err, io.EOF) {
		t.Errorf("a file that shrank: %v", err)
	}
}

// FuzzRead: a foreign file is refused with a typed error, or all its tensors
// can be read.
func FuzzRead(f *testing.F) {
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "gguf", "quants.gguf"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(start(3, 1, 1).text("general.alignment").u32(4).u32(8).tensor("w", F16, 0, 4).data(8))
	f.Add(start(2, 0, 1).text("k").u32(9).u32(8).u64(1).text("x").data(0))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := read(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		total := int64(0)
		for _, tensor := range file.Tensors {
			total += tensor.Bytes()
			if err := file.Floats(tensor, 0, make([]float32, tensor.Elements())); err != nil {
				t.Fatal(err)
			}
		}
		if total > int64(len(b)) {
			t.Fatalf("%d bytes of tensors in a file of %d", total, len(b))
		}
	})
}
