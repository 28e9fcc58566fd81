package chat

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/trainer/chat/jinja"
)

// CallStyle is how a model writes tool calls (spec/models.md 6.1 to 6.3).
type CallStyle int

// The styles that are known.
const (
	NoCalls   CallStyle = iota
	JSONCalls           // Qwen3: {"name": ..., "arguments": {...}} in <tool_call>
	XMLCalls            // Qwen3.5: <function=...> with <parameter=...> in <tool_call>
)

// Call is one tool call of a reply.
type Call struct {
	Name      string
	Arguments string // JSON object, in the order in which they were written
	// Bad says why the call cannot be made, "" when it can; Name and Arguments
	// are then what could be read.
	Bad string
}

// Calls tells how the template asks for tool calls.
func (t *Template) Calls() CallStyle {
	switch {
	case !strings.Contains(t.source.Template, "<tool_call>"):
		return NoCalls
	case strings.Contains(t.source.Template, "<function="):
		return XMLCalls
	}
	return JSONCalls
}

const (
	callBegin  = "<tool_call>"
	callEnd    = "</tool_call>"
	thoughtEnd = "</think>"
)

// ParseCalls cuts a reply into what it says and the calls that it makes.
// Thoughts are dropped. schemas are those of WithTools; XML arguments take the
// types that they name, and are texts without one.
func ParseCalls(style CallStyle, reply string, schemas [][]byte) (content string, calls []Call, err error) {
	if at := strings.LastIndex(reply, thoughtEnd); at >= 0 {
		reply = strings.TrimLeft(reply[at+len(thoughtEnd):], "\n")
	}
	switch style {
	case JSONCalls:
		content, _, _ = strings.Cut(reply, callBegin)
		return content, jsonCalls(reply), nil
	case XMLCalls:
		types, err := parameterTypes(schemas)
		if err != nil {
			return "", nil, err
		}
		content, _, found := strings.Cut(reply, callBegin)
		if !found && strings.Contains(reply, functionBegin) {
			content, _, _ = strings.Cut(reply, functionBegin)
		}
		return content, xmlCalls(reply, types), nil
	}
	return reply, nil, nil
}

func jsonCalls(reply string) []Call {
	var calls []Call
	for {
		_, after, found := strings.Cut(reply, callBegin)
		body, rest, closed := strings.Cut(after, callEnd)
		if !found || !closed {
			return calls
		}
		calls = append(calls, jsonCall(body))
		reply = rest
	}
}

func jsonCall(body string) Call {
	v, err := jinja.ParseJSON([]byte(body))
	if err != nil {
		return Call{Bad: "no JSON: " + err.Error()}
	}
	object, ok := v.(*jinja.Dict)
	if !ok {
		return Call{Bad: "no JSON object"}
	}
	var c Call
	name, _ := object.Get("name")
	if c.Name, ok = name.(string); !ok || c.Name == "" {
		return Call{Bad: "no name"}
	}
	arguments, _ := object.Get("arguments")
	if _, ok := arguments.(*jinja.Dict); !ok {
		c.Bad = "arguments are no object"
		return c
	}
	if c.Arguments, err = jinja.JSON(arguments); err != nil {
		c.Bad = err.Error()
	}
	return c
}

const (
	functionBegin  = "<function="
	functionEnd    = "</function>"
	parameterBegin = "<parameter="
	parameterEnd   = "</parameter>"
)

// xmlCalls reads every function inside of call tags, or anywhere when there
// are no such tags. A missing end is that of the text.
func xmlCalls(reply string, types map[string]map[string]string) []Call {
	var bodies []string
	for rest := reply; ; {
		_, after, found := strings.Cut(rest, callBegin)
		if !found {
			break
		}
		var body string
		body, rest, _ = strings.Cut(after, callEnd)
		bodies = append(bodies, body)
	}
	if bodies == nil {
		bodies = []string{reply}
	}
	var calls []Call
	for _, body := range bodies {
		for {
			_, after, found := strings.Cut(body, functionBegin)
			if !found {
				break
			}
			var function string
			function, body, _ = strings.Cut(after, functionEnd)
			calls = append(calls, xmlCall(function, types))
		}
	}
	return calls
}

