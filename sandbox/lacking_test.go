package sandbox

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// TestLacking: on a kernel that lacks something the sandbox works all the same, each run is
// fresh, limits hold, and the level says what is missing.
func TestLacking(t *testing.T) {
	for _, c := range []struct {
		without abi.Lacking
		says    string // among the fallbacks
		holds   string // the confinement that then is not there
	}{
		{abi.NoMemfd, "no memfd", ""},
		{abi.NoPagemap, "no pagemap", ""},
		{abi.NoPagemapScan, "no PAGEMAP_SCAN", ""},
		{abi.NoSeccomp, "no seccomp", "seccomp"},
		{abi.NoLandlock, "no Landlock", "landlock_files"},
		{abi.NoMemfd | abi.NoPagemap | abi.NoPagemapScan | abi.NoSeccomp | abi.NoLandlock, "no memfd", "seccomp"},
	} {
		if raced && !long() && c.holds == "" {
			continue // the worker's side, on one thread
		}
		box := openOwn(t, Config{Workers: 1, Engine: Interpret, Limits: testLimits, without: c.without})
		level, err := box.Level(context.Background())
		if err != nil || !strings.Contains(strings.Join(level.Fallbacks, "; "), c.says) || slices.Contains(level.Confinement, c.holds) {
			t.Errorf("%s: %+v, %v", c.says, level, err)
		}
		counter := load(t, box, head+"var count int\n\nfunc Run(s *kit.Session) error {\n\tcount++\n\tif count > 1 {\n\t\treturn s.Log(\"again\")\n\t}\n\treturn nil\n}")
		for range 3 {
			host := &script{}
			if _, err := counter.Run(context.Background(), engine.Start{}, host); err != nil || len(host.notes) != 0 {
				t.Errorf("%s: %v, %v", c.says, host.notes, err)
			}
		}
		if _, err := run(t, box, head+"func Run(s *kit.Session) error { for {} }", &script{}); !limitIs(engine.LimitTime)(err) {
			t.Errorf("%s: %v", c.says, err)
		}
		if _, err := run(t, box, fourTurns, &script{}); err != nil {
			t.Errorf("%s: %v", c.says, err)
		}
		closeBox(t, box)
	}
}
