package schedule

import (
	"context"
	"sync"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
)

// card says how long a device takes for a step of so many rows.
type card struct {
	name string
	step time.Duration // whatever the rows
	row  time.Duration // more for each
	rows int           // most of a step
}

// Both decode what is in flight in one batch. cpu is measured: SmolLM2-135M in bf16 on
// two cores has 80.7 tokens/s with one sequence and 334 with 16 (bench/RESULTS.md). hbm is
// worked out, not measured: 1.7 billion bf16 weights and a thousand cached tokens a row
// through 4.3 TB/s.
var cards = []card{
	{"cpu", 10050 * time.Microsecond, 2350 * time.Microsecond, 512},
	{"hbm", 800 * time.Microsecond, 27 * time.Microsecond, 512},
}

// lengths are the sampled tokens of the 56,032 calls of the default run of lookup, by how
// often they came.
var lengths = []struct{ tokens, calls int }{{3, 27}, {4, 5725}, {5, 41666}, {6, 8533}, {7, 70}, {9, 11}}

const promptRows = 5 // ids of a call's prompt that are not in the cache, in the same run

// lengthOf draws a recorded length; one call in every so many is stretched.
func lengthOf(seed uint64, every, stretch int) int {
	h := seed*0x9e3779b97f4a7c15 ^ seed>>29
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	u := int(h >> 33 % 56032)
	n := 0
	for _, l := range lengths {
		if u -= l.calls; u < 0 {
			n = l.tokens
			break
		}
	}
	if every > 0 && int(h>>7%uint64(every)) == 0 {
		n *= stretch
	}
	return max(n, 1)
}

// device is a policy and a learner whose answers are the test brain's and whose time is
// the card's.
type device struct {
	*enginetest.Brain
	card    card
	scale   int // of the recorded lengths
	every   int // one call in so many is a straggler; 0 = none
	mu      sync.Mutex
	work    *sync.Cond
	arrived []*call
	closed  bool

	longest, drawn int           // steps of the longest call, and rows of all, since the last unit began
	least          time.Duration // that the units up to it take on any schedule
}

// unit ends one unit of work: what comes after depends on all its rollouts, so no schedule with
// the same results overlaps the two. A unit takes as many steps as its longest call has tokens, at
// least, and every token and id of a prompt is a row of one of them.
func (d *device) unit() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.least += time.Duration(d.longest)*d.card.step + time.Duration(d.drawn)*d.card.row
	d.longest, d.drawn = 0, 0
}

type call struct {
	left, rows int // tokens to sample, ids of the prompt to run
	seconds    float64
	done       chan struct{}
}

func newDevice(c card, scale, every int) *device {
	d := &device{Brain: enginetest.NewBrain(), card: c, scale: scale, every: every}
	d.work = sync.NewCond(&d.mu)
	go d.loop()
	return d
}

func (d *device) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.work.Signal()
}

// Generate waits until the device has made the call's tokens.
func (d *device) Generate(ctx context.Context, r engine.Request) (engine.Completion, error) {
	c, err := d.Brain.Generate(ctx, r)
	if err != nil {
		return c, err
	}
	one := &call{left: d.scale * lengthOf(r.Seed, d.every, 20), rows: promptRows, done: make(chan struct{})}
	d.mu.Lock()
	d.arrived = append(d.arrived, one)
	d.longest, d.drawn = max(d.longest, one.left), d.drawn+one.left-1+promptRows
	d.work.Signal()
	d.mu.Unlock()
	<-one.done
	c.Seconds = one.seconds
	return c, nil
}

// loop makes one step after the other: a token for each call in the batch, and the prompts
// of new ones.
func (d *device) loop() {
	var live, waiting []*call
	for {
		d.mu.Lock()
		for len(d.arrived)+len(live)+len(waiting) == 0 && !d.closed {
			d.work.Wait()
		}
		waiting = append(waiting, d.arrived...)
		d.arrived = nil
		closed := d.closed
		d.mu.Unlock()
		if closed {
			return
		}
		rows := len(live)
		for len(waiting) > 0 && rows+waiting[0].rows <= d.card.rows {
			rows += waiting[0].rows
			live, waiting = append(live, waiting[0]), waiting[1:]
		}
		took := d.card.step + time.Duration(rows)*d.card.row
		time.Sleep(took)
		kept := live[:0]
		for _, c := range live {
			c.seconds += took.Seconds() * float64(max(1, c.rows)) / float64(rows)
			c.rows = 0
			if c.left--; c.left == 0 {
				close(c.done)
				continue
			}
			kept = append(kept, c)
		}
		live = kept
	}
}

// Update takes three times the forward pass of its rows.
func (d *device) Update(ctx context.Context, batch []engine.Sequence) (engine.Update, error) {
	d.unit()
	u, err := d.Brain.Update(ctx, batch)
	took := d.card.step + 3*d.card.row*time.Duration(len(batch)*trainedRows)
	time.Sleep(took)
	u.Seconds = took.Seconds()
	d.least += took
	return u, err
}

// trainedRows are the ids of an accepted rollout of the default run.
const trainedRows = 60
