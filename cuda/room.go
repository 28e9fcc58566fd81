package cuda

/*
#include "whale.h"
*/
import "C"

import "unsafe"

// Room is the memory of a card, in bytes. The zero value is that of a device which is no card.
type Room struct {
	CardTotal, CardFree int64   // of the card, whoever holds it
	Held                int64   // what this device got of the card
	Used, Peak          int64   // what it has given out, and the most it had since the last Reserve
	Workspace           int64   // what the device takes for itself besides, before scratch of its operators
	Bandwidth           float64 // bytes a second by clock and width of the memory; 0 if not known
}

// Room measures. Errors: Broken.
func (d *Device) Room() (Room, error) {
	var r C.whale_room
	err := d.run("room", func(dev *C.whale_device) C.whale_status { return C.whale_measure(dev, &r) })
	return Room{CardTotal: int64(r.card_total), CardFree: int64(r.card_free), Held: int64(r.held), Used: int64(r.used),
		Peak: int64(r.peak), Workspace: int64(r.workspace), Bandwidth: float64(r.bandwidth)}, err
}

// Reserve has a card hold at least so many bytes from now on; other devices do nothing. Errors:
// NoMemory, with a line that says what is free and who may hold the rest; Broken.
func (d *Device) Reserve(bytes int64) error {
	return d.run("reserve", func(dev *C.whale_device) C.whale_status { return C.whale_reserve(dev, C.size_t(max(bytes, 0))) })
}

// Sync waits until all is done that was asked for. Errors: Broken, for what went wrong by then.
func (d *Device) Sync() error {
	return d.run("sync", func(dev *C.whale_device) C.whale_status { return C.whale_sync(dev) })
}

// Graph is recorded work that can be done again, with the contents that its memory has by then.
type Graph struct {
	dev *Device
	p   unsafe.Pointer
}

// Record notes what f asks of the device instead of doing it. Nobody else may use the device
// meanwhile, and f may not reserve, free, upload or download memory. Indices are checked now and
// not at a replay. The caller drops the graph. Errors: NoDevice if the device has no graphs, what
// f answers, BadShape.
func (d *Device) Record(f func() error) (*Graph, error) {
	if err := d.run("record", func(dev *C.whale_device) C.whale_status { return C.whale_record(dev) }); err != nil {
		return nil, err
	}
	failed := f()
	g := &Graph{dev: d}
	err := d.run("record", func(dev *C.whale_device) C.whale_status { return C.whale_end(dev, &g.p) })
	if failed != nil {
		g.Drop()
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Replay does what was recorded. Errors: BadShape if the device's own memory moved since, after
// which the graph is of no more use; Broken.
func (g *Graph) Replay() error {
	return g.dev.run("replay", func(dev *C.whale_device) C.whale_status { return C.whale_replay(dev, g.p) })
}

// Drop frees the graph. Dropping twice, or after the device was closed, does nothing.
func (g *Graph) Drop() {
	g.dev.mu.Lock()
	defer g.dev.mu.Unlock()
	if g.dev.ptr != nil && g.p != nil {
		C.whale_drop(g.dev.ptr, g.p)
	}
	g.p = nil
}
