package main

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine/schedule"
	"github.com/seed-7c27e6b8/whale/engine/schedule/nvml"
	"github.com/seed-7c27e6b8/whale/engine/schedule/sensor"
	"github.com/seed-7c27e6b8/whale/trainer"
)

// machine watches the machine while it works: for admission and for the ledger's joules.
type machine struct {
	sampler *sensor.Sampler
	advised atomic.Pointer[schedule.Admission]
	own     atomic.Int64 // bytes that this process holds on its card; 0 = none, or not known yet
}

// How often the machine is read: a card's power changes within a tenth of a second, the
// memory of a host not so fast.
const (
	cardInterval = 100 * time.Millisecond
	hostInterval = time.Second
)

// openMachine starts to watch. Cards are read only if the device is one: what other cards
// take is nothing to this run.
func openMachine(device string) *machine {
	m := &machine{}
	s := sensor.Setup{Every: hostInterval, Told: m.told}
	if device != "cpu" {
		s.Every, s.Cards = cardInterval, &cards{}
	}
	m.sampler = sensor.NewSampler(s)
	return m
}

func (m *machine) told(s sensor.Sample) {
	if a := m.advised.Load(); a != nil {
		a.Advise(schedule.Judge(s, float64(m.own.Load())))
	}
}

// holds notes what the arena of a card has got for the model: it stays so but for rare pieces
// beyond the plan.
func (m *machine) holds(dev *cuda.Device) error {
	room, err := dev.Room()
	m.own.Store(room.Held)
	return err
}

// cards opens the driver when it is asked first, on the sampler's goroutine, so that a
// driver that hangs does not hold up the start.
type cards struct{ driver *nvml.Driver }

// Cards reads the card that this process works on.
func (c *cards) Cards() ([]sensor.Card, error) {
	if c.driver == nil {
		var err error
		if c.driver, err = nvml.Open(); err != nil {
			return nil, err
		}
	}
	all, err := c.driver.Cards()
	if err != nil {
		return nil, err
	}
	return visible(all, os.Getenv("CUDA_VISIBLE_DEVICES")), nil
}

// visible picks the card that CUDA calls its first; the two count alike when
// CUDA_DEVICE_ORDER is PCI_BUS_ID, or all cards are the same.
func visible(all []sensor.Card, variable string) []sensor.Card {
	first, _, _ := strings.Cut(variable, ",")
	for i, card := range all {
		if first == "" || first == strconv.Itoa(card.Index) || strings.HasPrefix(first, "GPU-") && strings.HasPrefix(card.ID, first) {
			return all[i : i+1]
		}
	}
	return nil
}

// queue lets admission look at the policy.
type queue struct{ policy *trainer.Policy }

// Load implements schedule.Queue.
func (q queue) Load() schedule.Load { return schedule.Load(q.policy.Load()) }
