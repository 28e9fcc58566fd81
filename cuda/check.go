package cuda

/*
#include "whale.h"
*/
import "C"

import "fmt"

// check gathers the first broken argument of one call, so that no pointer reaches C
// without room for the shape that goes with it.
type check struct {
	d   *Device
	op  string
	err error
}

func (c *check) fail(format string, args ...any) {
	if c.err == nil {
		c.err = c.d.badShape(c.op, format, args...)
	}
}

// atLeast requires v >= low and v to fit the C int of the interface.
func (c *check) atLeast(field string, v, low int) {
	if v < low || v > 1<<31-1 {
		c.fail("%s is %d, needs %d or more", field, v, low)
	}
}

// holds requires room for need elements in x, which must live on this device.
func (c *check) holds(field string, x memory, need int) {
	switch {
	case c.err != nil:
	case need == 0:
	case x.p == nil:
		c.fail("%s is missing", field)
	case x.dev != c.d:
		c.fail("%s is memory of another device", field)
	case x.n < need:
		c.fail("%s holds %d elements, needs %d", field, x.n, need)
	}
}

// matrix requires room for rows of the given width, ld apart.
func (c *check) matrix(field string, x memory, rows, ld, width int) {
	if ld < width {
		c.fail("%s rows are %d apart, narrower than %d", field, ld, width)
	}
	if rows > 0 {
		c.holds(field, x, (rows-1)*ld+width)
	}
}

// optional is matrix for a pointer that may be NULL.
func (c *check) optional(field string, x memory, need int) {
	if x.p != nil {
		c.holds(field, x, need)
	}
}

// host requires a host slice of exactly n elements.
func (c *check) host(field string, have, n int) {
	if have != n {
		c.fail("%s holds %d elements, needs %d", field, have, n)
	}
}

// run makes the call unless an argument was bad.
func (c *check) run(call func(dev *C.whale_device) C.whale_status) error {
	if c.err != nil {
		return c.err
	}
	return c.d.run(c.op, call)
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// String shows a range without its address, so that messages are the same every run.
func (m memory) String() string { return fmt.Sprintf("%d elements", m.n) }
