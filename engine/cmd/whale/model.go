package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
	"github.com/seed-7c27e6b8/whale/trainer/nano"
)

// openDevice opens a device by name: cpu, cuda, simt, which runs the CUDA kernels on the CPU
// to check them, or auto, a card if there is one and else the CPU; threads 0 = all cores.
func openDevice(kind string, threads int) (*cuda.Device, error) {
	if kind == "auto" {
		kind = "cuda"
		if cpuMode() != "" {
			kind = "cpu"
		}
	}
	if kind != "cpu" && kind != "cuda" && kind != "simt" {
		return nil, usageError{engine.Fail(engine.AtDevice, kind, errors.New("there are the devices auto, cpu, cuda and simt"))}
	}
	if threads <= 0 {
		threads = runtime.NumCPU()
	}
	device, err := cuda.Open(kind, threads)
	if err != nil {
		return nil, engine.Fail(engine.AtDevice, kind, err)
	}
	return device, nil
}

// cpuMode says why a device that is left open will be the CPU; "" if there is a card.
func cpuMode() string {
	if err := cuda.CardMissing(); err != nil {
		return "CPU mode: " + err.Error()
	}
	return ""
}

// openModel opens the embedded model that knows a domain, or a folder.
func openModel(name, domain string, device *cuda.Device, o trainer.Options) (*trainer.Trainer, error) {
	if name == "nano" {
		files, err := nano.Open(nano.For(domain))
		if err != nil {
			return nil, err
		}
		return trainer.Open(files, device, o)
	}
	if _, err := os.Stat(filepath.Join(name, checkpoint.AdapterConfigFile)); err == nil {
		return openAdapter(name, domain, device, o)
	}
	return trainer.OpenDir(name, device, o)
}

// openAdapter opens an adapter folder, such as RUN/weights/ID of a run with LoRA, on the
// base model that it names.
func openAdapter(name, domain string, device *cuda.Device, o trainer.Options) (*trainer.Trainer, error) {
	adapter := os.DirFS(name)
	has, err := checkpoint.ReadAdapter(adapter)
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, name, err)
	}
	var base fs.FS
	if has.Base == "nano" {
		base, err = nano.Open(nano.For(domain))
	} else {
		base, err = checkpoint.Folder(has.Base)
	}
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, name+": base model "+has.Base, err)
	}
	if o.LoRA.Rank != 0 {
		return nil, usageError{engine.Fail(engine.AtPolicy, name, errors.New("is an adapter; its settings are its own, so no --lora-rank"))}
	}
	t, err := trainer.OpenAdapter(base, adapter, device, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}
