package sensor

import (
	"sync"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Cards reads all accelerators. It may take as long as it likes, and may fail.
type Cards interface {
	Cards() ([]Card, error)
}

// Sample is all that was read at one moment.
type Sample struct {
	At    time.Time
	Host  Host
	Cards []Card // none: see CardsErr
	// CardsErr says why there are no cards; nil when there are, or none were asked for.
	CardsErr error
}

// gap is the longest time that one reading of power is taken to hold.
const gap = 2 * time.Second

// Sampler reads the machine at intervals on goroutines of its own. Its methods answer at
// once from what was read last, however long a driver hangs. It is safe for use from many
// goroutines.
type Sampler struct {
	files    Files
	cards    Cards
	told     func(Sample)
	stop     chan struct{}
	finished sync.WaitGroup

	mu     sync.Mutex
	latest Sample
	rapl   *RAPL
	cpu    engine.Joules
	card   engine.Joules
	watts  float64 // of the cards, at the last sample
	from   time.Time
	known  bool // watts is a value
}

// Setup is how a Sampler is made.
type Setup struct {
	Files Files
	Cards Cards // nil = none
	Every time.Duration
	// Told is called with each sample from the sampler's goroutine; nil = nobody.
	Told func(Sample)
}

// NewSampler starts sampling; Close ends it.
func NewSampler(s Setup) *Sampler {
	m := &Sampler{files: s.Files, cards: s.Cards, told: s.Told, stop: make(chan struct{}), rapl: OpenRAPL(s.Files)}
	m.latest = Sample{At: time.Now(), Host: s.Files.Host()}
	m.rapl.Since()
	m.finished.Go(func() { m.run(s.Every) })
	return m
}

// Close ends the sampling. A driver that hangs is not waited for: its goroutine is left
// behind and its answer dropped.
func (m *Sampler) Close() {
	close(m.stop)
	m.finished.Wait()
}

// Latest is what was read last.
func (m *Sampler) Latest() Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest
}

// Energy is what processor packages and cards took since the sampler started, as far as
// it could be read. Between samples a card is taken to draw what it drew at the last one,
// for two seconds at most.
func (m *Sampler) Energy() engine.Energy {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(time.Now())
	return engine.Energy{Package: m.cpu, Card: m.card}
}

// count brings the sums up to now; m.mu is held.
func (m *Sampler) count(now time.Time) {
	if joules, over, ok := m.rapl.Since(); ok {
		m.cpu = m.cpu.Add(engine.Joules{Joules: joules, Seconds: over.Seconds()})
	}
	if d := now.Sub(m.from); m.known && d > 0 {
		if d > gap {
			d, m.known = gap, false
		}
		m.card = m.card.Add(engine.Joules{Joules: m.watts * d.Seconds(), Seconds: d.Seconds()})
	}
	m.from = now
}

// answer is what a driver said.
type answer struct {
	cards []Card
	err   error
}

func (m *Sampler) run(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	answers := make(chan answer, 1)
	asking := false
	for {
		if m.cards != nil && !asking {
			asking = true
			go func() {
				cards, err := m.cards.Cards()
				answers <- answer{cards, err}
			}()
		}
		select {
		case <-m.stop:
			return
		case a := <-answers:
			asking = false
			m.heard(a)
			select {
			case <-m.stop:
				return
			case <-tick.C:
			}
		case <-tick.C:
			if m.cards == nil {
				m.heard(answer{})
			}
		}
	}
}

// heard books a sample.
func (m *Sampler) heard(a answer) {
	s := Sample{At: time.Now(), Host: m.files.Host(), Cards: a.cards, CardsErr: a.err}
	watts, known := 0.0, len(a.cards) > 0
	for _, c := range a.cards {
		w, ok := c.Power.Get()
		watts += w
		known = known && ok
	}
	m.mu.Lock()
	m.count(s.At)
	m.watts, m.known, m.latest = watts, known, s
	m.mu.Unlock()
	if m.told != nil {
		m.told(s)
	}
}
