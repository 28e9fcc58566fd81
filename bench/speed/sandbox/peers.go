package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/traefik/yaegi/interp"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
	"github.com/seed-7c27e6b8/whale/sandbox/guest/symbols"
	"github.com/seed-7c27e6b8/whale/sandbox/image"
)

// near is the kit's host without a wall.
type near struct{ model }

// Generate implements kit.Host.
func (n *near) Generate(messages []kit.Message, _ kit.Options) ([]kit.Reply, error) {
	text := n.answer(messages[len(messages)-1].Content)
	return []kit.Reply{{Handle: n.turns, Text: text, Stop: kit.StopEnd, Tokens: 7}}, nil
}

// Tool implements kit.Host.
func (n *near) Tool(string, string) (string, error) { return "", kit.ErrTool }

// Note implements kit.Host.
func (n *near) Note(kit.Note) error { return nil }

// interpreter evaluates the source once, natively, and calls it for each rollout.
func interpreter() (func() error, error) {
	i := interp.New(interp.Options{})
	if err := i.Use(symbols.Symbols); err != nil {
		return nil, err
	}
	if _, err := i.Eval(source); err != nil {
		return nil, err
	}
	v, err := i.Eval("harness.Run")
	if err != nil {
		return nil, err
	}
	run, ok := v.Interface().(func(*kit.Session) error)
	if !ok {
		return nil, errors.New("no Run")
	}
	return func() error {
		return run(kit.NewSession(kit.Start{Task: kit.Task{Domain: "d", Input: "q"}}, &near{}))
	}, nil
}

// fromScratch makes an instance of the same guest for each rollout, with the wazero's own
// WASI: start of the interpreter, load, run. The module is compiled once.
func fromScratch() (func() error, error) {
	ctx := context.Background()
	module, err := image.Guest()
	if err != nil {
		return nil, err
	}
	r := wazero.NewRuntime(ctx)
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return nil, err
	}
	var m *model
	call := func(_ context.Context, mod api.Module, request, length, answer, room uint32) uint32 {
		b, _ := mod.Memory().Read(request, length)
		asked, err := abi.DecodeRequest(b)
		if err != nil || len(asked.Messages) == 0 {
			return 0
		}
		reply := abi.Reply{Text: m.answer(asked.Messages[len(asked.Messages)-1].Content), Stop: "end", Tokens: 7}
		reply.Handle = m.turns
		out := abi.AppendAnswer(nil, abi.Answer{Replies: []abi.Reply{reply}})
		mod.Memory().Write(answer, out)
		return uint32(len(out))
	}
	host := r.NewHostModuleBuilder("whale").NewFunctionBuilder().WithFunc(call).Export("call")
	host = host.NewFunctionBuilder().WithFunc(func(uint32, uint32) {}).Export("take")
	if _, err := host.Instantiate(ctx); err != nil {
		return nil, err
	}
	compiled, err := r.CompileModule(ctx, module)
	if err != nil {
		return nil, err
	}
	return func() error {
		m = &model{}
		mod, err := r.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
		if err != nil {
			return err
		}
		err = errors.Join(tell(ctx, mod, "whale_load", []byte(source)), tell(ctx, mod, "whale_run", abi.AppendStart(nil, abi.Start{Input: "q"})))
		if err == nil && m.turns != 4 {
			err = fmt.Errorf("%d turns", m.turns)
		}
		return errors.Join(err, mod.Close(ctx))
	}, nil
}

// tell puts bytes into a guest and calls a function on them.
func tell(ctx context.Context, mod api.Module, name string, input []byte) error {
	at, err := mod.ExportedFunction("whale_room").Call(ctx, uint64(len(input)))
	if err != nil {
		return err
	}
	mod.Memory().Write(uint32(at[0]), input)
	_, err = mod.ExportedFunction(name).Call(ctx, uint64(len(input)))
	return err
}
