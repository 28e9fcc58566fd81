package tokenizer

import "sync"

// merge says that a pair of neighbours becomes id; lower rank goes first.
type merge struct{ rank, id int32 }

// pair packs two neighbouring ids into a map key.
func pair(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// bpe is the merge model. All but the cache is immutable.
type bpe struct {
	single [256]int32       // byte -> id, noToken for a byte without a token
	merges map[uint64]merge // by pair
	order  [][2]int32       // the pairs by rank
	whole  map[string]int32 // raw bytes -> id, only with ignore_merges
	gaps   bool             // some byte has no token
	cache  *cache
}

// known returns word without the bytes that have no token.
func (m *bpe) known(word string) string {
	for i := range len(word) {
		if m.single[word[i]] != noToken {
			continue
		}
		kept := []byte(word[:i])
		for _, b := range []byte(word[i:]) {
			if m.single[b] != noToken {
				kept = append(kept, b)
			}
		}
		return string(kept)
	}
	return word
}

// noToken marks a byte without a token. Text loses such bytes, as it does in the
// reference library; SmolLM2 lacks some that no UTF-8 has and a few controls.
const noToken = -1

// encode appends the ids of one pre-token.
func (m *bpe) encode(ids []int32, word string) []int32 {
	if m.gaps {
		word = m.known(word)
	}
	if word == "" {
		return ids
	}
	if len(word) == 1 {
		return append(ids, m.single[word[0]])
	}
	if id, ok := m.whole[word]; ok {
		return append(ids, id)
	}
	if len(word) > maxCached {
		return append(ids, m.apply(word)...)
	}
	known, ok := m.cache.get(word)
	if !ok {
		known = m.apply(word)
		m.cache.put(word, known)
	}
	return append(ids, known...)
}

// candidate is a merge that may happen at symbol at. It is stale once either
// neighbour has changed.
type candidate struct {
	rank, at, left, right int32
}

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

// symbol is a link of the word: next is the index of its right neighbour, -1
// at the end; id is -1 once it was swallowed by its left neighbour.
type symbol struct{ id, prev, next int32 }

// apply merges the lowest rank first, the leftmost on equal rank, in
// O(n log n) for n bytes.
func (m *bpe) apply(word string) []int32 {
	symbols := make([]symbol, len(word))
	for i := range symbols {
		symbols[i] = symbol{m.single[word[i]], int32(i - 1), int32(i + 1)}
	}
	symbols[len(word)-1].next = -1
	var queue heap
	offer := func(at int32) {
		if at < 0 || symbols[at].next < 0 {
			return
		}
		left, right := symbols[at].id, symbols[symbols[at].next].id
		if found, ok := m.merges[pair(left, right)]; ok {
			queue.push(candidate{found.rank, at, left, right})
		}
	}
	for i := range symbols {
		offer(int32(i))
	}
	for len(queue) > 0 {
		c := queue.pop()
		s := &symbols[c.at]
		if s.id != c.left || s.next < 0 || symbols[s.next].id != c.right {
			continue
		}
		right := &symbols[s.next]
		s.id = m.merges[pair(c.left, c.right)].id
		s.next = right.next
		right.id = -1
		if s.next >= 0 {
			symbols[s.next].prev = c.at
		}
		offer(s.prev)
		offer(c.at)
	}
	var ids []int32
	for at := int32(0); at >= 0; at = symbols[at].next {
		ids = append(ids, symbols[at].id)
	}
	return ids
}

// heap is a binary heap of candidates, smallest first.
type heap []candidate

func (h *heap) push(c candidate) {
	q := append(*h, c)
	at := len(q) - 1
	for at > 0 && q[at].before(q[(at-1)/2]) {
		q[at], q[(at-1)/2] = q[(at-1)/2], q[at]
		at = (at - 1) / 2
	}
	*h = q
}

func (h *heap) pop() candidate {
	q := *h
	top := q[0]
	last := len(q) - 1
	q[0] = q[last]
	q = q[:last]
	for at := 0; ; {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(q); child++ {
			if q[child].before(q[least]) {
				least = child
			}
		}
		if least == at {
			break
		}
		q[at], q[least] = q[least], q[at]
		at = least
	}
	*h = q
	return top
}

// Bounds of the cache: what a word may be long, and how many are kept.
const (
	maxCached   = 64
	maxEntries  = 1 << 16
	cacheShards = 16
)

// cache remembers the ids of words. It only saves time: what is in it never
// changes a result. Its slices are shared and must not be written.
type cache [cacheShards]struct {
	sync.RWMutex
	words map[string][]int32
}

func newCache() *cache {
	c := &cache{}
	for i := range c {
		c[i].words = map[string][]int32{}
	}
	return c
}

// shard picks by the ends and the length, which differ enough between words.
func shard(word string) int {
	return int(word[0]^word[len(word)-1]<<2^byte(len(word))) % cacheShards
}

func (c *cache) get(word string) ([]int32, bool) {
	s := &c[shard(word)]
	s.RLock()
	defer s.RUnlock()
	ids, ok := s.words[word]
	return ids, ok
}

// put copies the word, which may be a slice of a long text.
func (c *cache) put(word string, ids []int32) {
	s := &c[shard(word)]
	s.Lock()
	defer s.Unlock()
	if len(s.words) < maxEntries/cacheShards {
		s.words[string([]byte(word))] = ids
	}
}
