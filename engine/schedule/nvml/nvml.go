//go:build cgo

package nvml

import (
	"fmt"
	"os"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/seed-7c27e6b8/whale/engine/schedule/sensor"
)

// Deadline is how long a call of the driver may take before its reading is given up.
// Healthy ones take microseconds, the first of a process up to a second.
const Deadline = 3 * time.Second

// Ranges outside of which a reading is nonsense. They are far wider than any card.
const (
	mostWatts   = 3000
	mostDegrees = 150
	leastDegree = -40
	mostMHz     = 10000
	mostBytes   = 1 << 44
	mostCards   = 64
)

// Driver reads the cards of this machine. It is for one goroutine at a time.
type Driver struct {
	line *line
	pid  int
}

// Open initialises NVML. Its error says why there are no cards to read.
func Open() (*Driver, error) { return open(nvml.New(), Deadline, os.Getpid()) }

func open(api nvml.Interface, deadline time.Duration, pid int) (*Driver, error) {
	l := &line{api: api, deadline: deadline, symbols: map[string]bool{}}
	r, err := ask(l, api.Init)
	if err != nil {
		return nil, fmt.Errorf("nvml: %w", err)
	}
	if r != nvml.SUCCESS {
		return nil, fmt.Errorf("nvml: %s", status(r))
	}
	return &Driver{l, pid}, nil
}

// Close lets go of the driver, unless it hangs.
func (d *Driver) Close() error {
	r, err := ask(d.line, d.line.api.Shutdown)
	if err == nil && r != nvml.SUCCESS {
		err = fmt.Errorf("nvml: %s", status(r))
	}
	return err
}

// Cards reads every card. The error says that there are none or that the driver as a whole
// does not answer; what is wrong with one reading stands in that reading.
func (d *Driver) Cards() ([]sensor.Card, error) {
	type counted struct {
		n      int
		status nvml.Return
	}
	c, err := ask(d.line, func() (c counted) { c.n, c.status = d.line.api.DeviceGetCount(); return c })
	switch {
	case err != nil:
		return nil, fmt.Errorf("nvml: %w", err)
	case c.status != nvml.SUCCESS:
		return nil, fmt.Errorf("nvml: %s", status(c.status))
	case c.n < 1:
		return nil, fmt.Errorf("nvml: the driver has no card")
	case c.n > mostCards:
		return nil, fmt.Errorf("nvml: the driver speaks of %d cards", c.n)
	}
	var cards []sensor.Card
	for i := range c.n {
		card, err := d.card(i)
		if err != nil {
			return cards, fmt.Errorf("nvml: card %d: %w", i, err)
		}
		cards = append(cards, card)
	}
	return cards, nil
}

// card reads one card; the error says that it can't be reached at all.
func (d *Driver) card(index int) (sensor.Card, error) {
	type handle struct {
		device nvml.Device
		status nvml.Return
	}
	h, err := ask(d.line, func() (h handle) { h.device, h.status = d.line.api.DeviceGetHandleByIndex(index); return h })
	if err != nil {
		return sensor.Card{}, err
	}
	if h.status != nvml.SUCCESS || h.device == nil {
		return sensor.Card{}, fmt.Errorf("%s", status(h.status))
	}
	l, dev := d.line, h.device
	card := sensor.Card{Index: index, Name: d.text("nvmlDeviceGetName", dev.GetName), ID: d.text("nvmlDeviceGetUUID", dev.GetUUID)}
	card.Utilization = l.read("nvmlDeviceGetUtilizationRates", .01, 0, 1, func() said {
		u, r := dev.GetUtilizationRates()
		return said{float64(u.Gpu), r}
	})
	card.Power = l.read("nvmlDeviceGetPowerUsage", 1e-3, 0, mostWatts, whole(dev.GetPowerUsage))
	card.PowerLimit = l.read("nvmlDeviceGetEnforcedPowerLimit", 1e-3, 1, mostWatts, whole(dev.GetEnforcedPowerLimit))
	card.Temperature = l.read("nvmlDeviceGetTemperature", 1, leastDegree, mostDegrees, func() said {
		t, r := dev.GetTemperature(nvml.TEMPERATURE_GPU)
		return said{float64(int32(t)), r}
	})
	card.Clock = d.clock(dev, nvml.CLOCK_SM)
	card.MemoryClock = d.clock(dev, nvml.CLOCK_MEM)
	card.Partitioned = l.read("nvmlDeviceGetMigMode", 1, 0, 1, func() said {
		now, _, r := dev.GetMigMode()
		return said{float64(now), r}
	})
	card.Throttle = d.throttle(dev)
	d.memory(dev, &card)
	return card, nil
}

