//go:build cgo

package nvml

import (
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"github.com/seed-7c27e6b8/whale/engine/schedule/sensor"
)

const ownPid = 4242

// busy gives a mock's cards the readings of a card at work.
func busy(s *server.Server) *server.Server {
	for _, d := range s.Devices {
		d := d.(*server.Device)
		d.MemoryInfo.Used = d.MemoryInfo.Total / 2
		d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 93, Memory: 40}, nvml.SUCCESS }
		d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 412_500, nvml.SUCCESS }
		d.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 700_000, nvml.SUCCESS }
		d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, nvml.SUCCESS }
		d.GetClockInfoFunc = func(c nvml.ClockType) (uint32, nvml.Return) {
			return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1755, nvml.CLOCK_MEM: 2619}[c], nvml.SUCCESS
		}
		d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) {
			return nvml.ClocksEventReasonSwPowerCap | nvml.ClocksEventReasonGpuIdle, nvml.SUCCESS
		}
		d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			return []nvml.ProcessInfo{{Pid: ownPid, UsedGpuMemory: 8e9}, {Pid: 7, UsedGpuMemory: 3e9}}, nvml.SUCCESS
		}
	}
	return s
}

func TestCards_ofEachKind(t *testing.T) {
	for name, c := range map[string]struct {
		api   *server.Server
		bytes float64
	}{
		"A100": {dgxa100.New(), 40 << 30}, "H100": {dgxh100.New(), 80 << 30}, "H200": {dgxh200.New(), 141 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := open(busy(c.api), time.Second, ownPid)
			if err != nil {
				t.Fatal(err)
			}
			cards, err := d.Cards()
			if err != nil || len(cards) != 8 {
				t.Fatalf("%d cards, %v", len(cards), err)
			}
			for i, card := range cards {
				if card.Index != i || !strings.Contains(card.Name, name) || card.ID == "" {
					t.Errorf("card %d is %d %q %q", i, card.Index, card.Name, card.ID)
				}
				for what, r := range map[string]struct {
					reading sensor.Reading
					want    float64
				}{
					"utilization": {card.Utilization, .93}, "total": {card.MemoryTotal, c.bytes}, "used": {card.MemoryUsed, c.bytes / 2},
					"others": {card.Others, 3e9}, "processes": {card.Processes, 2}, "power": {card.Power, 412.5}, "limit": {card.PowerLimit, 700},
					"temperature": {card.Temperature, 61}, "clock": {card.Clock, 1755}, "memory clock": {card.MemoryClock, 2619},
					"throttle": {card.Throttle, sensor.ThrottleCap}, "MIG": {card.Partitioned, 0},
				} {
					if v, ok := r.reading.Get(); !ok || math.Abs(v-r.want) > 1e-9 {
						t.Errorf("%s is %s, want %v", what, r.reading.Text("%v"), r.want)
					}
				}
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Every reading on its own: a driver that lacks it, refuses it, or talks nonsense costs
// that reading and no other.
func TestCards_hostile(t *testing.T) {
	type is = sensor.State
	for name, c := range map[string]struct {
		spoil func(*server.Server, *mock.Device)
		of    func(sensor.Card) sensor.Reading
		want  is
	}{
		"no symbol": {func(s *server.Server, _ *mock.Device) {
			s.LookupSymbolFunc = func(name string) error {
				if name == "nvmlDeviceGetUtilizationRates" {
					return errors.New("undefined symbol")
				}
				return nil
			}
		}, func(c sensor.Card) sensor.Reading { return c.Utilization }, sensor.Unsupported},
		"N/A": {func(_ *server.Server, d *mock.Device) {
			d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		}, func(c sensor.Card) sensor.Reading { return c.Power }, sensor.Unsupported},
		"no permission": {func(_ *server.Server, d *mock.Device) {
			d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NO_PERMISSION }
		}, func(c sensor.Card) sensor.Reading { return c.Others }, sensor.Unsupported},
		"unknown status": {func(_ *server.Server, d *mock.Device) {
			d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.Return(9999) }
		}, func(c sensor.Card) sensor.Reading { return c.Power }, sensor.Invalid},
		"power of a city": {func(_ *server.Server, d *mock.Device) {
			d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return math.MaxUint32, nvml.SUCCESS }
		}, func(c sensor.Card) sensor.Reading { return c.Power }, sensor.Invalid},
		"more than all used": {func(_ *server.Server, d *mock.Device) {
			d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 140}, nvml.SUCCESS }
		}, func(c sensor.Card) sensor.Reading { return c.Utilization }, sensor.Invalid},
		"temperature below absolute zero": {func(_ *server.Server, d *mock.Device) {
			d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return uint32(0xFFFFFE00), nvml.SUCCESS }
		}, func(c sensor.Card) sensor.Reading { return c.Temperature }, sensor.Invalid},
		"more memory used than there is": {func(_ *server.Server, d *mock.Device) {
			d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 10, Used: 20}, nvml.SUCCESS }
		}, func(c sensor.Card) sensor.Reading { return c.MemoryUsed }, sensor.Invalid},
		"no memory": {func(_ *server.Server, d *mock.Device) {
			d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.SUCCESS }
		}, func(c sensor.Card) sensor.Reading { return c.MemoryTotal }, sensor.Invalid},
		"memory of a process not known": {func(_ *server.Server, d *mock.Device) {
			d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
				return []nvml.ProcessInfo{{Pid: ownPid}, {Pid: 7, UsedGpuMemory: math.MaxUint64}}, nvml.SUCCESS
			}
		}, func(c sensor.Card) sensor.Reading { return c.Others }, sensor.Unsupported},
		"ids of another namespace": {func(_ *server.Server, d *mock.Device) {
			d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
				return []nvml.ProcessInfo{{Pid: 1, UsedGpuMemory: 5e9}}, nvml.SUCCESS
			}
		}, func(c sensor.Card) sensor.Reading { return c.Others }, sensor.Unsupported},
		"a call that panics": {func(_ *server.Server, d *mock.Device) { d.GetClockInfoFunc = nil },
			func(c sensor.Card) sensor.Reading { return c.Clock }, sensor.Invalid},
		"lost card": {func(_ *server.Server, d *mock.Device) {
			d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
		}, func(c sensor.Card) sensor.Reading { return c.Temperature }, sensor.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := busy(dgxh200.New())
			first := s.Devices[0].(*server.Device)
			c.spoil(s, &first.Device)
			d, err := open(s, time.Second, ownPid)
			if err != nil {
				t.Fatal(err)
			}
			cards, err := d.Cards()
			if err != nil || len(cards) != 8 {
				t.Fatalf("%d cards, %v", len(cards), err)
			}
			if r := c.of(cards[0]); r.State() != c.want || r.Why() == "" {
				t.Errorf("the reading is %s", r.Text("%v"))
			}
			if r := cards[0].PowerLimit; r.State() != sensor.Valid {
				t.Errorf("the power limit went too: %s", r.Text("%v"))
			}
			if line := cards[0].Line(); !strings.Contains(line, "H200") {
				t.Errorf("line %q", line)
			}
		})
	}
}

