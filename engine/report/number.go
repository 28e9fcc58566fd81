package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// missing stands where a number is not known or not finite.
const missing = "–"

// count prints an integer in groups of three digits: 12,345.
func count(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	if digits[0] == '-' {
		b.WriteByte('-')
		digits = digits[1:]
	}
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// compact prints a quantity in at most five characters: 931, 5.3k, 81k, 1.2M.
func compact(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return missing
	case v < 0:
		return "-" + compact(-v)
	case v < 999.5:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	for _, unit := range []string{"k", "M", "G", "T"} {
		v /= 1000
		if v < 9.95 {
			return strconv.FormatFloat(v, 'f', 1, 64) + unit
		}
		if v < 999.5 {
			return strconv.FormatFloat(v, 'f', 0, 64) + unit
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + "T"
}

// share prints a number in [0,1] with three digits, as means are printed everywhere.
func share(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return missing
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// signed prints a difference of shares with its sign.
func signed(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return missing
	}
	text := strconv.FormatFloat(v, 'f', 3, 64)
	if v >= 0 || text == "-0.000" {
		return "+" + strings.TrimPrefix(text, "-")
	}
	return text
}

// clock prints a duration for people: 8s, 1m20s, 2h05m.
func clock(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
}

// seconds prints seconds for tables: <0.01, 0.04, 8.3, 231.
func seconds(s float64) string {
	switch {
	case math.IsNaN(s) || math.IsInf(s, 0):
		return missing
	case s == 0:
		return "0"
	case s > 0 && s < 0.005:
		return "<0.01"
	case s < 1:
		return strconv.FormatFloat(s, 'f', 2, 64)
	case s < 100:
		return strconv.FormatFloat(s, 'f', 1, 64)
	}
	return count(int(math.Round(s)))
}
