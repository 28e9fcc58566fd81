package own

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
)

// Settings are what stands in the yaml file beside the tasks; all of it may be missing.
type Settings struct {
	// Verifier is a command and its arguments, started in the folder of the settings.
	Verifier []string `yaml:"verifier"`
	// Each starts a process for every verdict; otherwise a few processes serve one line
	// after the other.
	Each bool `yaml:"each"`
	// Processes at once, default 2.
	Processes int `yaml:"processes"`
	// Seconds for one verdict, the start of a process included, default 10.
	Seconds float64 `yaml:"seconds"`

	Tokens     int `yaml:"tokens"`      // assistant tokens of a rollout, default 2048
	CallTokens int `yaml:"call_tokens"` // of one reply, 0 = only the whole limits it
	Turns      int `yaml:"turns"`       // replies of a rollout, default 8
}

// ErrSettings: settings that can't work.
var ErrSettings = errors.New("bad settings")

// readSettings reads a file; without one all settings are the defaults.
func readSettings(path string) (Settings, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Settings{}, err
	}
	return parseSettings(text)
}

func parseSettings(text []byte) (Settings, error) {
	usual := Settings{Processes: 2, Seconds: 10, Tokens: 2048, Turns: 8}
	s := usual
	if err := decode(text, &s); err != nil {
		return s, fmt.Errorf("%w: %s", ErrSettings, strings.Join(strings.Fields(yaml.FormatError(err, false, false)), " "))
	}
	if s.Processes == 0 && s.Seconds == 0 && s.Tokens == 0 && s.Turns == 0 {
		s = usual // a file without any setting empties the struct
	}
	switch {
	case len(s.Verifier) > 0 && s.Verifier[0] == "":
		return s, fmt.Errorf("%w: verifier names no command", ErrSettings)
	case s.Processes < 1 || s.Processes > 256:
		return s, fmt.Errorf("%w: processes is %d, from 1 to 256", ErrSettings, s.Processes)
	case !(s.Seconds > 0 && s.Seconds <= 3600):
		return s, fmt.Errorf("%w: seconds is %v, above 0 and at most 3600", ErrSettings, s.Seconds)
	case s.Tokens < 1 || s.Turns < 1 || s.CallTokens < 0:
		return s, fmt.Errorf("%w: tokens and turns are at least 1, call_tokens at least 0", ErrSettings)
	}
	return s, nil
}

// decode reads yaml; goccy/go-yaml v1.19.2 panics at some broken documents.
func decode(text []byte, s *Settings) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("broken yaml: %v", p)
		}
	}()
	return yaml.UnmarshalWithOptions(text, s, yaml.Strict())
}
