package micropython

import (
	"context"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/emscripten"
)

// session is what the imports of one instance share.
type session struct {
	out    *printer
	random uint64
}

type sessionKey struct{}

// errNoEntry is what a system call without a system answers: there is no such file.
const errNoEntry = -44

// instantiateEnv builds the module `env`: the trampolines of setjmp come from wazero, the
// heap may grow, and everything else is absent in a way that the interpreter understands.
func instantiateEnv(ctx context.Context, r wazero.Runtime, guest wazero.CompiledModule) error {
	builder := r.NewHostModuleBuilder("env")
	trampolines, err := emscripten.NewFunctionExporterForModule(guest)
	if err != nil {
		return err
	}
	trampolines.ExportFunctions(builder)
	for _, f := range guest.ImportedFunctions() {
		module, name, _ := f.Import()
		if module != "env" || strings.HasPrefix(name, "invoke_") || name == "_emscripten_throw_longjmp" {
			continue
		}
		builder.NewFunctionBuilder().WithGoModuleFunction(imported(name), f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	_, err = builder.Instantiate(ctx)
	return err
}

// imported is the host's side of an import of env.
func imported(name string) api.GoModuleFunc {
	switch {
	case name == "emscripten_resize_heap":
		return resizeHeap
	case name == "mp_js_random_u32":
		return random
	case name == "mp_js_ticks_ms" || name == "mp_js_time_ms":
		return func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = 0 }
	case name == "js_check_existing":
		return func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = api.EncodeI32(-1) }
	case name == "proxy_js_free_obj":
		return func(context.Context, api.Module, []uint64) {}
	case strings.HasPrefix(name, "__syscall_"):
		return func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = api.EncodeI32(errNoEntry) }
	}
	return func(context.Context, api.Module, []uint64) {
		panic("no " + name + " outside of a browser") // wazero turns it into a trap
	}
}

// resizeHeap grows the memory to a size in bytes; 1 = done, 0 = there is no more.
func resizeHeap(_ context.Context, m api.Module, stack []uint64) {
	want, have := uint64(uint32(stack[0])), uint64(m.Memory().Size())
	stack[0] = 1
	if want <= have {
		return
	}
	const page = 64 << 10
	if _, ok := m.Memory().Grow(uint32((want - have + page - 1) / page)); !ok {
		stack[0] = 0
	}
}

// random is the same sequence for every program (splitmix64).
func random(ctx context.Context, _ api.Module, stack []uint64) {
	s := ctx.Value(sessionKey{}).(*session)
	s.random += 0x9e3779b97f4a7c15
	z := s.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	stack[0] = (z ^ z>>31) & 0xffffffff
}
