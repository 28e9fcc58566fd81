package engine

import (
	"fmt"
	"net/url"
	"strings"
)

// TaskChoice is what a run may say about the tasks of a domain with data. Zero values are
// the domain's defaults; a domain without such a choice refuses it.
type TaskChoice struct {
	Test       int    `json:"test,omitempty"`        // at most so many of each test set; -1 = all, where the domain knows that
	Select     int    `json:"select,omitempty"`      // cut from the training tasks
	Train      int    `json:"train,omitempty"`       // at most so many of the rest
	CallTokens int    `json:"call_tokens,omitempty"` // assistant tokens of one reply
	Themes     string `json:"themes,omitempty"`      // chess: only puzzles with one of these, separated by commas
}

func (t TaskChoice) validate() error {
	for _, c := range []struct {
		name         string
		value, least int
	}{{"test", t.Test, -1}, {"select", t.Select, 0}, {"train", t.Train, 0}, {"call_tokens", t.CallTokens, 0}} {
		if c.value < c.least {
			return fmt.Errorf("%w: tasks.%s is %d, at least %d", ErrConfig, c.name, c.value, c.least)
		}
	}
	return nil
}

// Services are what a domain uses outside of this process. Keys stay in the environment.
type Services struct {
	Retriever  string `json:"retriever,omitempty"`   // searchqa: URL of a Search-R1 retrieval server; empty = the embedded index
	Judge      string `json:"judge,omitempty"`       // searchqa: URL of a chat endpoint; empty = exact match alone
	JudgeModel string `json:"judge_model,omitempty"` // its model
	// Code runs the programs of math: empty = Starlark, a path of micropython.wasm, python3
	// or a path of it, or the URL of a SandboxFusion service.
	Code string `json:"code,omitempty"`
	// Policy are the addresses, with commas, of the model that generates instead of the
	// local one; empty = the local one.
	Policy      string `json:"policy,omitempty"`
	PolicyModel string `json:"policy_model,omitempty"` // its name there
}

// Public is what may stand in a run's files: addresses without user, password and query.
func (s Services) Public() Services {
	for _, address := range []*string{&s.Retriever, &s.Judge, &s.Code} {
		*address = PublicAddress(*address)
	}
	all := strings.Split(s.Policy, ",")
	for i := range all {
		all[i] = PublicAddress(all[i])
	}
	s.Policy = strings.Join(all, ",")
	return s
}

// PublicAddress is an address without what may be a secret. A path stays as it is.
func PublicAddress(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return "(not an address)"
	case u.Host == "":
		return address
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
