package sensor

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// machine is a folder with kernel files in it.
func machine(t *testing.T, files map[string]string) Files {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Files{root}
}

const meminfo = "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    600 kB\n"

func TestHost(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		total float64
		free  float64
	}{
		"no limit": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 1000 << 10, 600 << 10},
		"unified": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/job/7\n", "sys/fs/cgroup/job/7/cgroup.controllers": "memory",
			"sys/fs/cgroup/job/7/memory.max": "512000\n", "sys/fs/cgroup/job/7/memory.current": "500000\n"}, 512000, 12000},
		"in a container": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/host/path\n",
			"sys/fs/cgroup/memory.max": "512000\n", "sys/fs/cgroup/memory.current": "600000\n"}, 512000, 0},
		"old": {map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "400000\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "100000\n"}, 400000, 300000},
		"old without limit": {map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 1000 << 10, 600 << 10},
	} {
		h := machine(t, c.files).Host()
		if h.MemoryTotal.Or(-1) != c.total || h.MemoryFree.Or(-1) != c.free {
			t.Errorf("%s: %s of %s free", name, h.MemoryFree.Text("%.0f"), h.MemoryTotal.Text("%.0f"))
		}
	}
	h := machine(t, map[string]string{"proc/loadavg": "2.50 1 1 3/200 9", "proc/pressure/memory": "some avg10=12.50 avg60=0\nfull avg10=1.00",
		"proc/self/status": "Name:\twhale\nVmRSS:\t  200 kB\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}).Host()
	if h.Load.Or(-1) != 2.5 || h.Stalled.Or(-1) != .125 || h.Own.Or(-1) != 200<<10 || h.Cores.Or(-1) != 1.5 {
		t.Errorf("%+v", h)
	}
	if h := (Files{t.TempDir()}).Host(); h.MemoryTotal.State() != Unsupported || h.Load.State() != Unsupported || h.Cores.State() != Unsupported {
		t.Errorf("of nothing %+v", h)
	}
	if h := machine(t, map[string]string{"proc/meminfo": "MemTotal: lots kB\n", "proc/loadavg": "nan"}).Host(); h.MemoryTotal.State() != Invalid || h.Load.State() != Invalid {
		t.Errorf("of nonsense %+v", h)
	}
}

const zone0 = "sys/class/powercap/intel-rapl:0/"

func counters(microjoules string) map[string]string {
	return map[string]string{zone0 + "name": "package-0\n", zone0 + "energy_uj": microjoules, zone0 + "max_energy_range_uj": "262143328850\n",
		"sys/class/powercap/intel-rapl:0:0/name": "core\n", "sys/class/powercap/intel-rapl:0:0/energy_uj": "99",
		"sys/class/powercap/intel-rapl:1/name": "psys\n", "sys/class/powercap/intel-rapl:1/energy_uj": "99"}
}

func TestRAPL(t *testing.T) {
	files := machine(t, counters("262143000000"))
	r := OpenRAPL(files)
	now := time.Unix(100, 0)
	r.now = func() time.Time { return now }
	step := func(text string, d time.Duration) (float64, bool) {
		if err := os.WriteFile(filepath.Join(files.Root, zone0, "energy_uj"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		now = now.Add(d)
		joules, over, ok := r.Since()
		if ok && over != d {
			t.Errorf("over %v, want %v", over, d)
		}
		return joules, ok
	}
	if _, ok := step("262143000000", 0); ok || r.Packages() != 1 || r.Missing() != "" {
		t.Errorf("the first reading has nothing to compare with; %d packages, %q", r.Packages(), r.Missing())
	}
	for _, c := range []struct {
		text   string
		joules float64
		ok     bool
	}{
		{"262143300000", .3, true},
		{"271150", .3, true},         // around the span
		{"999999999999", 0, false},   // a jump
		{"999999999999", 0, true},    // believed from here on
		{"broken", 0, false},         //
		{"1000000000000", 0, false},  // nothing to compare with
		{"1000000500000", 0.5, true}, //
	} {
		if joules, ok := step(c.text, time.Second); ok != c.ok || ok && math.Abs(joules-c.joules) > 1e-9 {
			t.Errorf("%s: %v J, %v", c.text, joules, ok)
		}
	}
	if r := OpenRAPL(Files{t.TempDir()}); r.Missing() == "" {
		t.Error("no counters and no reason")
	} else if _, _, ok := r.Since(); ok {
		t.Error("joules from nowhere")
	}
	if r := OpenRAPL(machine(t, map[string]string{zone0 + "name": "package-0"})); r.Missing() == "" {
		t.Error("a counter that does not open, and no reason")
	}
}

// fakeCards answers from a script; its cards draw so many watts.
type fakeCards struct {
	watts func() Reading
	hang  chan struct{} // nil = answers at once
	asked int
}

func (f *fakeCards) Cards() ([]Card, error) {
	f.asked++
	if f.hang != nil {
		<-f.hang
	}
	return []Card{{Power: f.watts()}}, nil
}

func TestSampler_integratesPower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var watts atomic.Value
		watts.Store(Value(100, 0, 1000))
		cards := &fakeCards{watts: func() Reading { return watts.Load().(Reading) }}
		s := NewSampler(Setup{Files: Files{t.TempDir()}, Cards: cards, Every: 100 * time.Millisecond})
		check := func(joules, seconds float64) {
			t.Helper()
			synctest.Wait()
			if got := s.Energy(); math.Abs(got.Card.Joules-joules) > 1e-6 || math.Abs(got.Card.Seconds-seconds) > 1e-6 || got.Package.Seconds != 0 {
				t.Errorf("%+v, want %v J over %v s", got, joules, seconds)
			}
		}
		synctest.Wait()
		time.Sleep(time.Second)
		check(100, 1)
		watts.Store(Value(300, 0, 1000))
		time.Sleep(time.Second)
		check(380, 2) // 300 W from the next sample on
		watts.Store(Broken("garbage"))
		time.Sleep(time.Second)
		check(410, 2.1)
		s.Close()
	})
}

