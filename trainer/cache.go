package trainer

import "github.com/seed-7c27e6b8/whale/cuda"

// cache is the key/value memory of generation: for each layer pages of keys and pages of
// values, in the order of the device, and the book of what is in them.
type cache struct {
	*pages
	count        int // pages
	floats       int // of a page
	keys, values []cuda.Floats
	memory       cuda.Floats
	version      uint64 // of the weights that filled it
}

func newCache(m *Model, tokens int) (*cache, error) {
	c := m.Config
	layers := len(c.Layers)
	k := &cache{count: (tokens + pageTokens - 1) / pageTokens, floats: pageFloats(m),
		keys: make([]cuda.Floats, layers), values: make([]cuda.Floats, layers)}
	var a arena
	for i := range layers {
		a.want(&k.keys[i], k.count*k.floats)
		a.want(&k.values[i], k.count*k.floats)
	}
	var err error
	k.memory, err = a.reserve(m.dev)
	k.pages = newPages(k.count)
	return k, err
}

// cacheTokens is the default size: what 65,536 tokens need, at most 512 MiB, at least one
// sequence of full length.
func cacheTokens(m *Model) int {
	return max(min(1<<16, int(512<<20/cacheBytes(m))), m.context)
}

// pageFloats is what a page takes in the keys of a layer, and in its values.
func pageFloats(m *Model) int {
	return m.dev.PageFloats(m.precision, m.Config.KVHeads, m.Config.HeadDim, pageTokens)
}

// copyPage copies a page to another, in all layers: a device need not keep tokens one by one.
func (k *cache) copyPage(dev *cuda.Device, to, from *page) error {
	var err error
	for i := range k.keys {
		for _, x := range []cuda.Floats{k.keys[i], k.values[i]} {
			at := func(g *page) cuda.Floats {
				begin := int(g.index) * k.floats
				return x.Slice(begin, begin+k.floats)
			}
			err = first(err, dev.Copy(at(to), at(from)))
		}
	}
	return err
}

// admission is what became of a sequence that asks for its place in the cache.
type admission int

const (
	admitted admission = iota
	later              // what it could reuse is being computed by this very step
	full               // not enough pages until another sequence ends
)

// admit finds what of a new sequence is in the cache, promises the pages for the rest and
// leaves s.done at the first id that must be run. The last id is always run: its logits
// are needed.
func (k *cache) admit(dev *cuda.Device, s *sequence) (admission, error) {
	chain, last, want := k.chain(s.ids[:len(s.ids)-1])
	giveBack := func() {
		for i := len(chain) - 1; i >= 0; i-- {
			k.release(chain[i])
		}
	}
	tail, common := k.tail(last, want)
	if tail != nil && tail.stored < common {
		giveBack()
		return later, nil
	}
	need := (s.end-1+pageTokens-1)/pageTokens - len(chain)
	adopt := tail != nil && tail.refs == 0 && tail.n == common
	if adopt {
		need--
	}
	if tail != nil {
		k.hold(tail)
	}
	if k.available() < need {
		if tail != nil {
			k.release(tail)
		}
		giveBack()
		return full, nil
	}
	k.reserved += need
	s.promised, s.pages, s.done = need, chain, len(chain)*pageTokens
	if tail == nil {
		s.cached = s.done
		return admitted, nil
	}
	var err error
	if adopt {
		s.pages = append(s.pages, tail)
		s.key = prefix{parent: last.id()}
		for _, id := range want[:common] {
			s.key = s.key.with(id)
		}
		s.done += common
	} else {
		for _, id := range want[:common] {
			k.extend(s, id)
		}
		copied := s.pages[len(s.pages)-1]
		copied.stored = common
		err = k.copyPage(dev, copied, tail)
		k.release(tail)
	}
	s.cached = s.done
	return admitted, err
}

// chain holds the full pages that ids begin with, and returns them, the last of them, and
// the ids behind.
func (k *cache) chain(ids []int32) (chain []*page, last *page, rest []int32) {
	for len(ids) >= pageTokens {
		g := k.find(last, ids[:pageTokens])
		if g == nil {
			break
		}
		k.hold(g)
		chain, last, ids = append(chain, g), g, ids[pageTokens:]
	}
	return chain, last, ids
}

// tail returns the page behind last that shares most ids with want, less than a page, and
// how many.
func (k *cache) tail(last *page, want []int32) (*page, int) {
	for n := min(len(want), pageTokens-1); n > 0; n-- {
		if g := k.find(last, want[:n]); g != nil {
			return g, n
		}
	}
	return nil, 0
}

// extend gives the next id of s its place, in a new page if the last one is full.
func (k *cache) extend(s *sequence, id int32) {
	if s.done%pageTokens == 0 {
		var parent *page
		if n := len(s.pages); n > 0 {
			parent = s.pages[n-1]
		}
		s.pages = append(s.pages, k.take(parent))
		s.promised--
		s.key = prefix{parent: parent.id()}
	}
	s.key = k.place(s.pages[len(s.pages)-1], s.key, id)
	s.done++
}

// stored notes that the step which stored the last rows of s is done, and lets a page that
// s filled while decoding give way to an equal one that another sequence filled first.
func (k *cache) stored(s *sequence) {
	for i := (s.done - s.rows) / pageTokens; i < len(s.pages); i++ {
		s.pages[i].stored = s.pages[i].n
	}
	g := s.pages[len(s.pages)-1]
	if g.n < pageTokens || g.refs > 1 {
		return
	}
	if same := k.canonical(g); same != g {
		k.hold(same)
		k.drop(g)
		s.pages[len(s.pages)-1] = same
	}
}

// leave gives back the pages of s.
func (k *cache) leave(s *sequence) {
	for i := len(s.pages) - 1; i >= 0; i-- {
		k.release(s.pages[i])
	}
	k.reserved -= s.promised
	s.pages, s.promised, s.done = nil, 0, 0
}
