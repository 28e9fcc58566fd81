package jsonl

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
)

func all(text string, most int) (got []string, err error) {
	err = Lines(iotest.HalfReader(strings.NewReader(text)), most, func(row int, line []byte) {
		if line == nil {
			got = append(got, fmt.Sprint(row, " long"))
			return
		}
		got = append(got, fmt.Sprint(row, " ", string(line)))
	})
	return got, err
}

func TestLines(t *testing.T) {
	for text, want := range map[string][]string{
		"":                          nil,
		"\n \r\n":                   nil,
		"a":                         {"1 a"},
		"\ufeffa\n\ufeffb\n":        {"1 a", "2 \ufeffb"},
		"a\r\n\n b \nc":             {"1 a", "3 b", "4 c"},
		"a\n" + long(21) + "\nb":    {"1 a", "2 long", "3 b"},
		long(21):                    {"1 long"},
		long(20) + "\n" + long(100): {"1 long", "2 long"}, // the line's end counts
		"\xff\x00\n":                {"1 \xff\x00"},
	} {
		if got, err := all(text, 20); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q %v, want %q", text, got, err, want)
		}
	}
	far := long(1<<17) + "\nb"
	if got, err := all(far, 1<<18); err != nil || len(got) != 2 || got[1] != "2 b" {
		t.Errorf("%d lines, %v", len(got), err)
	}
	if got, err := all(far, 1<<16); err != nil || !reflect.DeepEqual(got, []string{"1 long", "2 b"}) {
		t.Errorf("a line in several parts: %d lines, %v", len(got), err)
	}
	if err := Lines(iotest.ErrReader(io.ErrClosedPipe), 9, func(int, []byte) {}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestFile(t *testing.T) {
	dir := t.TempDir()
	for _, ending := range Packings {
		path := filepath.Join(dir, "x.jsonl"+ending)
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		var to io.WriteCloser = file
		switch ending {
		case ".gz":
			to = gzip.NewWriter(file)
		case ".zst":
			if to, err = zstd.NewWriter(file); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := to.Write([]byte("a\nb\n")); err != nil {
			t.Fatal(err)
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := File(path, 9, func(_ int, line []byte) { got = append(got, string(line)) }); err != nil || !reflect.DeepEqual(got, []string{"a", "b"}) {
			t.Errorf("%s: %q %v", path, got, err)
		}
	}
	broken := filepath.Join(dir, "broken.gz")
	if err := os.WriteFile(broken, []byte("no gzip"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := File(broken, 9, func(int, []byte) {}); err == nil {
		t.Error("a broken file is read")
	}
	if err := File(filepath.Join(dir, "none"), 9, func(int, []byte) {}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestRow(t *testing.T) {
	for line, want := range map[string]error{`{"a":1}`: nil, `{"a":`: ErrJSON, `{"a":"x"}`: ErrJSON, `{"a":1} {}`: ErrJSON, "{\"a\":1,\"b\":\"\xff\"}": ErrText} {
		var row struct{ A int }
		if err := Row([]byte(line), &row); !errors.Is(err, want) || err == nil && row.A != 1 {
			t.Errorf("%q: %v, want %v", line, err, want)
		}
	}
	if err := Row(nil, new(int)); !errors.Is(err, ErrLong) {
		t.Errorf("a long line: %v", err)
	}
}

func FuzzLines(f *testing.F) {
	for _, text := range []string{"", "a\n\nb", "\ufeff{}\r\n", long(30) + "\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		if err := Lines(strings.NewReader(text), 20, func(row int, line []byte) {
			if row <= last || len(line) > 20 {
				t.Fatalf("row %d after %d, %d bytes", row, last, len(line))
			}
			last = row
		}); err != nil {
			t.Fatal(err)
		}
	})
}
