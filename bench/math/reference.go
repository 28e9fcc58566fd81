package math

import (
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// dataSets are the names of the sources that problems come from. The plain word math is
// none: it is in every second prompt.
var dataSets = []string{"GSM8K", "AIME", "DAPO", "MATH500", "MATH-500", "Hendrycks MATH"}

var _ engine.Keeper = (*world)(nil)

// References tells a problem's reference where it is words. Numbers and formulas are in
// many texts by chance.
func (w *world) References(task engine.Task) []string {
	p := w.problems[task.ID]
	if p == nil || strings.ContainsAny(p.reference, `\$^=`) {
		return nil
	}
	return []string{p.reference}
}
