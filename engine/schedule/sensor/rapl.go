package sensor

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// most watts that one processor package is believed to take.
const packageWatts = 2000

// RAPL adds up what the processor packages took, from the kernel's powercap counters.
// Since Linux 5.10 only root may read them. It is for one goroutine.
type RAPL struct {
	files   Files
	zones   []*zone
	missing string
	now     func() time.Time
}

// zone is one package's counter, which starts over at span.
type zone struct {
	path string // of energy_uj
	span float64
	last float64 // microjoules
	at   time.Time
	ok   bool
}

// OpenRAPL finds the counters. Without any, or when they can't be read, Reading says why.
func OpenRAPL(f Files) *RAPL {
	r := &RAPL{files: f, now: time.Now}
	names, err := filepath.Glob(filepath.Join(f.Root, "/sys/class/powercap/*-rapl:*"))
	if err != nil || len(names) == 0 {
		r.missing = "no powercap counters"
		return r
	}
	sort.Strings(names)
	for _, dir := range names {
		if strings.Count(filepath.Base(dir), ":") != 1 || !strings.HasPrefix(firstField(r.text(dir, "name")), "package") {
			continue // parts of a package, or the whole board
		}
		z := &zone{path: filepath.Join(dir, "energy_uj"), span: number(firstField(r.text(dir, "max_energy_range_uj")), 1, 1e18).Or(0)}
		if _, err := os.ReadFile(z.path); err != nil {
			r.missing = "powercap counters can't be read: " + reason(err)
			continue
		}
		r.zones = append(r.zones, z)
	}
	if len(r.zones) == 0 && r.missing == "" {
		r.missing = "no powercap counter of a package"
	}
	return r
}

func reason(err error) string {
	if os.IsPermission(err) {
		return "only root may"
	}
	return "they do not open"
}

func (r *RAPL) text(dir, name string) []byte {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil
	}
	return text
}

// Missing is why there are no counters; empty when there are.
func (r *RAPL) Missing() string {
	if len(r.zones) > 0 {
		return ""
	}
	return r.missing
}

// Packages is how many processors are counted.
func (r *RAPL) Packages() int { return len(r.zones) }

// Since adds up all packages since the last call; false when one of them could not be
// read, or has jumped further than a processor can.
func (r *RAPL) Since() (joules float64, over time.Duration, ok bool) {
	ok = len(r.zones) > 0
	for _, z := range r.zones {
		now := r.now()
		v, read := number(firstField(r.text(filepath.Dir(z.path), "energy_uj")), 0, 1e18).Get()
		j, d := z.step(v, now)
		if !read || !z.ok || j < 0 || j > packageWatts*d.Seconds()+1 {
			ok = false
		}
		z.last, z.at, z.ok = v, now, read
		joules += j
		over = max(over, d)
	}
	return joules, over, ok
}

// step is what was added, once around the counter's span at most.
func (z *zone) step(v float64, now time.Time) (joules float64, d time.Duration) {
	delta := v - z.last
	if delta < 0 {
		delta += z.span
	}
	return delta / 1e6, now.Sub(z.at)
}
