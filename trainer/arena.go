package trainer

import "github.com/seed-7c27e6b8/whale/cuda"

// arena cuts many buffers from one reservation of device memory. Ask with want, then
// reserve once; the owner of the reservation frees it.
type arena struct {
	floats []wanted
	size   int
}

type wanted struct {
	view  *cuda.Floats
	at, n int
}

// want asks for n floats; view is set by reserve.
func (a *arena) want(view *cuda.Floats, n int) {
	a.floats = append(a.floats, wanted{view, a.size, n})
	a.size += (n + align - 1) / align * align
}

// overlay asks for n sets of buffers that are never in use at the same time: what list
// wants for one of them lies over what it wants for the others.
func (a *arena) overlay(n int, list func(i int)) {
	base, end := a.size, a.size
	for i := range n {
		a.size = base
		list(i)
		end = max(end, a.size)
	}
	a.size = end
}

// reserve allocates what was asked for, zeroed, and sets the views.
func (a *arena) reserve(dev *cuda.Device) (cuda.Floats, error) {
	all, err := dev.Floats(a.size)
	if err != nil {
		return cuda.Floats{}, err
	}
	for _, w := range a.floats {
		*w.view = all.Slice(w.at, w.at+w.n)
	}
	return all, nil
}