// A driver that hangs stops neither the answers nor the end.
func TestSampler_hangingDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cards := &fakeCards{watts: func() Reading { return Value(100, 0, 1000) }, hang: make(chan struct{}, 1)}
		told := 0
		s := NewSampler(Setup{Files: Files{t.TempDir()}, Cards: cards, Every: 100 * time.Millisecond, Told: func(Sample) { told++ }})
		cards.hang <- struct{}{} // one answer, then no more
		time.Sleep(time.Minute)
		synctest.Wait()
		if e := s.Energy(); e.Card.Joules != 200 || told != 1 || cards.asked != 2 {
			t.Errorf("%+v, told %d, asked %d: power is not known after 2 s", e, told, cards.asked)
		}
		began := time.Now()
		s.Close()
		if time.Since(began) != 0 {
			t.Error("closing waited")
		}
		close(cards.hang)
	})
}

func TestCard_line(t *testing.T) {
	line := Card{Name: "NVIDIA H200", Utilization: Missing("not supported"), MemoryTotal: Value(150e9, 0, exa), MemoryUsed: Broken("garbage"),
		Power: Value(700, 0, 3000), Throttle: Value(ThrottleHeat|ThrottleCap, 0, 7), Partitioned: Value(1, 0, 1)}.Line()
	for _, part := range []string{"unsupported (not supported)", "invalid (garbage) of 150.0 GB", "700 W", "heat and power limit", "MIG"} {
		if !strings.Contains(line, part) {
			t.Errorf("%q lacks %q", line, part)
		}
	}
}

// What the kernel writes, or anything else in its place, ends as a reading in its range.
func FuzzFiles(f *testing.F) {
	f.Add([]byte(meminfo), []byte("0::/job\n"), []byte("150000 100000"))
	f.Add([]byte("MemTotal: 1e400 kB"), []byte("0::/../../etc\n"), []byte("max 100000"))
	f.Fuzz(func(t *testing.T, info, group, quota []byte) {
		for _, r := range []Reading{kilobytes(info, "MemTotal:"), kilobytes(info, "MemAvailable:"), stalled(info), number(firstField(group), 0, exa), cores(quota)} {
			if v, ok := r.Get(); ok && (math.IsNaN(v) || v < 0 || v > exa) {
				t.Errorf("%v", v)
			}
			if _, ok := r.Get(); !ok && r.Why() == "" {
				t.Error("no value and no reason")
			}
		}
		if _, err := strconv.ParseFloat(firstField(group), 64); err != nil && number(firstField(group), 0, 1).State() == Valid {
			t.Error("a value that is no number")
		}
	})
}

var errNone = errors.New("none")

type noCards struct{}

func (noCards) Cards() ([]Card, error) { return nil, errNone }

func TestSampler_noCards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSampler(Setup{Files: Files{t.TempDir()}, Cards: noCards{}, Every: time.Second})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if l := s.Latest(); !errors.Is(l.CardsErr, errNone) || s.Energy().Total() != nil {
			t.Errorf("%+v, %v", l, s.Energy())
		}
		s.Close()
	})
}

// A reading of power holds for two seconds at most, once: what a card took while nobody read
// it is not made up.
func TestSampler_gap(t *testing.T) {
	begin := time.Now()
	m := &Sampler{rapl: OpenRAPL(machine(t, nil)), watts: 100, known: true, from: begin}
	for _, c := range []struct{ after, joules float64 }{{1, 100}, {1.5, 150}, {60, 350}, {61, 350}, {200, 350}} {
		m.count(begin.Add(time.Duration(c.after * float64(time.Second))))
		if math.Abs(m.card.Joules-c.joules) > 1e-6 || math.Abs(m.card.Seconds-c.joules/100) > 1e-9 {
			t.Errorf("after %v s: %+v, want %v J", c.after, m.card, c.joules)
		}
	}
}
