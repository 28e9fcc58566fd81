package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/harnesses"
	"github.com/seed-7c27e6b8/whale/trainer/serve"
)

type serveCommand struct {
	computeFlags
	Model   string `default:"nano" placeholder:"nano|DIR" help:"Model to serve: nano or a model folder."`
	Domain  string `default:"lookup" placeholder:"NAME" help:"Domain that the embedded model was made for, with --model nano."`
	Folder  string `name:"run" type:"path" placeholder:"DIR" help:"Serve the latest weights of this run folder instead of its first ones."`
	Addr    string `default:"127.0.0.1:8000" help:"Address to listen at; :0 = any free port."`
	Name    string `placeholder:"NAME" help:"What clients call the model (default: what --model or the run says)."`
	KeyEnv  string `placeholder:"NAME" help:"Environment variable with the key that clients must send; without it everybody is served."`
	Device  string `default:"auto" help:"auto (a card if there is one), cpu or cuda."`
	Threads int    `default:"0" help:"Cores of the device; 0 = all."`
}

// Run serves until it is interrupted, which is its ordinary end.
func (c *serveCommand) Run(ctx context.Context) (err error) {
	key := ""
	if c.KeyEnv != "" {
		if key = os.Getenv(c.KeyEnv); key == "" {
			return usageError{fmt.Errorf("serve: the environment variable %s of --key-env is empty", c.KeyEnv)}
		}
	}
	if !slices.Contains(harnesses.Names(), c.Domain) {
		return usageError{unknownDomain(c.Domain)}
	}
	s := &site{}
	defer func() { err = errors.Join(err, s.close()) }()
	if s.device, err = openDevice(c.Device, c.Threads); err != nil {
		return err
	}
	if err := c.open(ctx, s); err != nil {
		return err
	}
	model := serve.Model{Name: c.Name, Policy: s.trainer.Policy(), Chat: s.trainer.Chat(), Tokens: s.trainer.Tokenizer(), Context: s.trainer.Context()}
	address, done, err := serve.New(model, key).Listen(ctx, c.Addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "model %s (weights %s) at http://%s/v1\n", c.Name, s.trainer.Policy().Weights(), address)
	<-done
	return nil
}

// open opens the model, and the weights of a run into it.
func (c *serveCommand) open(ctx context.Context, s *site) (err error) {
	name, domain := c.Model, c.Domain
	var weights string
	if c.Folder != "" {
		r, err := archive.Read(c.Folder)
		if err != nil {
			return err
		}
		config, state := r.Manifest().Config, engine.Fold(r.Records())
		name, domain, weights = config.Model, config.Domain, r.WeightsDir(state.Saved)
	}
	if c.Name == "" {
		c.Name = name
	}
	config := engine.Defaults()
	if err := c.computeFlags.apply(&config); err != nil {
		return err
	}
	o, err := trainerOptions(config)
	if err != nil {
		return err
	}
	if s.trainer, err = openModel(name, domain, s.device, o); err != nil {
		return err
	}
	if weights != "" {
		if err := s.trainer.Learner().Load(ctx, weights); err != nil {
			return engine.Fail(engine.AtArchive, weights, err)
		}
	}
	return nil
}
