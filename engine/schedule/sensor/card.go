package sensor

import "strings"

// Card is one accelerator at one moment.
type Card struct {
	Index int
	Name  string // as the driver says; empty = it does not
	ID    string // UUID

	Utilization Reading // share of the last sample period with a kernel running, in [0,1]
	MemoryTotal Reading // bytes
	MemoryUsed  Reading // bytes, by all processes and the driver
	Others      Reading // bytes held by other processes, where the driver tells them apart
	Processes   Reading // compute processes
	Power       Reading // watts now
	PowerLimit  Reading // watts
	Temperature Reading // degrees Celsius
	Clock       Reading // MHz of the multiprocessors
	MemoryClock Reading // MHz
	Throttle    Reading // bits of Throttle*
	Partitioned Reading // 1 = MIG: most readings are of the whole card or not offered
}

// Why a card runs below its clocks, as bits in Card.Throttle. Other reasons (idle, clocks
// set by a person) are no trouble and not in it.
const (
	ThrottleHeat  = 1 << iota // software or hardware thermal slowdown
	ThrottleBrake             // hardware power brake or slowdown: the supply is in trouble
	ThrottleCap               // the power limit, which a busy card usually runs at
)

// Throttled says whether a reason holds; false too when it is not known.
func (c Card) Throttled(bit int) bool {
	v, ok := c.Throttle.Get()
	return ok && int(v)&bit != 0
}

// Line is the card in words, for people.
func (c Card) Line() string {
	name := c.Name
	if name == "" {
		name = "card"
	}
	parts := []string{name,
		"used " + c.Utilization.Text("%.2f"),
		"memory " + gigabytes(c.MemoryUsed) + " of " + gigabytes(c.MemoryTotal),
		"power " + c.Power.Text("%.0f W"), c.Temperature.Text("%.0f °C"), "clock " + c.Clock.Text("%.0f MHz"),
		"processes " + c.Processes.Text("%.0f")}
	if v, ok := c.Throttle.Get(); ok && v != 0 {
		parts = append(parts, "throttled: "+throttleText(int(v)))
	}
	if c.Partitioned.Or(0) == 1 {
		parts = append(parts, "MIG")
	}
	return strings.Join(parts, ", ")
}

func throttleText(bits int) string {
	var words []string
	for i, word := range []string{"heat", "power brake", "power limit"} {
		if bits&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, " and ")
}

func gigabytes(r Reading) string {
	if v, ok := r.Get(); ok {
		return Value(v/1e9, 0, v).Text("%.1f GB")
	}
	return r.Text("%.0f")
}
