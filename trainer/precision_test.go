package trainer

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// Loss and gradient in bfloat16 are near those in float32, and not the same.
func TestBF16IsNearFloat32(t *testing.T) {
	dev := cpu(t, 2)
	if !dev.Has(cuda.BF16) {
		t.Skip("this processor has no bfloat16 products (AVX512_BF16): nothing tested")
	}
	c := small(checkpoint.Llama)
	rows := someRows(rand.New(rand.NewPCG(3, 3)), c.Vocab, 12, 30)
	exact, loss := gradients(t, bare(t, c, dev, Options{}), rows)
	near, lossNear := gradients(t, bare(t, c, dev, Options{Precision: cuda.BF16}), rows)
	if d := math.Abs(loss-lossNear) / loss; d == 0 || d > 0.01 {
		t.Errorf("loss %v in bfloat16, %v in float32", lossNear, loss)
	}
	var dot, a, b float64
	for i := range exact {
		x, y := float64(exact[i]), float64(near[i])
		dot, a, b = dot+x*y, a+x*x, b+y*y
	}
	if cos, ratio := dot/math.Sqrt(a*b), math.Sqrt(b/a); cos < 0.999 || math.Abs(ratio-1) > 0.01 {
		t.Errorf("gradient: cosine %v, length %v times that in float32", cos, ratio)
	}
}

// Logits, loss and gradient from three products of bfloat16 are those of float32 but for 1e-4, and
// not the same.
func TestBF16x3IsNearerFloat32(t *testing.T) {
	for _, isa := range []string{"", "amx-emulated"} {
		dev, err := cuda.Open("cpu", 2, cuda.WithISA(isa))
		if err == nil {
			defer dev.Close()
		}
		if err != nil || !dev.Has(cuda.BF16x3) {
			t.Skip("this processor has no bfloat16 products (AVX512_BF16): nothing tested")
		}
		c := small(checkpoint.Llama)
		rows := someRows(rand.New(rand.NewPCG(3, 3)), c.Vocab, 12, 30)
		one, three := bare(t, c, dev, Options{}), bare(t, c, dev, Options{Precision: cuda.BF16x3})
		if d := distance(logits(t, one, rows[0].IDs), logits(t, three, rows[0].IDs)); d == 0 || d > 1e-4 {
			t.Errorf("%s: logits differ by %g", dev.ISA(), d)
		}
		exact, loss := gradients(t, one, rows)
		near, lossNear := gradients(t, three, rows)
		if d := math.Abs(loss-lossNear) / loss; d > 1e-5 {
			t.Errorf("%s: loss %v in bf16x3, %v in float32", dev.ISA(), lossNear, loss)
		}
		if d := distance(exact, near); d == 0 || d > 1e-4 {
			t.Errorf("%s: gradients differ by %g", dev.ISA(), d)
		}
	}
}

// A precision that the device lacks is refused when the model is made.
func TestPrecisionThatIsMissing(t *testing.T) {
	dev, err := cuda.Open("cpu", 1, cuda.WithISA("portable"))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, p := range []cuda.Precision{cuda.BF16, cuda.BF16x3} {
		if _, err := New(small(checkpoint.Llama), letters(t), dev, Options{Precision: p}); !errors.Is(err, cuda.NoDevice) {
			t.Errorf("%s: error %v, want NoDevice", p, err)
		}
	}
}
