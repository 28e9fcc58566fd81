package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"

	"github.com/seed-7c27e6b8/whale/sandbox/fork"
)

// Bounds of what a worker keeps.
const (
	maxIdle     = 32       // instances at rest, over all images
	collectFrom = 16 << 20 // bytes allocated since the last collection
	collectLook = 64       // stays in guest code between two looks at that
)

// shelf holds the images of a worker and their instances at rest. Its methods are called
// by the server's loop and its sessions, one at a time.
type shelf struct {
	machine   *fork.Machine // of images that don't bring their own
	images    map[uint32]*entry
	idle      int // instances at rest
	stays     int // since the last look
	collected uint64
	allocated []metrics.Sample
}

type entry struct {
	image   *fork.Image
	own     *fork.Machine // of a compiled source: goes with the entry, and its image with it
	idle    []*fork.Instance
	used    int  // instances out on a run
	dropped bool // close the image when the last of them is back
}

func newShelf(machine *fork.Machine) shelf {
	return shelf{machine: machine, images: map[uint32]*entry{},
		allocated: []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}}
}

// put adds an image.
func (s *shelf) put(number uint32, e *entry) error {
	if s.images[number] != nil {
		return fmt.Errorf("image %d exists", number)
	}
	s.images[number] = e
	return nil
}

// take gives a fresh instance of an image.
func (s *shelf) take(ctx context.Context, number uint32) (*fork.Instance, error) {
	e := s.images[number]
	if e == nil || e.dropped {
		return nil, fmt.Errorf("no image %d", number)
	}
	e.used++
	if n := len(e.idle); n > 0 {
		i := e.idle[n-1]
		e.idle = e.idle[:n-1]
		s.idle--
		return i, nil
	}
	machine := s.machine
	if e.own != nil {
		machine = e.own
	}
	i, err := machine.Fork(ctx, e.image)
	if err != nil {
		e.used--
	}
	return i, err
}

// give takes an instance back: it is reset for the next run, or closed if it is broken,
// has grown or isn't needed. It says how many pages the run wrote, as far as known.
func (s *shelf) give(number uint32, i *fork.Instance, broken bool) (pages int, err error) {
	e := s.images[number]
	e.used--
	keep := false
	if !broken && !e.dropped {
		if pages, keep, err = i.Reset(); err != nil {
			keep = false
		}
	}
	if !keep {
		pages = max(pages, (i.Size()-e.image.Size())/4096)
		if failed := i.Close(); err == nil {
			err = failed
		}
		if e.dropped && e.used == 0 {
			if failed := s.free(number); err == nil {
				err = failed
			}
		}
		return pages, err
	}
	if s.idle == maxIdle {
		if err := s.evict(e); err != nil {
			return pages, err
		}
	}
	i.Host = nil
	e.idle = append(e.idle, i)
	s.idle++
	return pages, nil
}

// evict closes one instance at rest, of another image if there is one.
func (s *shelf) evict(keep *entry) error {
	victim := keep
	for _, e := range s.images {
		if e != keep && len(e.idle) > 0 {
			victim = e
			break
		}
	}
	last := len(victim.idle) - 1
	i := victim.idle[last]
	victim.idle = victim.idle[:last]
	s.idle--
	return i.Close()
}

// drop forgets an image; runs of it still end well.
func (s *shelf) drop(number uint32) {
	e := s.images[number]
	if e == nil || e.dropped {
		return
	}
	e.dropped = true
	if e.used == 0 {
		_ = s.free(number) // munmap and close of what is ours; nothing waits for it
	}
}

func (s *shelf) free(number uint32) (err error) {
	e := s.images[number]
	delete(s.images, number)
	for _, i := range e.idle {
		s.idle--
		if failed := i.Close(); err == nil {
			err = failed
		}
	}
	if e.own != nil {
		return errors.Join(err, e.own.Close(context.Background()))
	}
	return errors.Join(err, e.image.Close())
}

// touch makes the memory there that is allocated from until the next collection: the page
// faults of the thread then are those of guests, from which a reset learns what to look at.
func touch() {
	room := make([]byte, collectFrom)
	for at := 0; at < len(room); at += 4096 {
		room[at] = 1
	}
	runtime.KeepAlive(room)
	room = nil
	runtime.GC()
}

// collect runs the garbage collector when enough was allocated. No guest code
// runs meanwhile, so no guest can make it wait.
func (s *shelf) collect() {
	if s.stays++; s.stays < collectLook {
		return
	}
	s.stays = 0
	metrics.Read(s.allocated)
	now := s.allocated[0].Value.Uint64()
	if now-s.collected < collectFrom {
		return
	}
	runtime.GC()
	s.collected = now
}