func TestCards_partitioned(t *testing.T) {
	s := busy(dgxa100.New())
	d := s.Devices[0].(*server.Device)
	d.MigMode = 1
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED }
	driver, err := open(s, time.Second, ownPid)
	if err != nil {
		t.Fatal(err)
	}
	cards, err := driver.Cards()
	if err != nil || cards[0].Partitioned.Or(0) != 1 || cards[0].Utilization.State() != sensor.Unsupported {
		t.Errorf("%v, %s", err, cards[0].Line())
	}
}

// An older driver has the reasons under their old name; one without both has none.
func TestCards_oldNames(t *testing.T) {
	for _, missing := range []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocks"} {
		s := busy(dgxh100.New())
		d := s.Devices[0].(*server.Device)
		d.GetCurrentClocksEventReasonsFunc = nil
		d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
			return nvml.ClocksThrottleReasonHwThermalSlowdown | nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, nvml.SUCCESS
		}
		s.LookupSymbolFunc = func(name string) error {
			if strings.HasPrefix(name, missing) {
				return errors.New("undefined symbol")
			}
			return nil
		}
		driver, err := open(s, time.Second, ownPid)
		if err != nil {
			t.Fatal(err)
		}
		cards, err := driver.Cards()
		if err != nil {
			t.Fatal(err)
		}
		v, ok := cards[0].Throttle.Get()
		if old := missing == "nvmlDeviceGetCurrentClocksEventReasons"; ok != old || old && v != sensor.ThrottleHeat|sensor.ThrottleBrake {
			t.Errorf("without %s: %s", missing, cards[0].Throttle.Text("%v"))
		}
	}
}