func whole(call func() (uint32, nvml.Return)) func() said {
	return func() said {
		v, r := call()
		return said{float64(v), r}
	}
}

func (d *Driver) clock(dev nvml.Device, kind nvml.ClockType) sensor.Reading {
	return d.line.read("nvmlDeviceGetClockInfo", 1, 0, mostMHz, func() said {
		v, r := dev.GetClockInfo(kind)
		return said{float64(v), r}
	})
}

// text asks for a name; nonsense and silence are empty.
func (d *Driver) text(symbol string, call func() (string, nvml.Return)) string {
	type named struct {
		text   string
		status nvml.Return
	}
	if !d.line.has(symbol) {
		return ""
	}
	n, err := ask(d.line, func() (n named) { n.text, n.status = call(); return n })
	if err != nil || n.status != nvml.SUCCESS || len(n.text) > 96 || !printable(n.text) {
		return ""
	}
	return n.text
}

func printable(s string) bool {
	for _, r := range s {
		if r < ' ' || r > '~' {
			return false
		}
	}
	return true
}

// throttle reads the reasons under their new name or, on older drivers, their old one.
func (d *Driver) throttle(dev nvml.Device) sensor.Reading {
	symbol, call := "nvmlDeviceGetCurrentClocksEventReasons", dev.GetCurrentClocksEventReasons
	if !d.line.has(symbol) {
		symbol, call = "nvmlDeviceGetCurrentClocksThrottleReasons", dev.GetCurrentClocksThrottleReasons
	}
	return d.line.read(symbol, 1, 0, 7, func() said {
		bits, r := call()
		return said{float64(reasons(bits)), r}
	})
}

// reasons sorts NVML's bits by what can be done about them.
func reasons(bits uint64) int {
	out := 0
	for _, m := range []struct{ theirs, ours uint64 }{
		{nvml.ClocksEventReasonSwThermalSlowdown, sensor.ThrottleHeat},
		{nvml.ClocksThrottleReasonHwThermalSlowdown, sensor.ThrottleHeat},
		{nvml.ClocksThrottleReasonHwSlowdown, sensor.ThrottleBrake},
		{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, sensor.ThrottleBrake},
		{nvml.ClocksEventReasonSwPowerCap, sensor.ThrottleCap},
	} {
		if bits&m.theirs != 0 {
			out |= int(m.ours)
		}
	}
	return out
}

// unknown is what NVML writes for the memory of a process that it can't see.
const unknown = ^uint64(0)

// memory reads what is held and by whom.
func (d *Driver) memory(dev nvml.Device, card *sensor.Card) {
	var m nvml.Memory
	card.MemoryTotal = d.line.read("nvmlDeviceGetMemoryInfo", 1, 1, mostBytes, func() said {
		var r nvml.Return
		m, r = dev.GetMemoryInfo()
		return said{float64(m.Total), r}
	})
	card.MemoryUsed = card.MemoryTotal // as missing or as broken
	if total, ok := card.MemoryTotal.Get(); ok {
		card.MemoryUsed = sensor.Value(float64(m.Used), 0, total)
	}
	var list []nvml.ProcessInfo
	card.Processes = d.line.read("nvmlDeviceGetComputeRunningProcesses", 1, 0, 1<<20, func() said {
		var r nvml.Return
		list, r = dev.GetComputeRunningProcesses()
		return said{float64(len(list)), r}
	})
	if _, ok := card.Processes.Get(); !ok {
		card.Others = card.Processes
		return
	}
	others, own := 0.0, false
	for _, p := range list {
		if int(p.Pid) == d.pid {
			own = true
			continue
		}
		if p.UsedGpuMemory == unknown {
			card.Others = sensor.Missing("the driver does not say what a process holds")
			return
		}
		others += float64(p.UsedGpuMemory)
	}
	if len(list) > 0 && !own {
		// In a container the driver lists the host's ids: it can't be told who is who.
		card.Others = sensor.Missing("this process is not in the driver's list")
		return
	}
	card.Others = sensor.Value(others, 0, card.MemoryTotal.Or(mostBytes))
}
