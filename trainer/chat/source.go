package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

// Files of a model folder that hold a chat template.
const (
	templateFile = "chat_template.jinja"
	configFile   = "tokenizer_config.json"
)

// Format is a chat format: ChatML or a Template. See ChatML for what each
// method promises.
type Format interface {
	Render(messages []Message) ([]int32, error)
	Reply(content string) []int32
	Glue(sampled []int32) []int32
	Text(sampled []int32) string
	Stops() []int32
}

// Open chooses the format of a model folder: its own template when it has one,
// ChatML otherwise.
func Open(files fs.FS, tokens *tokenizer.Tokenizer, eos []int32, thinking Thinking) (Format, error) {
	source, err := ReadSource(files)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return New(tokens, eos)
	case err != nil:
		return nil, err
	}
	source.Thinking = thinking
	return NewTemplate(tokens, source, eos)
}

// ReadSource reads the chat template of a model folder: chat_template.jinja,
// else chat_template of tokenizer_config.json, of several the one named
// "default". fs.ErrNotExist when the folder has none.
func ReadSource(files fs.FS) (Source, error) {
	var config struct {
		Template json.RawMessage `json:"chat_template"`
		BOS      tokenText       `json:"bos_token"`
		EOS      tokenText       `json:"eos_token"`
	}
	text, err := fs.ReadFile(files, configFile)
	if err == nil {
		err = json.Unmarshal(text, &config)
		if err != nil {
			return Source{}, fmt.Errorf("%s: %w: %w", configFile, err, ErrNoTemplate)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Source{}, err
	}
	source := Source{BOS: string(config.BOS), EOS: string(config.EOS)}
	switch text, err := fs.ReadFile(files, templateFile); {
	case err == nil:
		source.Template = string(text)
		return source, nil
	case !errors.Is(err, fs.ErrNotExist):
		return Source{}, err
	}
	source.Template, err = defaultTemplate(config.Template)
	if err != nil {
		return Source{}, fmt.Errorf("%s: %w", configFile, err)
	}
	return source, nil
}

// defaultTemplate reads one template or a list of named ones.
func defaultTemplate(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", fmt.Errorf("no chat template: %w", fs.ErrNotExist)
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &named); err != nil {
		return "", fmt.Errorf("chat_template: %w: %w", err, ErrNoTemplate)
	}
	for _, n := range named {
		if n.Name == "default" {
			return n.Template, nil
		}
	}
	return "", fmt.Errorf("chat_template: none of %d is named default: %w", len(named), ErrNoTemplate)
}

// tokenText is a token as text or as an object with its content.
type tokenText string

// UnmarshalJSON reads both spellings and null.
func (t *tokenText) UnmarshalJSON(b []byte) error {
	var object struct{ Content string }
	if len(b) > 0 && b[0] == '{' {
		err := json.Unmarshal(b, &object)
		*t = tokenText(object.Content)
		return err
	}
	return json.Unmarshal(b, (*string)(t))
}