// A driver that hangs costs the deadline once. Until the call comes back nothing is asked,
// afterwards all is well again.
func TestCards_hangingDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := busy(dgxh200.New())
		first := s.Devices[0].(*server.Device)
		hang, asked := make(chan struct{}), atomic.Int32{}
		first.GetPowerUsageFunc = func() (uint32, nvml.Return) { asked.Add(1); <-hang; return 300_000, nvml.SUCCESS }
		d, err := open(s, 3*time.Second, ownPid)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if cards, err := d.Cards(); !errors.Is(err, errStuck) || len(cards) != 1 || cards[0].Power.State() != sensor.Invalid || cards[0].Utilization.State() != sensor.Valid {
			t.Errorf("%d cards, %v", len(cards), err)
		}
		for range 5 {
			if _, err := d.Cards(); !errors.Is(err, errStuck) {
				t.Errorf("got %v", err)
			}
		}
		if waited := time.Since(began); waited != 3*time.Second || asked.Load() != 1 {
			t.Errorf("waited %v, asked %d times", waited, asked.Load())
		}
		close(hang)
		synctest.Wait()
		if cards, err := d.Cards(); err != nil || len(cards) != 8 || cards[0].Power.Or(0) != 300 {
			t.Errorf("afterwards %d cards, %v", len(cards), err)
		}
	})
}

func TestOpen_andCards_errors(t *testing.T) {
	count := func(n int, r nvml.Return) func(*server.Server) {
		return func(s *server.Server) { s.DeviceGetCountFunc = func() (int, nvml.Return) { return n, r } }
	}
	for name, c := range map[string]struct {
		spoil func(*server.Server)
		want  string
	}{
		"no library": {func(s *server.Server) {
			s.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
		}, "nvml: no driver library"},
		"no driver": {func(s *server.Server) {
			s.InitFunc = func() nvml.Return { return nvml.ERROR_DRIVER_NOT_LOADED }
		}, "nvml: the driver is not loaded"},
		"panic":       {func(s *server.Server) { s.InitFunc = nil }, "nvml: the call panicked"},
		"no card":     {count(0, nvml.SUCCESS), "nvml: the driver has no card"},
		"minus one":   {count(-1, nvml.SUCCESS), "nvml: the driver has no card"},
		"a million":   {count(1e6, nvml.SUCCESS), "nvml: the driver speaks of 1000000 cards"},
		"not counted": {count(0, nvml.ERROR_UNKNOWN), "nvml: NVML status 999"},
		"no handle": {func(s *server.Server) {
			s.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_GPU_IS_LOST }
		}, "nvml: card 0: the card is lost"},
	} {
		s := busy(dgxa100.New())
		c.spoil(s)
		d, err := open(s, time.Second, ownPid)
		if err == nil {
			_, err = d.Cards()
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// The real library of this machine, whatever it is: an answer or a reason, no crash.
func TestOpen_here(t *testing.T) {
	d, err := Open()
	if err != nil {
		if !strings.HasPrefix(err.Error(), "nvml: ") {
			t.Errorf("the reason is %q", err)
		}
		return
	}
	cards, err := d.Cards()
	t.Log(cards, err)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
