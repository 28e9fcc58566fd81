package fork

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// Config says how a machine works.
type Config struct {
	// CacheDir keeps compiled code between processes; empty = compile every time.
	CacheDir string
	// MaxMemory is the most linear memory of an instance, in bytes, a multiple of 64 KiB.
	MaxMemory int
	// Copying makes instances by copying whole memories, as if the kernel had neither
	// memfd nor pagemap.
	Copying bool
	// NoMemfd, NoPagemap and NoPagemapScan take the kernel to lack these, for tests.
	NoMemfd, NoPagemap, NoPagemapScan bool
	// OneThread promises that instances run, and are reset, on one thread of the system: its
	// page faults then tell whether a run wrote to new pages.
	OneThread bool
	// Starting, if set, calls start, which runs the guest's own initialisation.
	Starting func(start func() error) error
}

// Machine holds the compiled guest and the image of its start. It and its instances
// belong to one goroutine at a time; only a guest that waits for its Host may be left
// waiting while others run.
type Machine struct {
	runtime   wazero.Runtime
	cache     wazero.CompilationCache
	compiled  wazero.CompiledModule
	data      []Segment
	globals   int
	config    Config
	dirty     *dirtyPages // nil: a reset copies everything
	base      *Image
	spare     []*Instance // at the base image, ended by their users
	fallbacks []string
}

// maxSpare is how many instances a machine keeps for the next forks: giving one another
// memory takes less than making one.
const maxSpare = 16

// Open compiles a guest, or finds it in the cache, and starts it once.
func Open(ctx context.Context, guest []byte, config Config) (*Machine, error) {
	rewritten, err := Rewrite(guest)
	if err != nil {
		return nil, err
	}
	m := &Machine{data: rewritten.Data, globals: rewritten.Globals, config: config}
	m.openKernel()
	if err := m.compile(ctx, rewritten.Wasm); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	if err := bind(ctx, m.runtime, m.compiled); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	if err := m.start(ctx); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
}

// openKernel finds out what the kernel offers; what is missing becomes a fallback.
func (m *Machine) openKernel() {
	if os.Getpagesize() != pageSize {
		m.config.Copying = true
		m.fallbacks = append(m.fallbacks, fmt.Sprintf("pages of %d bytes: memories are copied", os.Getpagesize()))
		return
	}
	if fd, err := m.probeMemfd(); err != nil {
		m.config.Copying = true
		m.fallbacks = append(m.fallbacks, "no memfd: memories are copied")
		return
	} else if err := unix.Close(fd); err != nil {
		m.fallbacks = append(m.fallbacks, "close: "+err.Error())
	}
	if m.config.NoPagemap {
		m.fallbacks = append(m.fallbacks, noPagemap)
		return
	}
	var err error
	if m.dirty, err = openDirtyPages(); err != nil {
		m.fallbacks = append(m.fallbacks, noPagemap)
		return
	}
	m.dirty.scans = m.dirty.scans && !m.config.NoPagemapScan
	m.dirty.counts = m.config.OneThread
	if !m.dirty.scans {
		m.fallbacks = append(m.fallbacks, "no PAGEMAP_SCAN: a reset reads the whole page table")
	}
}

const noPagemap = "no pagemap: a reset copies the whole memory"

func (m *Machine) probeMemfd() (int, error) {
	if m.config.NoMemfd {
		return -1, unix.ENOSYS
	}
	return unix.MemfdCreate("whale-probe", unix.MFD_CLOEXEC)
}

