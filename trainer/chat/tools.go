package chat

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-7c27e6b8/whale/trainer/chat/jinja"
)

// ErrNoTools marks a chat format that has no place for tools.
var ErrNoTools = errors.New("the chat format has no place for tools")

// Offer returns the format with tools that every conversation is told of, in the form that
// the model was trained on: a template that mentions tools renders them itself, ChatML
// writes them as Qwen3 does when the tokenizer has the tag of its calls. Any other format
// is ErrNoTools. schemas are those of Template.WithTools.
func Offer(format Format, schemas [][]byte) (Format, error) {
	switch f := format.(type) {
	case *Template:
		if strings.Contains(f.source.Template, "tools") {
			return f.WithTools(schemas)
		}
	case *ChatML:
		if _, ok := f.tokens.ID(callBegin); ok {
			return f.WithTools(JSONCalls, schemas)
		}
	}
	return nil, ErrNoTools
}

// What stands around the schemas in the system turn (spec/models.md 6.1 and 6.2).
const (
	jsonHead = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
	jsonTail = "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n" +
		"<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
	xmlHead = "# Tools\n\nYou have access to the following functions:\n\n<tools>"
	xmlTail = "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n" +
		"<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n" +
		"<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n</parameter>\n</function>\n</tool_call>\n\n" +
		"<IMPORTANT>\nReminder:\n" +
		"- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within <tool_call></tool_call> XML tags\n" +
		"- Required parameters MUST be specified\n" +
		"- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after\n" +
		"- If there is no function call available, answer the question like normal with your current knowledge and do not tell the user about function calls\n" +
		"</IMPORTANT>"
)

// WithTools returns ChatML whose system turn offers tools in that style, before the system
// text of the conversation (Qwen3.5) or behind it (Qwen3). Without schemas it is ChatML.
func (c *ChatML) WithTools(style CallStyle, schemas [][]byte) (*ChatML, error) {
	list, err := parseSchemas(schemas)
	if err != nil {
		return nil, err
	}
	with := *c
	with.style, with.offer = NoCalls, ""
	if len(schemas) == 0 {
		return &with, nil
	}
	head, tail := jsonHead, jsonTail
	switch style {
	case JSONCalls:
	case XMLCalls:
		head, tail = xmlHead, xmlTail
	default:
		return nil, ErrNoTools
	}
	var b strings.Builder
	b.WriteString(head)
	for i, schema := range list.Items {
		text, err := jinja.JSON(schema)
		if err != nil {
			return nil, fmt.Errorf("schema of tool %d: %w: %w", i, err, ErrMessage)
		}
		b.WriteString("\n" + text)
	}
	b.WriteString(tail)
	with.style, with.offer = style, b.String()
	return &with, nil
}

// system is the text of the system turn, given that of the conversation, "" for none.
func (c *ChatML) system(content string) string {
	switch {
	case c.style == JSONCalls && content != "":
		return content + "\n\n" + c.offer
	case c.style == XMLCalls && strings.TrimSpace(content) != "":
		return c.offer + "\n\n" + strings.TrimSpace(content)
	case c.style == NoCalls:
		return content
	}
	return c.offer
}

func parseSchemas(schemas [][]byte) (*jinja.List, error) {
	list := jinja.NewList()
	for i, schema := range schemas {
		v, err := jinja.ParseJSON(schema)
		if _, ok := v.(*jinja.Dict); err == nil && !ok {
			err = errors.New("no JSON object")
		}
		if err != nil {
			return nil, fmt.Errorf("schema of tool %d: %w: %w", i, err, ErrMessage)
		}
		list.Items = append(list.Items, v)
	}
	return list, nil
}

// eachText returns a copy of v with shown of every text in it, keys included.
func eachText(v jinja.Value, shown func(string) string) jinja.Value {
	switch x := v.(type) {
	case string:
		return shown(x)
	case *jinja.List:
		out := jinja.NewList()
		for _, item := range x.Items {
			out.Items = append(out.Items, eachText(item, shown))
		}
		return out
	case *jinja.Dict:
		out := jinja.NewDict()
		for _, key := range x.Keys() {
			item, _ := x.Get(key)
			out.Set(shown(key), eachText(item, shown))
		}
		return out
	}
	return v
}
