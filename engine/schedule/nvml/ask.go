//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/seed-7c27e6b8/whale/engine/schedule/sensor"
)

// errStuck: the driver did not answer in time, now or to an earlier call that still runs.
var errStuck = errors.New("the driver does not answer")

// line is the one way to the driver. A call runs on a goroutine of its own with a deadline;
// while one is overdue no further one is begun, so a driver that hangs costs one goroutine
// and one OS thread, however often it is asked.
type line struct {
	api      nvml.Interface
	deadline time.Duration

	mu      sync.Mutex
	overdue chan struct{} // closed when the overdue call came back; nil = none
	symbols map[string]bool
}

// ask makes one call. Its error is errStuck, a panic's text, or nil.
func ask[T any](l *line, call func() T) (value T, err error) {
	if l.stuck() {
		return value, errStuck
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	ended := make(chan struct{})
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("the call panicked: %v", p)
			}
			close(ended)
			done <- r
		}()
		r.value = call()
	}()
	late := time.NewTimer(l.deadline)
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		l.mu.Lock()
		l.overdue = ended
		l.mu.Unlock()
		return value, errStuck
	}
}

// stuck says whether an overdue call has not come back.
func (l *line) stuck() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overdue == nil {
		return false
	}
	select {
	case <-l.overdue:
		l.overdue = nil
		return false
	default:
		return true
	}
}

// has looks a function up once. Calling one that the library lacks would end the process:
// the dynamic linker binds lazily and has no way to fail.
func (l *line) has(symbol string) bool {
	l.mu.Lock()
	found, known := l.symbols[symbol]
	l.mu.Unlock()
	if known {
		return found
	}
	err, asked := ask(l, func() error { return l.api.Extensions().LookupSymbol(symbol) })
	if asked != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.symbols[symbol] = err == nil
	return err == nil
}

// said is what one function of the driver answers.
type said struct {
	value  float64
	status nvml.Return
}

// read makes a reading of one function, scaled, inside [lo, hi].
func (l *line) read(symbol string, scale, lo, hi float64, call func() said) sensor.Reading {
	if !l.has(symbol) {
		if l.stuck() {
			return sensor.Broken(errStuck.Error())
		}
		return sensor.Missing("this driver has no " + symbol)
	}
	s, err := ask(l, call)
	if err != nil {
		return sensor.Broken(err.Error())
	}
	return judge(s, scale, lo, hi)
}

func judge(s said, scale, lo, hi float64) sensor.Reading {
	switch s.status {
	case nvml.SUCCESS:
		return sensor.Value(s.value*scale, lo, hi)
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_NO_PERMISSION:
		return sensor.Missing(status(s.status))
	}
	return sensor.Broken(status(s.status))
}

// status names what the driver answered. The driver's own text is not asked for: that
// would be one more function that may not be there.
func status(r nvml.Return) string {
	switch r {
	case nvml.ERROR_NOT_SUPPORTED:
		return "not supported"
	case nvml.ERROR_FUNCTION_NOT_FOUND:
		return "no such function"
	case nvml.ERROR_NO_PERMISSION:
		return "no permission"
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "no driver library"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the driver is not loaded"
	case nvml.ERROR_GPU_IS_LOST:
		return "the card is lost"
	case nvml.ERROR_TIMEOUT:
		return "the driver timed out"
	}
	return fmt.Sprintf("NVML status %d", int(r))
}