func xmlCall(function string, types map[string]map[string]string) Call {
	name, rest, found := strings.Cut(function, ">")
	if !found || name == "" {
		return Call{Bad: "no name"}
	}
	arguments := jinja.NewDict()
	for {
		_, after, found := strings.Cut(rest, parameterBegin)
		if !found {
			break
		}
		key, value, closed := strings.Cut(after, ">")
		if !closed {
			return Call{Name: name, Bad: "a parameter without a name"}
		}
		end := len(value)
		for _, mark := range []string{parameterEnd, parameterBegin} {
			if at := strings.Index(value, mark); at >= 0 {
				end = min(end, at)
			}
		}
		rest = value[end:]
		value = strings.TrimSuffix(strings.TrimPrefix(value[:end], "\n"), "\n")
		arguments.Set(key, coerce(value, types[name][key]))
	}
	text, err := jinja.JSON(arguments)
	if err != nil {
		return Call{Name: name, Bad: err.Error()}
	}
	return Call{Name: name, Arguments: text}
}

// coerce turns the text of an argument into its type; what does not fit stays
// a text, except that a boolean is true or false.
func coerce(value, kind string) jinja.Value {
	if kind == "" {
		return value
	}
	if strings.EqualFold(value, "null") {
		return nil
	}
	switch {
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"), strings.HasPrefix(kind, "long"), strings.HasPrefix(kind, "short"):
		if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
			return n
		}
	case strings.HasPrefix(kind, "num"), strings.HasPrefix(kind, "float"):
		x, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err == nil && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return int64(x)
		}
		if err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
			return x
		}
	case kind == "boolean" || kind == "bool":
		return strings.EqualFold(strings.TrimSpace(value), "true")
	case kind == "object" || kind == "array" || strings.HasPrefix(kind, "dict") || strings.HasPrefix(kind, "list"):
		if v, err := jinja.ParseJSON([]byte(value)); err == nil {
			return v
		}
	}
	return value
}

// parameterTypes maps function and parameter to the type that the schema names.
func parameterTypes(schemas [][]byte) (map[string]map[string]string, error) {
	types := map[string]map[string]string{}
	for i, schema := range schemas {
		v, err := jinja.ParseJSON(schema)
		if err != nil {
			return nil, fmt.Errorf("schema of tool %d: %w: %w", i, err, ErrMessage)
		}
		function := v
		if inner := member(v, "function"); inner != nil {
			function = inner
		}
		name, _ := member(function, "name").(string)
		properties, _ := member(member(function, "parameters"), "properties").(*jinja.Dict)
		types[name] = map[string]string{}
		if properties == nil {
			continue
		}
		for _, key := range properties.Keys() {
			property, _ := properties.Get(key)
			kind, _ := member(property, "type").(string)
			if kind == "" {
				kind = "string"
			}
			types[name][key] = kind
		}
	}
	return types, nil
}

// member returns v[name], nil when v is no object or has none.
func member(v jinja.Value, name string) jinja.Value {
	if d, ok := v.(*jinja.Dict); ok {
		item, _ := d.Get(name)
		return item
	}
	return nil
}

// FormatCalls writes content and calls as a model of that style would, for a
// demonstration. ErrMessage for a call that has no place in the style.
func FormatCalls(style CallStyle, content string, calls []Call) (string, error) {
	if style == NoCalls && len(calls) > 0 {
		return "", fmt.Errorf("the format has no tool calls: %w", ErrMessage)
	}
	var b strings.Builder
	b.WriteString(content)
	for i, c := range calls {
		v, err := jinja.ParseJSON([]byte(c.Arguments))
		arguments, ok := v.(*jinja.Dict)
		if err != nil || !ok || c.Bad != "" {
			return "", fmt.Errorf("arguments of call %d to %q are no JSON object: %w", i, c.Name, ErrMessage)
		}
		switch {
		case i > 0 || content != "" && style == JSONCalls:
			b.WriteString("\n")
		case content != "":
			b.WriteString("\n\n")
		}
		body := xmlBody
		if style == JSONCalls {
			body = jsonBody
		}
		text, err := body(c.Name, arguments)
		if err != nil {
			return "", fmt.Errorf("call %d to %q: %w: %w", i, c.Name, err, ErrMessage)
		}
		b.WriteString(callBegin + "\n" + text + "\n" + callEnd)
	}
	return b.String(), nil
}

func jsonBody(name string, arguments *jinja.Dict) (string, error) {
	text, err := jinja.JSON(arguments)
	return `{"name": "` + name + `", "arguments": ` + text + `}`, err
}

func xmlBody(name string, arguments *jinja.Dict) (string, error) {
	var b strings.Builder
	b.WriteString(functionBegin + name + ">\n")
	for _, key := range arguments.Keys() {
		value, _ := arguments.Get(key)
		text, err := jinja.Text(value)
		if err != nil {
			return "", err
		}
		b.WriteString(parameterBegin + key + ">\n" + text + "\n" + parameterEnd + "\n")
	}
	return b.String() + functionEnd, nil
}
