package trainer

// Load is what a policy has to do and to hold it with, as of its last step.
type Load struct {
	Running int // calls that the device works on
	Waiting int // calls that wait for a row or for cache pages
	Used    int // cache tokens that calls hold or were promised
	Room    int // cache tokens in all
}

// Load answers at once, also while the device is busy.
func (p *Policy) Load() Load {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	l := p.g.load
	l.Waiting += len(p.g.queue)
	return l
}

// measure notes the load; the caller is the loop and holds g.mu.
func (g *generator) measure() {
	g.load = Load{Running: len(g.live), Waiting: len(g.waiting),
		Used: (g.cache.count - g.cache.available()) * pageTokens, Room: g.cache.count * pageTokens}
}
