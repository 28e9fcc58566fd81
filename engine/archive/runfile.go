package archive

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Format is the version of the folder's layout. A folder of another version is refused.
const Format = 1

// runFile is run.yaml.
type runFile struct {
	Format          int `json:"format"`
	engine.Manifest `yaml:",inline"`
}

// parseManifest checks the version before anything else, since another version may have
// other fields.
func parseManifest(text []byte) (*engine.Manifest, error) {
	var head struct {
		Format *int `json:"format"`
	}
	switch err := decode(text, &head); {
	case err != nil:
		return nil, fmt.Errorf("%w: run.yaml %w", ErrSettings, err)
	case head.Format == nil:
		return nil, fmt.Errorf("%w: run.yaml has no format: the line `format: %d` is missing", ErrSettings, Format)
	case *head.Format != Format:
		return nil, fmt.Errorf("%w: %d, this program has %d", ErrFormat, *head.Format, Format)
	}
	// A setting that this run's version did not have is what it is by default.
	body := runFile{Manifest: engine.Manifest{Config: engine.Defaults()}}
	body.Config.Proposer = "" // left out where it is empty
	if err := Decode(text, &body); err != nil {
		return nil, fmt.Errorf("%w: run.yaml %w", ErrSettings, err)
	}
	body.Config = body.Config.Renewed()
	return &body.Manifest, nil
}

// Settings are the settings in a file that has them by itself, over the ones given, or the
// ones of a run whose run.yaml it is. Its error is one line with the number of the line
// that is at fault.
func Settings(text []byte, over engine.Config) (engine.Config, error) {
	var head struct {
		Format *int `json:"format"`
	}
	if err := decode(text, &head); err == nil && head.Format != nil {
		m, err := parseManifest(text)
		if err != nil {
			return over, err
		}
		return m.Config, nil
	}
	c := over
	if err := Decode(text, &c); err != nil {
		return over, err
	}
	if c == (engine.Config{}) { // goccy/go-yaml empties what an empty document is read into
		return over, nil
	}
	return c, nil
}

// absent lists the settings that a run.yaml has no line for, of those that are always
// written.
func absent(text []byte) []string {
	var there struct {
		Config map[string]any `json:"config"`
	}
	always := map[string]any{}
	full, err := yaml.Marshal(engine.Config{})
	if err != nil || yaml.Unmarshal(full, &always) != nil || decode(text, &there) != nil {
		return nil // only a hint is lost
	}
	var names []string
	for name := range always {
		if _, ok := there.Config[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Decode reads YAML strictly: a key that nobody reads is an error. Errors are one line that
// begins with the number of the line at fault, and say what stands there.
func Decode(text []byte, into any) error { return decode(text, into, yaml.Strict()) }

// decode turns the panics of goccy/go-yaml v1.19.2 at some broken documents into errors.
func decode(text []byte, into any, options ...yaml.DecodeOption) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("is not readable as YAML: %v", p)
		}
	}()
	return explain(text, yaml.UnmarshalWithOptions(text, into, options...))
}

// explain words an error of the decoder for whoever wrote the line.
func explain(text []byte, err error) error {
	if err == nil {
		return nil
	}
	message, line := firstLine(err), 0
	var at yaml.Error
	if errors.As(err, &at) {
		message = at.GetMessage()
		if token := at.GetToken(); token != nil && token.Position != nil {
			line = token.Position.Line
		}
	}
	var mismatch *yaml.TypeError
	var node *yaml.UnexpectedNodeTypeError
	switch {
	case errors.As(err, &mismatch):
		message = "wants " + wanted(mismatch.DstType)
	case errors.As(err, &node):
		message = fmt.Sprintf("wants a %v, not a %v", node.Expected, node.Actual)
	}
	lines := strings.Split(string(text), "\n")
	if line < 1 || line > len(lines) {
		return errors.New(message)
	}
	return fmt.Errorf("line %d, `%.80s`: %s", line, strings.TrimSpace(lines[line-1]), message)
}

// wanted says in words what a field takes.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "a whole number"
	case reflect.Uint, reflect.Uint64, reflect.Uint32:
		return "a whole number from 0 up"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	}
	return "settings of its own, indented below it"
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
