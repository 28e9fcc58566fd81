package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/endpoint"
	"github.com/seed-7c27e6b8/whale/trainer"
)

// endpointFlags let a model elsewhere generate.
type endpointFlags struct {
	Endpoint       []string `placeholder:"URL,..." help:"Generate with a model served there, by OpenAI's protocol (whale serve, vLLM, ...); several addresses share the calls. --model then only lends its tokenizer."`
	EndpointModel  string   `placeholder:"NAME" help:"Its name there; needed if it is not the only one."`
	EndpointKeyEnv string   `placeholder:"NAME" help:"Environment variable with the key to send."`
	// One flag for all services that generate: whoever has a slow server has it for both.
	EndpointTimeout *time.Duration `placeholder:"TIME" help:"Limit of one attempt there, from the request to the whole answer (default 5m). A call that fails is tried 4 times."`
}

// waitFlag is the flag's name in errors.
const waitFlag = "--endpoint-timeout"

// check refuses flags that have nothing to work on, before anything starts. A proposer may
// be a service too.
func (f endpointFlags) check(proposer string) error {
	service := services[proposer].open != nil
	switch {
	case f.EndpointTimeout != nil && *f.EndpointTimeout <= 0:
		return usageError{fmt.Errorf("%s is %v; above 0, such as 30s or 5m", waitFlag, *f.EndpointTimeout)}
	case len(f.Endpoint) > 0:
		return nil
	case f.EndpointModel != "" || f.EndpointKeyEnv != "" || f.EndpointTimeout != nil && !service:
		return usageError{errors.New("--endpoint is missing")}
	}
	return nil
}

// wait is how long an attempt may take; 0 = the default.
func (f endpointFlags) wait() time.Duration {
	if f.EndpointTimeout == nil {
		return 0
	}
	return *f.EndpointTimeout
}

// attach makes the endpoint the policy of a site and writes it into the config.
func (f endpointFlags) attach(ctx context.Context, s *site, c *engine.Config) error {
	if len(f.Endpoint) == 0 {
		return nil
	}
	o := endpoint.Options{Addresses: f.Endpoint, Model: f.EndpointModel, Words: words{s.trainer}, Timeout: f.wait(), Setting: waitFlag}
	if f.EndpointKeyEnv != "" {
		if o.Key = os.Getenv(f.EndpointKeyEnv); o.Key == "" {
			return usageError{fmt.Errorf("the environment variable %s of --endpoint-key-env is empty", f.EndpointKeyEnv)}
		}
	}
	policy, err := endpoint.Open(ctx, o)
	if err != nil {
		return err
	}
	s.policy, s.learner = policy, endpoint.Learner{Policy: policy}
	c.Services.Policy, c.Services.PolicyModel = strings.Join(f.Endpoint, ","), policy.Model()
	c.Services = c.Services.Public()
	how := "by text: no token ids or log-probabilities"
	if policy.Exact() {
		how = "by token ids"
	}
	s.notices = append(s.notices, fmt.Sprintf("policy: %s at %s, %s", policy.Model(), c.Services.Policy, how))
	return nil
}

// trainable refuses, before anything starts, a condition that would train what is elsewhere.
func (f endpointFlags) trainable(c engine.Config) error {
	plan := engine.Conditions[c.Condition]
	if len(f.Endpoint) > 0 && plan.Trains() {
		return usageError{fmt.Errorf("condition %s: weights at an endpoint can't be trained; use --condition harness-only", c.Condition)}
	}
	return nil
}

// words are the local tokenizer and chat format.
type words struct{ t *trainer.Trainer }

// Encode implements endpoint.Words.
func (w words) Encode(turns []engine.Turn) ([]int32, error) { return w.t.Policy().Encode(turns) }

// Reply implements endpoint.Words.
func (w words) Reply(text string) []int32 { return w.t.Chat().Reply(text) }

// Text implements endpoint.Words.
func (w words) Text(sampled []int32) string { return w.t.Chat().Text(sampled) }
