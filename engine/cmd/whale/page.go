package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/report/live"
	"github.com/seed-7c27e6b8/whale/trainer"
)

type pageFlags struct {
	UI string `name:"ui" placeholder:"ADDR" help:"Serve the live page there while it runs, with /metrics for Prometheus; 127.0.0.1:8080, :0 = any free port. Who reaches it can read everything."`
}

// free says whether the address can be had, before anything else begins.
func (f pageFlags) free() error {
	if f.UI == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(f.UI); err != nil {
		return usageError{fmt.Errorf("page: --ui %s: wants HOST:PORT, such as 127.0.0.1:8080", f.UI)}
	}
	listener, err := net.Listen("tcp", f.UI)
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return listener.Close()
}

// open serves a run folder's page until the context ends; without an address nothing
// happens and the server is nil.
func (f pageFlags) open(ctx context.Context, folder string, d *engine.Domain, t *trainer.Trainer) (*live.Server, error) {
	if f.UI == "" {
		return nil, nil
	}
	server := live.New(folder, d, t.Tokenizer().Decode)
	address, err := server.Listen(ctx, f.UI)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "page: http://%s\n", address)
	return server, nil
}

// watchers are told the progress one after the other.
type watchers []engine.Observer

// Observe is called one at a time.
func (w watchers) Observe(p engine.Progress) {
	for _, o := range w {
		o.Observe(p)
	}
}

// show serves the page of a run folder as it stands, until it is interrupted.
func (f pageFlags) show(ctx context.Context, folder string) (err error) {
	if err := f.free(); err != nil {
		return err
	}
	r, err := archive.Read(folder)
	if err != nil {
		return err
	}
	config := r.Manifest().Config
	s := &site{}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.openWords(config); err != nil {
		return err
	}
	if _, err := f.open(ctx, folder, s.domain, s.trainer); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
