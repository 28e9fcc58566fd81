package sensor

import (
	"fmt"
	"math"
)

// State says what a reading is worth.
type State uint8

// A reading that was never made is unsupported.
const (
	Unsupported State = iota // the machine does not offer it
	Valid
	Invalid // it was offered and is nonsense, or did not come in time
)

// Reading is one number from the machine, or the reason why there is none.
type Reading struct {
	value float64
	state State
	why   string
}

// Value is a reading inside [lo, hi]; outside of it, or not a number, the reading is invalid.
func Value(v, lo, hi float64) Reading {
	if math.IsNaN(v) || v < lo || v > hi {
		return Broken(fmt.Sprintf("%g is outside of %g to %g", v, lo, hi))
	}
	return Reading{value: v, state: Valid}
}

// Missing is a reading that the machine does not offer.
func Missing(why string) Reading { return Reading{why: why} }

// Broken is a reading that can't be believed.
func Broken(why string) Reading { return Reading{state: Invalid, why: why} }

// Get is the value; false when there is none.
func (r Reading) Get() (float64, bool) { return r.value, r.state == Valid }

// Or is the value, or another one when there is none.
func (r Reading) Or(v float64) float64 {
	if r.state == Valid {
		return r.value
	}
	return v
}

// State of the reading.
func (r Reading) State() State { return r.state }

// Why there is no value; empty when there is one.
func (r Reading) Why() string { return r.why }

// Text is the value in a format for one float64, or what is the matter.
func (r Reading) Text(format string) string {
	switch r.state {
	case Valid:
		return fmt.Sprintf(format, r.value)
	case Invalid:
		return "invalid (" + r.why + ")"
	}
	return "unsupported (" + r.why + ")"
}
