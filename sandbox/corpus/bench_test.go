package corpus

import (
	"testing"

	"github.com/seed-7c27e6b8/whale/sandbox/vet"
)

// BenchmarkPrepare lowers and vets the natural harnesses of testdata, one per step; some
// are refused.
func BenchmarkPrepare(b *testing.B) {
	list := harnesses(read(b, "testdata/natural.txt"))
	refused := 0
	for i := 0; b.Loop(); i++ {
		if _, err := vet.Prepare(list[i%len(list)].source); err != nil {
			refused++
		}
	}
	if refused > b.N/2 {
		b.Fatalf("%d of %d are refused", refused, b.N)
	}
}
