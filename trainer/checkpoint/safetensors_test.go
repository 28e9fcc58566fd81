package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// file makes a safetensors file of a header and data, true or not.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range data {
		b = append(b, byte(i))
	}
	return b
}

// streamFS serves files that can only be read from the front, like those of a
// compressed archive.
type streamFS struct{ fstest.MapFS }

type streamFile struct{ inner fs.File }

func (f streamFile) Stat() (fs.FileInfo, error) { return f.inner.Stat() }
func (f streamFile) Read(b []byte) (int, error) { return f.inner.Read(b) }
func (f streamFile) Close() error               { return f.inner.Close() }

func (s streamFS) Open(name string) (fs.File, error) {
	f, err := s.MapFS.Open(name)
	if err != nil {
		return nil, err
	}
	return streamFile{f}, nil
}

func folder(files map[string][]byte) fstest.MapFS {
	m := fstest.MapFS{}
	for name, data := range files {
		m[name] = &fstest.MapFile{Data: data}
	}
	return m
}

// Ensure that every lie of a header is refused, and named.
func TestOpenRefusesLies(t *testing.T) {
	one := func(fields string) []byte { return file(`{"w":{`+fields+`}}`, 8) }
	cases := []struct {
		name string
		data []byte
		kind error
		says string
	}{
		{"empty file", nil, ErrFormat, "too few"},
		{"length only", file("", 0)[:7], ErrFormat, "too few"},
		{"header longer than the file", binary.LittleEndian.AppendUint64(nil, 100), ErrFormat, "header length 100"},
		{"absurd header length", append(binary.LittleEndian.AppendUint64(nil, 1<<63), make([]byte, 100)...), ErrFormat, "header length"},
		{"no header", file("", 0), ErrFormat, "EOF"},
		{"not JSON", file("{'w'}", 0), ErrFormat, "header JSON"},
		{"an array", file("[]", 0), ErrFormat, "where {"},
		{"text after it", file("{} {}", 0), ErrFormat, "after the header"},
		{"not UTF-8", file("{\"\xff\":0}", 0), ErrFormat, "UTF-8"},
		{"truncated data", file(`{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 7), ErrFormat, "truncated"},
		{"data beyond the file", one(`"dtype":"F32","shape":[2],"data_offsets":[8,16]`), ErrFormat, "out of bounds"},
		{"data of nobody at the end", file(`{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 9), ErrFormat, "belong to none"},
		{"data of nobody in front", file(`{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), ErrFormat, "belong to none"},
		{"overlap", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}`, 6), ErrFormat, "overlaps"},
		{"same place twice", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), ErrFormat, "overlaps"},
		{"length is not the shape's", one(`"dtype":"F32","shape":[3],"data_offsets":[0,8]`), ErrFormat, "needs 12"},
		{"length is not the dtype's", one(`"dtype":"BF16","shape":[2],"data_offsets":[0,8]`), ErrFormat, "needs 4"},
		{"end before begin", one(`"dtype":"F32","shape":[0],"data_offsets":[8,0]`), ErrFormat, "[8 0]"},
		{"negative offset", one(`"dtype":"F32","shape":[3],"data_offsets":[-4,8]`), ErrFormat, "-4"},
		{"negative size", one(`"dtype":"F32","shape":[-2],"data_offsets":[0,8]`), ErrFormat, "-2"},
		{"fractional size", one(`"dtype":"F32","shape":[2.0],"data_offsets":[0,8]`), ErrFormat, "2.0"},
		{"size as text", one(`"dtype":"F32","shape":["2"],"data_offsets":[0,8]`), ErrFormat, "no size"},
		{"shape overflows", one(`"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]`), ErrFormat, "overflows"},
		{"too many dimensions", one(`"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]`), ErrFormat, "more than 8"},
		{"three offsets", one(`"dtype":"F32","shape":[2],"data_offsets":[0,8,8]`), ErrFormat, "more than 2"},
		{"no dtype", one(`"shape":[2],"data_offsets":[0,8]`), ErrFormat, "needs dtype"},
		{"unknown dtype", one(`"dtype":"F31","shape":[2],"data_offsets":[0,8]`), ErrUnsupported, "F31"},
		{"unknown field", one(`"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1`), ErrFormat, `"x"`},
		{"field twice", one(`"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]`), ErrFormat, "twice"},
		{"name twice", file(`{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), ErrFormat, `"w" appears twice`},
		{"metadata is no string map", file(`{"__metadata__":{"a":1}}`, 0), ErrFormat, "header JSON"},
	}
	for _, c := range cases {
		for kind, fsys := range map[string]fs.FS{
			"at":     folder(map[string][]byte{WeightsFile: c.data}),
			"stream": streamFS{folder(map[string][]byte{WeightsFile: c.data})},
		} {
			t.Run(c.name+" "+kind, func(t *testing.T) {
				_, err := Open(fsys)
				if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), WeightsFile) {
					t.Fatalf("error %v, want %v naming %q", err, c.kind, c.says)
				}
			})
		}
	}
}

// Ensure that a header cannot make the reader allocate more than a small
// multiple of the file.
func TestOpenAllocatesByTheFile(t *testing.T) {
	data := file(`{"w":{"dtype":"F32","shape":[2000000000,2000000000],"data_offsets":[0,16000000000000000000]}}`, 8)
	huge := append(binary.LittleEndian.AppendUint64(nil, 99<<20), data...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, d := range [][]byte{data, huge} {
		if _, err := Open(folder(map[string][]byte{WeightsFile: d})); !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Fatalf("%d bytes allocated for files of %d", grown, len(huge))
	}
}

// items are three tensors of two dtypes, one of them empty.
func items() []Item {
	return []Item{
		Values("b", F32, []int{2, 2}, []float32{1, -2.5, float32(math.Inf(1)), 1e-40}),
		Values("a", BF16, []int{3}, []float32{1, 1.00390625, -3}),
		Values("empty", F32, []int{0, 7}, nil),
		Values("scalar", F32, nil, []float32{42}),
	}
}

func encoded(t testing.TB, items []Item) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Encode(&b, items); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Ensure that what is written is read back, from a folder and from streams,
// and that copying it gives the same bytes.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, WeightsFile), items()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Fatalf("%v, %v: want the weights file alone", left, err)
	}
	want := encoded(t, items())
	for name, fsys := range map[string]fs.FS{
		"folder": os.DirFS(dir), "stream": streamFS{folder(map[string][]byte{WeightsFile: want})},
	} {
		c, err := Open(fsys)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := c.Names(); !slices.Equal(got, []string{"a", "b", "empty", "scalar"}) {
			t.Fatalf("%s: names %q", name, got)
		}
		if got, err := c.Float32("b"); err != nil || !slices.Equal(got, []float32{1, -2.5, float32(math.Inf(1)), 1e-40}) {
			t.Fatalf("%s: b = %v, %v", name, got, err)
		}
		if got, err := c.Float32("a"); err != nil || !slices.Equal(got, []float32{1, 1, -3}) {
			t.Fatalf("%s: a = %v, %v", name, got, err)
		}
		if got, ok := c.Tensor("b"); !ok || got.DType != F32 || !slices.Equal(got.Shape, []int{2, 2}) {
			t.Fatalf("%s: b is %v, %v", name, got, ok)
		}
		if got, err := c.Raw("scalar"); err != nil || !bytes.Equal(got, []byte{0, 0, 40, 66}) {
			t.Fatalf("%s: scalar = %v, %v", name, got, err)
		}
		if _, err := c.Float32("none"); !errors.Is(err, ErrMissing) {
			t.Fatalf("%s: none: %v", name, err)
		}
		if err := c.Float32Into("a", make([]float32, 2)); !errors.Is(err, ErrFormat) {
			t.Fatalf("%s: wrong length: %v", name, err)
		}
		var copies []Item
		for _, n := range []string{"b", "a", "empty", "scalar"} {
			item, err := Copy(c, n)
			if err != nil {
				t.Fatal(err)
			}
			copies = append(copies, item)
		}
		if got := encoded(t, copies); !bytes.Equal(got, want) {
			t.Fatalf("%s: the copy differs", name)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Ensure that a tensor longer than the buffer between types survives.
func TestLongTensor(t *testing.T) {
	values := make([]float32, 2*blockElements+3)
	for i := range values {
		values[i] = float32(i % 257)
	}
	for _, d := range []DType{F32, BF16} {
		c, err := Open(folder(map[string][]byte{WeightsFile: encoded(t, []Item{Values("w", d, []int{len(values)}, values)})}))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Float32("w")
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range got {
			if want := FromBF16(ToBF16(values[i])); x != want && d == BF16 || x != values[i] && d == F32 {
				t.Fatalf("%s: element %d is %v, want %v", d, i, x, values[i])
			}
		}
	}
}

// Ensure that the writer refuses what it could not read back, and leaves no file.
func TestWriteRefuses(t *testing.T) {
	boom := errors.New("boom")
	cases := []struct {
		name string
		item Item
		want error
	}{
		{"name twice", Values("w", F32, []int{1}, []float32{1}), ErrFormat},
		{"reserved name", Values("__metadata__", F32, []int{1}, []float32{1}), ErrFormat},
		{"too few values", Values("v", F32, []int{2}, []float32{1}), ErrFormat},
		{"integers from floats", Values("v", "I64", []int{1}, []float32{1}), ErrUnsupported},
		{"half from floats", Values("v", F16, []int{1}, []float32{1}), ErrUnsupported},
		{"unknown dtype", Values("v", "F31", []int{1}, []float32{1}), ErrUnsupported},
		{"device fault", Lazy("v", F32, []int{1}, func() ([]float32, error) { return nil, boom }), boom},
	}
	for _, c := range cases {
		dir := t.TempDir()
		err := WriteFile(filepath.Join(dir, "w"), []Item{Values("w", F32, []int{1}, []float32{1}), c.item})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("%s: left %v", c.name, left)
		}
	}
}

// Ensure that shards read as one checkpoint and that index and files must agree.
func TestShards(t *testing.T) {
	a := encoded(t, []Item{Values("a", F32, []int{1}, []float32{1})})
	b := encoded(t, []Item{Values("b", F32, []int{1}, []float32{2})})
	index := func(entries string) []byte {
		return []byte(`{"metadata":{"total_size":8},"weight_map":{` + entries + `}}`)
	}
	c, err := Open(folder(map[string][]byte{"1.safetensors": a, "2.safetensors": b,
		IndexFile: index(`"a":"1.safetensors","b":"2.safetensors"`)}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Float32("b"); err != nil || got[0] != 2 {
		t.Fatalf("b = %v, %v", got, err)
	}
	cases := []struct {
		name, entries string
		says          string
	}{
		{"tensor not in its file", `"a":"1.safetensors","b":"1.safetensors"`, `"b" is not in`},
		{"tensor not listed", `"a":"1.safetensors","c":"2.safetensors"`, `"c" is not in`},
		{"tensor beyond the list", `"x":"1.safetensors"`, `"x" is not in`},
		{"file missing", `"a":"3.safetensors"`, "3.safetensors"},
		{"file outside the folder", `"a":"../1.safetensors"`, "../1.safetensors"},
		{"in two files", `"a":"1.safetensors","b":"2.safetensors","c":"copy.safetensors"`, `"a" is also in`},
		{"unlisted", `"b":"both.safetensors"`, `does not list tensor "a"`},
	}
	both := encoded(t, []Item{Values("a", F32, []int{1}, []float32{1}), Values("b", F32, []int{1}, []float32{1})})
	for _, c := range cases {
		_, err := Open(folder(map[string][]byte{"1.safetensors": a, "2.safetensors": b, "copy.safetensors": a,
			"both.safetensors": both, IndexFile: index(c.entries)}))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := Open(folder(map[string][]byte{IndexFile: []byte("{")})); !errors.Is(err, ErrFormat) {
		t.Errorf("broken index: %v", err)
	}
	if _, err := Open(folder(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("empty folder: %v", err)
	}
}

// Ensure the conversions, value by value.
func TestDTypes(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		x    float32
		want uint16
	}{
		{1, 0x3f80}, {-2, 0xc000}, {0, 0}, {float32(math.Inf(-1)), 0xff80},
		{math.Float32frombits(0x3f808000), 0x3f80}, // tie goes down to even
		{math.Float32frombits(0x3f818000), 0x3f82}, // tie goes up to even
		{math.Float32frombits(0x3f808001), 0x3f81}, // above the tie
		{math.MaxFloat32, 0x7f80},                  // rounds to infinity
		{nan, 0x7fc0}, {math.Float32frombits(0x7f800001), 0x7fc0},
	} {
		if got := ToBF16(c.x); got != c.want {
			t.Errorf("ToBF16(%v) = %#x, want %#x", c.x, got, c.want)
		}
	}
	for b := range 1 << 16 {
		if x := FromBF16(uint16(b)); x == x && ToBF16(x) != uint16(b) {
			t.Fatalf("bfloat16 %#x does not survive", b)
		}
	}
	for h, want := range map[uint16]float32{
		0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: 1.0 / (1 << 24), 0x03ff: 1023.0 / (1 << 24),
		0x0400: 1.0 / (1 << 14), 0x3555: 0.333251953125, 0x7c00: float32(math.Inf(1)), 0xfc00: float32(math.Inf(-1)),
	} {
		if got := FromF16(h); got != want {
			t.Errorf("FromF16(%#x) = %v, want %v", h, got, want)
		}
	}
	if got := FromF16(0x8000); got != 0 || !math.Signbit(float64(got)) {
		t.Errorf("FromF16(-0) = %v", got)
	}
	if got := FromF16(0x7e00); got == got {
		t.Errorf("FromF16(NaN) = %v", got)
	}
	data := append(file(`{"h":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"i":{"dtype":"I64","shape":[1],"data_offsets":[2,10]}}`, 0),
		0x00, 0x3c, 1, 2, 3, 4, 5, 6, 7, 8)
	c, err := Open(folder(map[string][]byte{WeightsFile: data}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Float32("h"); err != nil || got[0] != 1 {
		t.Errorf("F16 tensor = %v, %v", got, err)
	}
	if _, err := c.Float32("i"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("I64 as floats: %v", err)
	}
	if got, err := c.Raw("i"); err != nil || !bytes.Equal(got, []byte{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("I64 raw = %v, %v", got, err)
	}
}

// FuzzOpen: a foreign file is refused with a typed error, or every tensor of it
// can be read and the copy of all is readable again.
func FuzzOpen(f *testing.F) {
	f.Add(encoded(f, items()))
	f.Add(file(`{"w":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]}}  `, 8))
	f.Add(file(`{"__metadata__":{"a":"b"}}`, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Open(folder(map[string][]byte{WeightsFile: data}))
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		var copies []Item
		total := 0
		for _, name := range c.Names() {
			raw, err := c.Raw(name)
			if err != nil {
				t.Fatal(err)
			}
			total += len(raw)
			item, err := Copy(c, name)
			if err != nil {
				t.Fatal(err)
			}
			copies = append(copies, item)
		}
		if total > len(data) {
			t.Fatalf("%d bytes of tensors in a file of %d", total, len(data))
		}
		again, err := Open(folder(map[string][]byte{WeightsFile: encoded(t, copies)}))
		if err != nil {
			t.Fatal(err)
		}
		if got := again.Names(); !slices.Equal(got, c.Names()) {
			t.Fatalf("names %q, then %q", c.Names(), got)
		}
	})
}

// Ensure that a read error of the file below comes through.
func TestReadErrorsComeThrough(t *testing.T) {
	_, err := readLayout(failing{}, 100)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) {
	return 0, fmt.Errorf("disk: %w", io.ErrUnexpectedEOF)
}