// compile tries the cache, then a fresh cache, then no cache.
func (m *Machine) compile(ctx context.Context, wasm []byte) error {
	// The limit on memory is in type memory, which can say that it refused.
	settings := wazero.NewRuntimeConfig().WithDebugInfoEnabled(false)
	try := func(cache wazero.CompilationCache) (err error) {
		c := settings
		if cache != nil {
			c = c.WithCompilationCache(cache)
		}
		m.cache = cache
		m.runtime = wazero.NewRuntimeWithConfig(ctx, c)
		m.compiled, err = m.runtime.CompileModule(experimental.WithCompilationWorkers(ctx, 2), wasm)
		return err
	}
	if m.config.CacheDir == "" {
		m.fallbacks = append(m.fallbacks, "no compilation cache")
		return try(nil)
	}
	for range 2 {
		cache, err := wazero.NewCompilationCacheWithDir(m.config.CacheDir)
		if err != nil {
			m.fallbacks = append(m.fallbacks, "no compilation cache: "+err.Error())
			return try(nil)
		}
		if err = try(cache); err == nil {
			return nil
		}
		m.fallbacks = append(m.fallbacks, "compilation cache made again: "+err.Error())
		if err := errors.Join(m.runtime.Close(ctx), cache.Close(ctx), m.emptyCache()); err != nil {
			return err
		}
	}
	return try(nil)
}

// emptyCache removes what wazero keeps in the cache's folder, where others may keep things too.
func (m *Machine) emptyCache() error {
	own, err := filepath.Glob(filepath.Join(m.config.CacheDir, "wazero-*"))
	for _, folder := range own {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

// start makes the base image: the guest after its own initialisation.
func (m *Machine) start(ctx context.Context) error {
	i, err := m.instantiate(ctx, nil)
	if err != nil {
		return err
	}
	for _, s := range m.data {
		if !i.mod.Memory().Write(s.Offset, s.Data) {
			return fmt.Errorf("%w: data outside of the memory", ErrModule)
		}
	}
	m.data = nil
	initialize := func() error { _, err := i.Call("_initialize"); return err }
	if m.config.Starting != nil {
		err = m.config.Starting(initialize)
	} else {
		err = initialize()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start guest: %w", err), i.Close())
	}
	m.base, err = i.Snapshot()
	return errors.Join(err, i.Close())
}

// Base is the image of the guest as it starts.
func (m *Machine) Base() *Image { return m.base }

// Fallbacks says what this machine does without.
func (m *Machine) Fallbacks() []string { return m.fallbacks }

// Fork starts an instance of an image.
func (m *Machine) Fork(ctx context.Context, image *Image) (*Instance, error) {
	n := len(m.spare) - 1
	if n < 0 || image.Size() != m.base.Size() {
		return m.instantiate(ctx, image)
	}
	i := m.spare[n]
	m.spare = m.spare[:n]
	if err := i.become(image); err != nil {
		return nil, errors.Join(err, i.end())
	}
	return i, nil
}

func (m *Machine) instantiate(ctx context.Context, image *Image) (*Instance, error) {
	memory, err := reserve(m.config.MaxMemory, image)
	if err != nil {
		return nil, err
	}
	allocator := experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return memory })
	mod, err := m.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, allocator), m.compiled,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		memory.Free()
		return nil, fmt.Errorf("instantiate guest: %w", err)
	}
	i := &Instance{machine: m, mod: mod, memory: memory, image: image, functions: map[string]api.Function{}}
	i.ctx = &callContext{Context: context.WithoutCancel(ctx), instance: i}
	for n := range m.globals {
		global, ok := mod.ExportedGlobal(GlobalName(n)).(api.MutableGlobal)
		if !ok {
			return nil, errors.Join(fmt.Errorf("%w: global %d can't be set", ErrModule, n), i.Close())
		}
		i.globals = append(i.globals, global)
	}
	if image != nil {
		i.putGlobals()
	}
	return i, nil
}

// Close frees the compiled code and the base image. All instances must be closed before.
func (m *Machine) Close(ctx context.Context) error {
	var errs []error
	for _, i := range m.spare {
		errs = append(errs, i.end())
	}
	m.spare = nil
	if m.base != nil {
		errs = append(errs, m.base.Close())
	}
	if m.runtime != nil {
		errs = append(errs, m.runtime.Close(ctx))
	}
	if m.cache != nil {
		errs = append(errs, m.cache.Close(ctx))
	}
	if m.dirty != nil {
		errs = append(errs, m.dirty.close())
	}
	return errors.Join(errs...)
}
