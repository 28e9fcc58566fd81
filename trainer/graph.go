package trainer

import (
	"errors"

	"github.com/seed-7c27e6b8/whale/cuda"
)

// graphs are decode steps that the device recorded: some hundred small calls become one. A step
// is recorded when its shape comes for the second time; the first time it makes the device's own
// room. A row among others keeps its arithmetic, so each number of rows has its own graph rather
// than rows that fill up.
type graphs struct {
	off  bool // the device has none
	list map[decodeShape]*cuda.Graph
}

// decodeShape is all that differs between decode steps but for contents: rows, and pages of the
// longest sequence.
type decodeShape struct{ rows, pages int }

const (
	mostGraphs = 64 // each takes memory of the card; when there are more, all are dropped
	pageStep   = 8  // pages of a table are rounded up, so that a graph serves longer
)

// decodes reports whether every sequence of a step has one row and samples.
func (p *plan) decodes() bool { return len(p.ids) == len(p.live) && len(p.pick) == len(p.live) }

// run does a step by its graph, or by calling layers.
func (g *graphs) run(dev *cuda.Device, p *plan, layers func() error) error {
	if g.off || !p.decodes() {
		return layers()
	}
	shape := decodeShape{len(p.ids), p.maxPages}
	graph, seen := g.list[shape]
	if !seen {
		if len(g.list) >= mostGraphs {
			g.drop()
		}
		if g.list == nil {
			g.list = map[decodeShape]*cuda.Graph{}
		}
		g.list[shape] = nil
		return layers()
	}
	if graph == nil {
		var err error
		graph, err = dev.Record(layers)
		if errors.Is(err, cuda.NoDevice) || errors.Is(err, cuda.BadShape) {
			g.off = true
			return layers()
		}
		if err != nil {
			return err
		}
		g.list[shape] = graph
	}
	err := graph.Replay()
	if errors.Is(err, cuda.BadShape) { // memory moved
		g.drop()
		return layers()
	}
	return err
}

// drop frees all graphs, as whoever moves memory that they point to must.
func (g *graphs) drop() {
	for _, graph := range g.list {
		if graph != nil {
			graph.Drop()
		}
	}
	clear(g.list)
}
