package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/schedule"
	"github.com/seed-7c27e6b8/whale/sandbox"
	"github.com/seed-7c27e6b8/whale/trainer"
)

// site is what run and eval share: one model on one device beside one sandbox.
type site struct {
	domain  *engine.Domain
	notices []string // what the domain has to say about its files
	device  *cuda.Device
	trainer *trainer.Trainer
	sandbox *sandbox.Sandbox
	machine *machine

	policy  engine.Policy // the trainer's, or one elsewhere
	learner engine.Learner
}

// openSite opens the parts that a config names and resolves the device in it. Whoever needs
// a model otherwise than to train it changes the options.
func openSite(ctx context.Context, c *engine.Config, threads int, change ...func(*trainer.Options)) (_ *site, err error) {
	s := &site{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	c.Services = surrounded(c.Domain, c.Services)
	if s.domain, s.notices, err = openDomain(*c); err != nil {
		return nil, err
	}
	if s.device, err = openDevice(c.Device, threads); err != nil {
		return nil, err
	}
	if c.Device == "auto" && s.device.Kind() == "cpu" {
		s.notices = append(s.notices, cpuMode())
	}
	c.Device = s.device.Kind()
	c.Services = c.Services.Public() // what is recorded
	o, err := trainerOptions(*c)
	if err != nil {
		return nil, err
	}
	for _, f := range change {
		f(&o)
	}
	if s.trainer, err = openModel(c.Model, c.Domain, s.device, o); err != nil {
		return nil, err
	}
	s.policy, s.learner = s.trainer.Policy(), s.trainer.Learner()
	s.machine = openMachine(s.device.Kind())
	if err := s.machine.holds(s.device); err != nil {
		return nil, engine.Fail(engine.AtDevice, s.device.Kind(), err)
	}
	s.sandbox, err = sandbox.Open(ctx, sandbox.Config{})
	return s, err
}

// announce says what was read and left out; callers do it when nothing but the work itself
// can fail any more.
func (s *site) announce() {
	for _, line := range s.notices {
		fmt.Fprintln(os.Stderr, line)
	}
}

// parts are the engine's view of the site.
func (s *site) parts(c engine.Config, store engine.Store, proposer engine.Proposer, observer engine.Observer) engine.Parts {
	return engine.Parts{Domain: s.domain, Sandbox: s.sandbox, Policy: s.policy, Learner: s.learner,
		Proposer: proposer, Store: store, Observer: observer, Admission: s.admission(c), Energy: s.machine.sampler}
}

// admission follows the settings, the policy's queue and the machine.
func (s *site) admission(c engine.Config) *schedule.Admission {
	a := schedule.NewQueued(schedule.Limits{Rollouts: c.InFlight, Tokens: c.TokensInFlight}, queue{s.trainer.Policy()})
	s.machine.advised.Store(a)
	return a
}

func (s *site) close() error {
	var err error
	if s.machine != nil {
		s.machine.sampler.Close()
	}
	if s.sandbox != nil {
		err = s.sandbox.Close()
	}
	if s.trainer != nil {
		checkMemory(os.Stderr, s.device, s.trainer)
		s.trainer.Close()
	}
	if s.device != nil {
		s.device.Close()
	}
	return err
}
