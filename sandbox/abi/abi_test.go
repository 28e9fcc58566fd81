package abi

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
)

// forms is one message of each kind, with its encoding and its decoding.
var forms = []struct {
	name   string
	value  any
	encode func(v any) []byte
	decode func(b []byte) (any, error)
}{
	{"start", Start{Domain: "d", Input: "\xff\x00", Tools: []ToolSpec{{"a", "b", "c"}, {}}, Tokens: math.MaxInt, Turns: -1, Calls: math.MinInt},
		func(v any) []byte { return AppendStart(nil, v.(Start)) },
		func(b []byte) (any, error) { v, err := DecodeStart(b); return v, err }},
	{"generate", Request{Kind: Generate, Messages: []Message{{"user", "hi", 0}, {"assistant", strings.Repeat("x", 300), 7}}, Samples: 8, MaxTokens: -2, Tools: true}, encodeRequest, decodeRequest},
	{"tool", Request{Kind: Tool, Name: "search", Args: "{}"}, encodeRequest, decodeRequest},
	{"note", Request{Kind: Note, Log: "line", Submit: 3}, encodeRequest, decodeRequest},
	{"answer", Answer{Status: BadTool, Text: "no", Replies: []Reply{{1, "a", "end", 2}, {}}},
		func(v any) []byte { return AppendAnswer(nil, v.(Answer)) },
		func(b []byte) (any, error) { v, err := DecodeAnswer(b); return v, err }},
	{"end", End{Status: Panic, Text: "boom"},
		func(v any) []byte { return AppendEnd(nil, v.(End)) },
		func(b []byte) (any, error) { v, err := DecodeEnd(b); return v, err }},
	{"refusal", Refusal{1, 2, "r", "because", "do this"},
		func(v any) []byte { return AppendRefusal(nil, v.(Refusal)) },
		func(b []byte) (any, error) { v, err := DecodeRefusal(b); return v, err }},
	{"load order", LoadOrder{math.MaxUint32, "source"},
		func(v any) []byte { return AppendLoadOrder(nil, v.(LoadOrder)) },
		func(b []byte) (any, error) { v, err := DecodeLoadOrder(b); return v, err }},
	{"load result", LoadResult{Refusal{1, 2, "r", "s", "t"}, Limit{"time", 3, 2}, "fault"},
		func(v any) []byte { return AppendLoadResult(nil, v.(LoadResult)) },
		func(b []byte) (any, error) { v, err := DecodeLoadResult(b); return v, err }},
	{"setup", Setup{"/cache", true, false, NoPagemap | NoLandlock, 1, 2, 3, 4},
		func(v any) []byte { return AppendSetup(nil, v.(Setup)) },
		func(b []byte) (any, error) { v, err := DecodeSetup(b); return v, err }},
	{"run result", RunResult{End{Error, "e"}, Limit{"stack", 1, 1}, "f", 12345678901, 7, 40},
		func(v any) []byte { return AppendRunResult(nil, v.(RunResult)) },
		func(b []byte) (any, error) { v, err := DecodeRunResult(b); return v, err }},
	{"report", Report{[]string{"a", "b"}, []string{"c"}, "f", 9},
		func(v any) []byte { return AppendReport(nil, v.(Report)) },
		func(b []byte) (any, error) { v, err := DecodeReport(b); return v, err }},
}

func encodeRequest(v any) []byte { return AppendRequest(nil, v.(Request)) }

func decodeRequest(b []byte) (any, error) { v, err := DecodeRequest(b); return v, err }

// TestRoundTrip: every message comes back as it was, a cut one and one with bytes left
// over are malformed.
func TestRoundTrip(t *testing.T) {
	for _, f := range forms {
		b := f.encode(f.value)
		got, err := f.decode(b)
		if err != nil || !reflect.DeepEqual(got, f.value) {
			t.Errorf("%s: %+v, %v", f.name, got, err)
		}
		for n := range b {
			if _, err := f.decode(b[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut to %d of %d bytes: %v", f.name, n, len(b), err)
			}
		}
		if _, err := f.decode(append(b, 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s with a byte too many: %v", f.name, err)
		}
	}
}

func TestRunOrder(t *testing.T) {
	want := RunOrder{Image: 7, Start: []byte("start")}
	if got, err := DecodeRunOrder(AppendRunOrder(nil, want)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := DecodeRunOrder(nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("empty: %v", err)
	}
}

// TestGreedyLength: a few bytes that promise a long list don't make the decoder allocate.
func TestGreedyLength(t *testing.T) {
	long := []byte{byte(Generate), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	if n := testing.AllocsPerRun(10, func() {
		if _, err := DecodeRequest(long); !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
	}); n > 10 {
		t.Errorf("%v allocations", n)
	}
}

func TestFrames(t *testing.T) {
	var b []byte
	want := []Frame{{FrameCall, 1, []byte("one")}, {FrameDrop, math.MaxUint32, []byte{}}, {FrameDone, 0, bytes.Repeat([]byte("x"), 100000)}}
	for _, f := range want {
		b = AppendFrame(b, f)
	}
	r := bytes.NewReader(b)
	for _, w := range want {
		if f, err := ReadFrame(r); err != nil || !reflect.DeepEqual(f, w) {
			t.Errorf("%v, %v", f.Kind, err)
		}
	}
	if _, err := ReadFrame(r); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if _, err := ReadFrame(bytes.NewReader(b[:11])); !errors.Is(err, ErrMalformed) {
		t.Errorf("cut short: %v", err)
	}
	if _, err := ReadFrame(bytes.NewReader(bytes.Repeat([]byte{0xff}, 20))); !errors.Is(err, ErrMalformed) {
		t.Errorf("giant: %v", err)
	}
}

func TestRunning(t *testing.T) {
	r := RunningAt(make([]byte, RunningSize))
	if s := r.Now(); s != (Stay{}) {
		t.Errorf("nobody runs: %+v", s)
	}
	r.Enter(7)
	first := r.Now()
	if first.Session != 7 || r.Now() != first {
		t.Errorf("in guest code: %+v, then %+v", first, r.Now())
	}
	r.Leave()
	r.Enter(7)
	if again := r.Now(); again == first || again.Session != 7 {
		t.Errorf("a second stay looks like the first: %+v", again)
	}
}

// FuzzDecode: no decoder panics, and what one accepts, it gives back when encoded again.
func FuzzDecode(f *testing.F) {
	for n, form := range forms {
		f.Add(n, form.encode(form.value))
	}
	f.Fuzz(func(t *testing.T, n int, b []byte) {
		form := forms[(n%len(forms)+len(forms))%len(forms)]
		v, err := form.decode(b)
		if err != nil {
			return
		}
		again, err := form.decode(form.encode(v))
		if err != nil || !reflect.DeepEqual(v, again) {
			t.Fatalf("%s: %+v, then %+v, %v", form.name, v, again, err)
		}
	})
}
