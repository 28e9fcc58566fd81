package fork

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// world is all that a guest can learn from outside its memory: a clock that moves by a
// microsecond whenever it is read, and numbers from a fixed seed. It belongs to the
// instance, starts as the image's and is restored with it.
type world struct {
	readings uint64
	random   uint64
}

// next is splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, 2014).
func (w *world) next() uint64 {
	w.random += 0x9e3779b97f4a7c15
	z := w.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// epoch is when every guest believes to live: 2020-01-01, in nanoseconds.
const epoch = 1577836800e9

// Errors of WASI preview 1.
const (
	errnoOK    = 0
	errnoBadFD = 8
	errnoFault = 21
	errnoNoSys = 52
)

// maxWords is how many bytes of the Go runtime's last words are kept.
const maxWords = 2 << 10

// exit is how proc_exit leaves the guest.
type exit struct{ code uint32 }

func (exit) Error() string { return "guest exited" }

// instanceOf finds the instance that a host function was called from: every call into a
// guest is made with a callContext.
func instanceOf(ctx context.Context) *Instance { return ctx.(*callContext).instance }

type callContext struct {
	context.Context
	instance *Instance
}

// Value is nil: what wazero would look for in a call's context is not used here, and looking
// for it in the one beneath would allocate.
func (*callContext) Value(any) any { return nil }

// wasi is the world of a Go guest: the functions of WASI preview 1 that do anything.
// All others that a guest imports give ENOSYS.
var wasi = map[string]func(i *Instance, stack []uint64){
	"args_sizes_get":      nothing,
	"args_get":            succeed,
	"environ_sizes_get":   nothing,
	"environ_get":         succeed,
	"sched_yield":         succeed,
	"clock_time_get":      readClock,
	"random_get":          drawRandom,
	"poll_oneoff":         sleep,
	"fd_write":            write,
	"fd_fdstat_get":       noFile,
	"fd_fdstat_set_flags": noFile,
	"fd_prestat_get":      noFile,
	"fd_read":             noFile,
	"fd_close":            noFile,
	"proc_exit":           func(_ *Instance, stack []uint64) { panic(exit{uint32(stack[0])}) },
}

// bind makes a host module of the functions that the guest imports under a name.
func bind(ctx context.Context, r wazero.Runtime, guest wazero.CompiledModule) error {
	builders := map[string]wazero.HostModuleBuilder{}
	for _, name := range []string{"wasi_snapshot_preview1", "whale"} {
		builders[name] = r.NewHostModuleBuilder(name)
	}
	calls := map[string]func(i *Instance, stack []uint64){"call": hostCall, "take": hostTake}
	for _, f := range guest.ImportedFunctions() {
		module, name, _ := f.Import()
		builder, ok := builders[module]
		do := wasi[name]
		if module == "whale" {
			do, ok = calls[name]
		}
		if !ok {
			return fmt.Errorf("%w: imports %s.%s", ErrModule, module, name)
		}
		if do == nil {
			do = func(_ *Instance, stack []uint64) { stack[0] = errnoNoSys }
		}
		builder.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
			do(instanceOf(ctx), stack)
		}), f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for _, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

func succeed(_ *Instance, stack []uint64) { stack[0] = errnoOK }

func noFile(_ *Instance, stack []uint64) { stack[0] = errnoBadFD }

// nothing answers how many arguments or variables there are, and in how many bytes.
func nothing(i *Instance, stack []uint64) {
	ok := i.mod.Memory().WriteUint32Le(uint32(stack[0]), 0) && i.mod.Memory().WriteUint32Le(uint32(stack[1]), 0)
	stack[0] = errno(ok)
}

func readClock(i *Instance, stack []uint64) {
	i.world.readings++
	stack[0] = errno(i.mod.Memory().WriteUint64Le(uint32(stack[2]), epoch+1000*i.world.readings))
}

// sleep moves the clock on and says that everything waited for has happened: the Go
// runtime sleeps for microseconds while it collects garbage. Layouts are WASI's
// subscription (48 bytes) and event (32 bytes).
func sleep(i *Instance, stack []uint64) {
	memory := i.mod.Memory()
	in, out, n := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
	for k := range n {
		subscription, ok1 := memory.Read(in+48*k, 48)
		event, ok2 := memory.Read(out+32*k, 32)
		if !ok1 || !ok2 {
			stack[0] = errnoFault
			return
		}
		i.world.readings += binary.LittleEndian.Uint64(subscription[24:]) % 1e12 / 1000
		clear(event)
		copy(event, subscription[:8]) // the caller's mark
		event[10] = subscription[8]   // what it waited for
	}
	stack[0] = errno(memory.WriteUint32Le(uint32(stack[3]), n))
}

func drawRandom(i *Instance, stack []uint64) {
	b, ok := i.mod.Memory().Read(uint32(stack[0]), uint32(stack[1]))
	for len(b) > 0 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], i.world.next())
		b = b[copy(b, word[:]):]
	}
	stack[0] = errno(ok)
}

// write swallows everything; the first bytes are kept as the last words of a dying guest.
func write(i *Instance, stack []uint64) {
	memory := i.mod.Memory()
	list, n, total := uint32(stack[1]), uint32(stack[2]), uint32(0)
	for ; n > 0; n-- {
		at, ok1 := memory.ReadUint32Le(list)
		size, ok2 := memory.ReadUint32Le(list + 4)
		text, ok3 := memory.Read(at, size)
		if !ok1 || !ok2 || !ok3 {
			stack[0] = errnoFault
			return
		}
		if room := maxWords - len(i.words); room > 0 {
			i.words = append(i.words, text[:min(room, len(text))]...)
		}
		total += size
		list += 8
	}
	stack[0] = errno(memory.WriteUint32Le(uint32(stack[3]), total))
}

func errno(ok bool) uint64 {
	if ok {
		return errnoOK
	}
	return errnoFault
}
