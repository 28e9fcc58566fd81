package cuda

/*
#include "whale.h"
#cgo noescape whale_sample_rows
#cgo nocallback whale_sample_rows
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Sample draws one id for each row of logits Z [T, V], rows LdZ apart (spec/models.md 7):
// z/tau, then TopK (ties kept; <= 0 is off), then TopP (>= 1 is off), then the inverse of the
// cumulative distribution at U, walking the candidates in ascending id. Tau <= 1e-5 is greedy:
// the first largest id, its log-probability taken at tau 1 and its behaviour 0. Ids >= Valid
// are never drawn. TopP keeps the ids whose strictly more probable ids together weigh less
// than TopP, so ties stay together.
//
// Tau, TopP, TopK and U are host slices of T elements, as are the results: ID, LogP (under the
// full softmax of z/tau, equal bits to -nll of CrossEntropy) and Behaviour (under the truncated
// distribution). LogP and Behaviour may be nil.
type Sample struct {
	T, V, LdZ, Valid int
	Z                Floats
	Tau, TopP        []float32
	TopK             []int32
	U                []float64 // in [0, 1)
	ID               []int32
	LogP, Behaviour  []float32
}

// Sample draws ids; see the type Sample.
func (d *Device) Sample(a Sample) error {
	c := check{d: d, op: "sample"}
	c.atLeast("T", a.T, 0)
	c.atLeast("V", a.V, 1)
	c.atLeast("Valid", a.Valid, 1)
	if c.err == nil && a.Valid > a.V {
		c.fail("Valid is %d, more than V %d", a.Valid, a.V)
	}
	c.matrix("Z", a.Z.memory, a.T, a.LdZ, a.V)
	c.host("Tau", len(a.Tau), a.T)
	c.host("TopP", len(a.TopP), a.T)
	c.host("TopK", len(a.TopK), a.T)
	c.host("U", len(a.U), a.T)
	c.host("ID", len(a.ID), a.T)
	if a.LogP != nil {
		c.host("LogP", len(a.LogP), a.T)
	}
	if a.Behaviour != nil {
		c.host("Behaviour", len(a.Behaviour), a.T)
	}
	if c.err != nil || a.T == 0 {
		return c.err
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	s := C.whale_sample{T: C.int(a.T), V: C.int(a.V), ldz: C.int(a.LdZ), valid: C.int(a.Valid), z: a.Z.c(),
		tau: (*C.float)(pin(&pins, a.Tau)), top_p: (*C.float)(pin(&pins, a.TopP)), top_k: (*C.int32_t)(pin(&pins, a.TopK)),
		u: (*C.double)(pin(&pins, a.U)), host_id: (*C.int32_t)(pin(&pins, a.ID)),
		host_logp: (*C.float)(pin(&pins, a.LogP)), host_behaviour: (*C.float)(pin(&pins, a.Behaviour))}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_sample_rows(dev, &s) })
}

// pin keeps a host slice where it is while C holds its address.
func pin[E any](pins *runtime.Pinner, s []E) unsafe.Pointer {
	if len(s) == 0 {
		return nil
	}
	pins.Pin(&s[0])
	return unsafe.Pointer(&s[0])
}
