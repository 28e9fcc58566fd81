package main

import (
	"fmt"
	"runtime"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer"
	"github.com/seed-7c27e6b8/whale/trainer/nano"
)

// openDevice opens a device by name; threads 0 = all cores.
func openDevice(kind string, threads int) (*cuda.Device, error) {
	if kind == "auto" {
		kind = "cpu"
	}
	if kind != "cpu" {
		return nil, usageError{engine.Fail(engine.AtDevice, kind, fmt.Errorf("this build has the cpu device only"))}
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

// openModel opens the embedded model that knows a domain, or a folder.
func openModel(name, domain string, device *cuda.Device, o trainer.Options) (*trainer.Trainer, error) {
	if name != "nano" {
		return trainer.OpenDir(name, device, o)
	}
	files, err := nano.Open(nano.For(domain))
	if err != nil {
		return nil, err
	}
	return trainer.Open(files, device, o)
}
