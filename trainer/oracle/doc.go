// Package oracle computes loss and gradients of a model a second time, in
// float64 and with automatic differentiation by Gorgonia, so that the
// hand-written backward of package trainer has an independent witness. Check
// compares the two on small random models, on the device at hand.
//
// The graph uses only operators whose gradients are right: matrix products,
// elementwise arithmetic, exp, log, sqrt and sums. Lookups are products with
// one-hot matrices, slices and broadcasts products with constant ones, and the
// loss must agree with a forward pass in plain Go before any gradient is
// believed.
//
// It is slow and made for toy sizes: memory grows with heads times layers times
// the square of the length. It knows the layers of spec/models.md sections 2
// and 3 and nothing of batches, devices or optimizers. Gorgonia is compiled
// with this package only; keep it out of others.
package oracle
