package report

import (
	"math"
	"testing"
	"time"
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{count(0), "0"}, {count(999), "999"}, {count(1000), "1,000"}, {count(-1234567), "-1,234,567"},
		{count(math.MinInt64), "-9,223,372,036,854,775,808"},
		{compact(0), "0"}, {compact(999), "999"}, {compact(999.7), "1.0k"}, {compact(9949), "9.9k"}, {compact(9960), "10k"},
		{compact(999_600), "1.0M"}, {compact(-5300), "-5.3k"}, {compact(math.NaN()), "–"}, {compact(math.Inf(1)), "–"},
		{share(0.1646), "0.165"}, {share(math.NaN()), "–"},
		{clock(-1), "0s"}, {clock(59 * time.Second), "59s"}, {clock(80 * time.Second), "1m20s"}, {clock(2*time.Hour + 5*time.Minute), "2h05m"},
		{seconds(0), "0"}, {seconds(0.004), "<0.01"}, {seconds(0.04), "0.04"}, {seconds(8.31), "8.3"}, {seconds(1234.6), "1,235"}, {seconds(math.Inf(-1)), "–"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
